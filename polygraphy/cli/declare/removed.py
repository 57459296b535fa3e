"""Options that are no longer, or that other tools call so: what each command says about them.

One row per option, in `_ROWS`. A row that `takes` words is about something that changes no result:
it is accepted, and a warning says why it has no effect. Any other is refused with its advice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Removed(NamedTuple):
    """An option that is not declared.

    Attributes:
        flags: its spellings.
        commands: where it was taken; a group stands for all of its commands.
        advice: what to do instead, as a sentence that begins after the flag.
        takes: how many words follow it, as argparse counts, where it is accepted; None where it is
            refused.
    """

    flags: tuple[str, ...]
    commands: tuple[str, ...]
    advice: str
    takes: Any = None


_NETWORKS = ("run", "convert", "inspect model", "template trt-network", "debug")
_BUILDS = ("run", "convert", "template trt-config", "debug build", "debug precision")
_DATA = (*_BUILDS, "check lint", "surgeon", "debug reduce", "plugin autotune")
_PATTERNS = ("plugin match", "plugin list", "plugin replace")
_NO_DATA = "has no effect: the model is not run here."

_ROWS = (
    # Of older versions of this command line.
    Removed(
        ("--int-min", "--int-max", "--float-min", "--float-max"),
        _DATA,
        "is --val-range now: --val-range MIN,MAX for all inputs, INPUT:MIN,MAX for one.",
    ),
    Removed(
        ("--explicit-precision", "--explicit-batch"),
        _NETWORKS,
        "has no effect: TensorRT takes every network so.",
        0,
    ),
    Removed(
        ("--strict-types", "--obey-precision-constraints"),
        _BUILDS,
        "is --precision-constraints obey now.",
    ),
    Removed(("--max-workspace-size",), _BUILDS, "is --pool-limit workspace:SIZE now."),
    Removed(
        ("--trt-legacy", "--uff-order", "--caffe-model", "--parser", "--preprocessor"),
        ("run",),
        "is about networks that TensorRT no longer takes. Convert the model to ONNX and use --trt.",
    ),
    Removed(
        ("--trtexec",), ("run",), "was an extension's. Use --trt, which runs the engine itself."
    ),
    Removed(
        ("--save-timing-cache",), ("inspect model",), "has no effect: nothing is built here.", 1
    ),
    # Of NVIDIA's Polygraphy, where a command has no use for them.
    Removed(
        ("--fp-to-fp16",),
        (
            "inspect model",
            "inspect capability",
            "inspect sparsity",
            "check lint",
            "template trt-network",
            "template shard-hints",
            "multi-device shard",
        ),
        "is an option of convert: polygraphy convert MODEL --fp-to-fp16 -o fp16.onnx, and give this"
        " command that model.",
    ),
    Removed(
        ("--ckpt", "--tf-outputs", "--freeze-graph", "--opset"),
        ("template trt-network",),
        "is about TensorFlow. Make an ONNX model of it first, with polygraphy convert.",
    ),
    Removed(
        (
            *("--seed", "--iterations", "--iters", "--data-loader-backend-module"),
            *("--data-loader-script", "--data-loader-func-name"),
            *("--int-min", "--int-max", "--float-min", "--float-max"),
        ),
        _PATTERNS,
        _NO_DATA,
        1,
    ),
    Removed(("--val-range", "--load-inputs", "--load-input-data"), _PATTERNS, _NO_DATA, "+"),
    Removed(("--input-shapes", "--inputs"), (*_PATTERNS, "template onnx-gs"), _NO_DATA, "+"),
    Removed(
        ("--model-type",), _PATTERNS, "has no effect: these models always are of type onnx.", 1
    ),
    Removed(
        (
            "--compare-func-script",
            "--no-shape-check",
            "--infinities-compare-equal",
            "--error-quantile",
        ),
        ("check accuracy",),
        "needs the outputs, which are not saved with the verdicts. Compare saved outputs again:"
        " polygraphy run --load-outputs A.json B.json.",
    ),
    Removed(
        (
            "--save-accuracy-results",
            "--save-heatmaps",
            "--show-heatmaps",
            "--save-error-metrics-plot",
            "--show-error-metrics-plot",
        ),
        ("check accuracy",),
        "is an option of polygraphy run.",
    ),
    Removed(
        ("--fail-fast",),
        ("check accuracy",),
        "has no effect: no time is to be gained where all verdicts are there.",
        0,
    ),
    # As data concat and data merge have it.
    Removed(
        ("-o", "--output"),
        ("data convert",),
        "does not exist: the output stands last, without a flag, as in data convert inputs.json"
        " inputs.safetensors.",
    ),
    # As other tools call them.
    Removed(
        ("--gpu", "--cuda"),
        ("run", "diagnose", "debug reduce"),
        "does not exist: each backend has its own. ONNX Runtime runs on a GPU with --providers cuda"
        " (onnxruntime-gpu), PyTorch with --torch-device cuda, OpenVINO with --openvino-device GPU;"
        " TensorRT always does.",
    ),
    # Of trtexec.
    Removed(("--shapes",), ("run", "convert", "debug"), "is --input-shapes here."),
    Removed(("--minShapes",), _BUILDS, "is --trt-min-shapes here."),
    Removed(("--optShapes",), _BUILDS, "is --trt-opt-shapes here."),
    Removed(("--maxShapes",), _BUILDS, "is --trt-max-shapes here."),
    Removed(("--saveEngine",), ("run", "convert"), "is --save-engine of run, and -o of convert."),
    Removed(
        ("--loadEngine",), ("run",), "does not exist: the engine is the model, as in run x.engine."
    ),
    Removed(("--timingCacheFile",), _BUILDS, "is --load-timing-cache and --save-timing-cache."),
    Removed(("--memPoolSize",), _BUILDS, "is --pool-limit here, as in --pool-limit workspace:1G."),
    Removed(("--builderOptimizationLevel",), _BUILDS, "is --builder-optimization-level here."),
    Removed(("--best",), _BUILDS, "is --tf32 --fp16 --int8 here."),
    Removed(("--noTF32",), _BUILDS, "has no effect: without --tf32, TF32 is off.", 0),
)


def removed_from(command: str) -> Sequence[Removed]:
    """Return the rows about one command, ``surgeon extract`` for instance."""
    group = command.partition(" ")[0]
    return [row for row in _ROWS if command in row.commands or group in row.commands]
