"""How models are checked."""

from __future__ import annotations

from collections.abc import Mapping

from polygraphy.cli.backends.registry import built_in
from polygraphy.cli.declare.kinds import Ordered, Shapes, Text
from polygraphy.cli.declare.option import Options, option, option_group

_TRIED = {
    "onnxrt": "Try ONNX Runtime.",
    "onnx": "Try the reference evaluator of the onnx package.",
    "trt": "Try TensorRT.",
    "tf": "Try TensorFlow.",
}
_HELP = {built_in()[name].flag: text for name, text in _TRIED.items() if name in built_in()}
_BACKENDS = {each.flag: name for name, each in built_in().items() if name in _TRIED}


@option_group
class CheckedModelOptions(Options):
    """Model: the model that is checked."""

    path: str = option(reads="Model", kind=Text("MODEL"), default="", help="Path of the model.")
    input_shapes: Mapping[str, tuple[tuple[int, ...], ...]] | None = option(
        "--input-shapes",
        "--inputs",
        kind=Shapes(),
        help="Shapes of inputs for generated data, as in --input-shapes image:[1,3,224,224].",
    )


@option_group
class LintOptions(Options):
    """Report: what was found."""

    output: str | None = option(
        "-o", "--output", writes=True, help="Save the report as JSON.", feeds="check_lint.output"
    )


@option_group
class BackendOptions(Options):
    """Backends: which are tried; all that are installed unless some are named."""

    backends: tuple[str, ...] = option(
        *_BACKENDS, kind=Ordered(_BACKENDS, _HELP), help="The backends that are tried."
    )
