"""What a model is converted to."""

from __future__ import annotations

from polygraphy.cli.declare.kinds import Choice, Text
from polygraphy.cli.declare.option import Options, option, option_group

TARGETS = ("onnx", "trt", "onnx-like-trt-network")


@option_group
class ConvertOptions(Options):
    """Conversion: what the model becomes, and where that is saved."""

    output: str | None = option(
        "-o",
        "--output",
        writes=True,
        kind=Text("PATH"),
        help="Where to save it.",
        otherwise="named after the model, in the current folder",
    )
    convert_to: str | None = option(
        "--convert-to",
        kind=Choice(*TARGETS),
        help=(
            "What it becomes: an ONNX model, a TensorRT engine, or an ONNX file that shows a"
            " TensorRT network but cannot be run."
        ),
        otherwise="as the extension of --output says",
    )
