"""Which backends."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds import (
    Flag,
    Folder,
    Integer,
    Number,
    Ordered,
    Provider,
    Providers,
    Text,
)
from polygraphy.cli.declare.option import Options, option

RUNNERS = {
    "--onnxrt": "onnxrt",
    "--onnx": "onnx",
    "--trt": "trt",
    "--trt-engine": "trt_engine",
    "--tf": "tf",
    "--pluginref": "pluginref",
    "--torch": "torch",
}
_HELP = {
    "--onnxrt": "Run the model in ONNX Runtime.",
    "--onnx": (
        "Run the model in the reference evaluator of the onnx package: slow, and true to the"
        " standard."
    ),
    "--trt": (
        "Run the model in TensorRT: build an engine from an ONNX model or a network script, or load"
        " the engine that the model is."
    ),
    "--trt-engine": "Run a saved TensorRT engine, besides what runs the model.",
    "--tf": "Run the model in TensorFlow.",
    "--pluginref": "Run the model in NumPy, by reference implementations of plugins.",
    "--torch": (
        "Run a PyTorch model: what a function in a script returns (script.py:load_model), an"
        " exported program (.pt2) or TorchScript (.pt)."
    ),
}
_TEXTS = {"--trt-engine": "PATH", "--torch": "MODEL"}


@frozen
class RunnerOptions(Options):
    """Runners: the backends that run the model, in the order of the command line; a flag may
    repeat.
    """

    runners: tuple[str, ...] = option(
        *RUNNERS,
        reads="Model",
        kind=Ordered(RUNNERS, _HELP, _TEXTS),
        default=(),
        help="The backends that run the model, in the order of the command line.",
    )


class _OptimizationLevel(Text):
    """A level of ONNX Runtime's graph optimisation, in any case, with or without ``ORT_``."""

    choices = ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_LAYOUT", "ENABLE_ALL")

    def __init__(self) -> None:
        super().__init__("LEVEL")

    def parse(self, words: Sequence[str]) -> str:
        """Return the level as it is called everywhere here."""
        level = words[0].upper().removeprefix("ORT_")
        if level not in self.choices:
            raise BadValue(f"{words[0]!r} is none of {', '.join(self.choices)}")
        return level


@frozen
class OnnxrtOptions(Options):
    """ONNX Runtime Sessions: how ONNX Runtime runs the model."""

    providers: tuple[Provider, ...] | None = option(
        "--providers",
        "--execution-providers",
        kind=Providers(),
        help=(
            "Execution providers in order of priority, by name or by a unique part of it, perhaps"
            " with their options; cpu unless given."
        ),
    )
    graph_optimization_level: str | None = option(
        "--graph-optimization-level",
        kind=_OptimizationLevel(),
        help="How much ONNX Runtime optimises the model; it decides itself unless given.",
    )


@frozen
class OnnxrtThreadOptions(Options):
    """ONNX Runtime Threads: on how many cores ONNX Runtime runs the model."""

    threads: int | None = option(
        "--intra-op-threads",
        kind=Integer(minimum=1),
        help="How many threads compute an operator of the model; as many as the process may use"
        " cores unless given.",
    )


@frozen
class OrderOptions(Options):
    """Order: how the runners take turns."""

    sequential_runners: bool = option(
        "--sequential-runners",
        kind=Flag(),
        help="Run one runner after the other on all data, instead of all runners side by side, one"
        " iteration at a time. All results are kept in memory.",
    )
    warm_up: int | None = option(
        "--warm-up",
        "--warm-up-runs",
        kind=Integer(minimum=0),
        help="How often each runner runs the first iteration beforehand, untimed; runs one runner"
        " after the other.",
    )
    use_subprocess: bool = option(
        "--use-subprocess",
        kind=Flag(),
        help="Run each runner in a process of its own, one after the other: when one crashes, the"
        " others go on, and the exit code is 3.",
    )
    subprocess_timeout: float | None = option(
        "--subprocess-timeout",
        kind=Number(minimum=0),
        help="Seconds that each of these processes may take; then it is ended, as if it had"
        " crashed. It may take as long as it likes unless given.",
    )


@frozen
class RunOptions(Options):
    """Results: what is kept of a run."""

    save_inputs: str | None = option(
        "--save-inputs",
        "--save-input-data",
        kind=Text("PATH"),
        help=(
            "Save the input data: to one JSON file, or without file extension to a folder with one"
            " file per iteration; or as .safetensors."
        ),
    )
    save_input_blob: str | None = option(
        "--save-input-blob",
        kind=Folder(),
        help="Save the input data as bare bytes, to a folder for each iteration with one file per"
        " input; in the current folder, unless another one is named.",
    )
    save_outputs: str | None = option(
        "--save-outputs",
        "--save-results",
        kind=Text("PATH"),
        help="Save the outputs of all runners, likewise.",
    )
