"""Which backends."""

from __future__ import annotations

from attrs import frozen

from polygraphy.cli.kinds import Ordered, Text, Texts
from polygraphy.cli.option import Options, option

__all__ = ["OnnxrtOptions", "RunOptions", "RunnerOptions"]

RUNNERS = {"--onnxrt": "onnxrt", "--onnx": "onnx"}
_HELP = {
    "--onnxrt": "Run the model in ONNX Runtime.",
    "--onnx": (
        "Run the model in the reference evaluator of the onnx package: slow, and true to the"
        " standard."
    ),
}


@frozen
class RunnerOptions(Options):
    """Runners: the backends that run the model, in the order of the command line; a flag may
    repeat.
    """

    runners: tuple[str, ...] = option(
        *RUNNERS,
        kind=Ordered(RUNNERS, _HELP),
        default=(),
        help="The backends that run the model, in the order of the command line.",
    )


@frozen
class OnnxrtOptions(Options):
    """ONNX Runtime Sessions: how ONNX Runtime runs the model."""

    providers: tuple[str, ...] | None = option(
        "--providers",
        "--execution-providers",
        kind=Texts("PROVIDER"),
        help=(
            "Execution providers in order of priority, by name or by a unique part of it; cpu"
            " unless given."
        ),
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
            " file per iteration."
        ),
    )
    save_outputs: str | None = option(
        "--save-outputs",
        "--save-results",
        kind=Text("PATH"),
        help="Save the outputs of all runners, likewise.",
    )
