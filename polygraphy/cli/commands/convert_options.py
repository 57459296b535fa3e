"""What a model is converted to."""

from __future__ import annotations

from polygraphy.cli.backends.built_in import Target
from polygraphy.cli.backends.registry import declared_in
from polygraphy.cli.declare.kinds import Choice
from polygraphy.cli.declare.option import Options, option, option_group

CONVERSIONS = [each.conversion for each in declared_in("trt.backend") if each.conversion]
"""What backends make of models, where these backends are there."""

TARGETS = {
    "onnx": Target("an ONNX model", "_converted.onnx", "onnx"),
    **{to: made for each in CONVERSIONS for to, made in each.targets.items()},
}
"""What there is to convert to."""


@option_group
class ConvertOptions(Options):
    """Conversion: what the model becomes, and where that is saved."""

    output: str | None = option(
        "-o",
        "--output",
        writes=True,
        help="Where to save it.",
        otherwise="named after the model, in the current folder",
    )
    convert_to: str | None = option(
        "--convert-to",
        kind=Choice(*TARGETS),
        help="What it becomes: an ONNX model, a TensorRT engine, or an ONNX file that shows a"
        " TensorRT network but cannot be run.",
        otherwise="as the extension of --output says",
    )
