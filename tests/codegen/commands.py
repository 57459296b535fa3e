"""Command lines whose programs are kept as golden files, and run."""

from __future__ import annotations

import shlex

from polygraphy.cli.commands import find, load
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
    "run_shapes_in_turn": (
        "run identity.onnx --onnxrt --input-shapes x:[1,1,2,2] x:[1,1,2,2] --iterations 3",
        0,
    ),
    "run_data_script": ("run identity.onnx --onnxrt --onnx --data-loader-script data_loader.py", 0),
    "run_sequential": ("run identity.onnx --onnxrt --onnx --sequential-runners --validate", 0),
    "run_warm_up": ("run identity.onnx --onnxrt --onnx --warm-up-runs 10 --iterations 20", 0),
    "run_subprocess": ("run identity.onnx --onnxrt --onnx --use-subprocess", 0),
    "run_warm_up_alone": ("run identity.onnx --onnxrt --warm-up 2", 0),
    "run_statistics": (
        "run identity.onnx --onnxrt --onnx --check-error-stat max mean --rtol 1e-5 y:1e-3 --atol y:1e-2",
        0,
    ),
    "run_quantile": (
        "run identity.onnx --onnxrt --onnx --check-error-stat quantile --error-quantile 0.9"
        " --infinities-compare-equal --no-shape-check",
        0,
    ),
    "run_l2": (
        "run identity_fp16.onnx --onnxrt --load-inputs inputs.json --load-outputs outputs_fp32.json"
        " --compare l2 --l2-threshold 1e-3",
        0,
    ),
    "run_compare_several": (
        "run identity.onnx --onnxrt --onnx --compare simple distance_metrics quality_metrics l2"
        " --rtol 1e-3 --l2-threshold 1e-4 y:1e-3 --psnr-threshold 40 --no-shape-check"
        " --save-accuracy-results several.json",
        0,
    ),
    "run_top_k": (
        "run identity.onnx --onnxrt --onnx --postprocess top-3 y:top-2,axis=-2 --compare indices"
        " --index-tolerance 1 --fail-fast --validate",
        0,
    ),
    "run_check_average": (
        "run identity.onnx --onnxrt --onnx --iterations 3 --check-average --compare simple sqnr"
        " --check-error-stat max --allow-missing-outputs",
        0,
    ),
    "run_compare_func_script": (
        "run identity.onnx --onnxrt --onnx --compare-func-script compare.py"
        " --postprocess-func-script compare.py:double --iterations 2",
        0,
    ),
    "run_perceptual_metrics": ("run identity.onnx --onnxrt --onnx --compare perceptual_metrics", 3),
    "run_fail_fast": ("run identity.onnx --onnxrt --onnx --fail-fast --validate", 0),
    "run_providers": ("run identity.onnx --onnxrt --providers CPUExecutionProvider", 0),
    "run_onnx_outputs": (
        "run identity_fp16.onnx --onnxrt --onnx-outputs x_* y --onnx-exclude-outputs y"
        " --graph-optimization-level DISABLE_ALL",
        0,
    ),
    "run_onnx_outputs_all": ("run identity_fp16.onnx --onnxrt --onnx --onnx-outputs *", 0),
    "run_mark_all": (
        "run identity_fp16.onnx --onnxrt --onnx --mark-all --exclude-outputs x_fp16 --validate",
        0,
    ),
    "run_shape_inference": ("run identity_fp16.onnx --onnx --shape-inference", 0),
    "run_save_onnx": (
        "run identity_fp16.onnx --onnxrt --onnx-outputs-by-type Cast --shape-inference"
        " --no-onnxruntime-shape-inference --save-onnx casts.onnx --save-external-data"
        " --external-data-size-threshold 1K --no-save-all-tensors-to-one-file",
        0,
    ),
    "run_verbose": ("run identity.onnx --onnxrt -vv", 0),
    "run_logging": (
        "run identity.onnx --onnxrt --verbosity INFO adapters/onnxruntime:VERBOSE"
        " --log-format timestamp line-info no-colors --log-file run.log",
        0,
    ),
    "run_silent": ("run identity.onnx --onnxrt --silent", 0),
    "inspect_data": ("inspect data inputs.json", 0),
    "inspect_data_detailed": (
        "inspect data outputs_fp32.json outputs --all --show-values --histogram --statistics -n 2"
        " --line-width 60",
        0,
    ),
    "inspect_diff": ("inspect diff golden.json outputs_fp32.json", 0),
    "inspect_diff_tolerance": (
        "inspect diff inputs.json inputs --rtol 1e-3 x:1e-2 --atol 1e-3 --fail-fast",
        1,
    ),
    "check_accuracy": ("check accuracy accuracy.json", 1),
    "check_accuracy_anew": (
        "check accuracy accuracy.json --rtol 1e-4 y:1e-2 --atol 0 --check-error-stat max mean",
        0,
    ),
    "check_accuracy_thresholds": (
        "check accuracy accuracy.json --psnr-threshold 40 y:30",
        2,
    ),
    "data_concat": ("data concat inputs.json inputs -o more_inputs.json", 0),
    "data_merge": ("data merge inputs.json golden.json -o merged.json", 0),
    "data_to_input": ("data to-input golden.json -o input.json", 0),
    "data_convert": ("data convert inputs.json converted", 0),
    "doctor": ("doctor --log-file doctor.log", 0),
}


def rendered(command: str) -> str:
    """Return the program of a command line, as it is run."""
    name, words = find(shlex.split(command))
    chosen = load(name)
    parsed = parse(chosen, words)
    return chosen.render(parsed, ["polygraphy", *name.split(), *_without_script(words)])
