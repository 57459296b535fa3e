"""Command lines whose programs are kept as golden files, and run."""

from __future__ import annotations

import shlex

from polygraphy.cli.commands import load
from polygraphy.cli.main import _without_script
from polygraphy.cli.parser import parse

__all__ = ["COMMANDS", "rendered"]

# In this order, because later ones read what earlier ones write. The number is the exit code of the program.
COMMANDS: dict[str, tuple[str, int]] = {
    "run_onnxrt": ("run identity.onnx --onnxrt", 0),
    "run_onnx": ("run identity.onnx --onnx", 0),
    "run_onnxrt_onnx": ("run identity.onnx --onnxrt --onnx", 0),
    "run_onnxrt_twice": ("run identity.onnx --onnxrt --onnxrt", 0),
    "run_tolerance": ("run identity.onnx --onnxrt --onnx --rtol 1e-3", 0),
    "run_save": (
        "run --onnxrt identity.onnx --save-inputs inputs.json --save-outputs outputs_fp32.json",
        0,
    ),
    "run_save_folders": (
        "run --onnxrt identity.onnx --save-inputs inputs --save-outputs outputs --iterations 2",
        0,
    ),
    "run_golden_outputs": ("run identity.onnx --onnxrt --save-outputs golden.json", 0),
    "run_compare_loaded": (
        "run --onnxrt identity_fp16.onnx --load-inputs inputs.json --load-outputs outputs_fp32.json"
        " --atol 0.001 --rtol 0.001",
        0,
    ),
    "run_compare_fails": (
        "run --onnxrt identity_fp16.onnx --load-inputs inputs.json --load-outputs outputs_fp32.json",
        1,
    ),
    "run_loaded_only": ("run --load-outputs outputs_fp32.json golden.json --rtol 1e-2", 0),
    "run_loaded_folder": (
        "run identity.onnx --onnxrt --load-inputs inputs --load-outputs outputs",
        0,
    ),
    "run_validate": ("run --onnxrt identity_fp16.onnx --validate", 0),
    "run_data": (
        "run identity.onnx --onnxrt --onnx --seed 7 --iterations 3 --val-range [-1,1] x:[0,5]"
        " --input-shapes x:[1,1,2,2]",
        0,
    ),
    "run_statistics": (
        "run identity.onnx --onnxrt --onnx --check-error-stat max mean --rtol 1e-5 y:1e-3 --atol y:1e-2",
        0,
    ),
    "run_quantile": (
        "run identity.onnx --onnxrt --onnx --check-error-stat quantile --error-quantile 0.9"
        " --infinities-compare-equal --no-shape-check",
        0,
    ),
    "run_fail_fast": ("run identity.onnx --onnxrt --onnx --fail-fast --validate", 0),
    "run_providers": ("run identity.onnx --onnxrt --providers CPUExecutionProvider", 0),
    "run_verbose": ("run identity.onnx --onnxrt -vv", 0),
    "run_logging": (
        "run identity.onnx --onnxrt --verbosity INFO adapters/onnxruntime:VERBOSE"
        " --log-format timestamp line-info no-colors --log-file run.log",
        0,
    ),
    "run_silent": ("run identity.onnx --onnxrt --silent", 0),
}


def rendered(command: str) -> str:
    """Return the program of a command line, as it is run."""
    name, *words = shlex.split(command)
    chosen = load(name)
    return chosen.render(parse(chosen, words), ["polygraphy", name, *_without_script(words)])
