"""Which model."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from polygraphy.cli.kinds import Choice, Shapes, Text
from polygraphy.cli.option import Options, option

__all__ = ["MODEL_TYPES", "ModelOptions", "model_type"]

MODEL_TYPES = ("frozen", "keras", "ckpt", "onnx", "engine", "uff", "trt-network-script", "caffe")
_BY_EXTENSION = {
    ".onnx": "onnx",
    ".engine": "engine",
    ".plan": "engine",
    ".py": "trt-network-script",
    ".hdf5": "keras",
    ".h5": "keras",
    ".keras": "keras",
    ".graphdef": "frozen",
    ".pb": "frozen",
    ".uff": "uff",
    ".prototxt": "caffe",
}


@frozen
class ModelOptions(Options):
    """Model: the model, and the shapes of its inputs."""

    model_file: str | None = option(kind=Text("MODEL", nargs="?"), help="Path of the model.")
    model_type: str | None = option(
        "--model-type",
        kind=Choice(*MODEL_TYPES),
        help="Type of the model; follows from the file extension unless given.",
    )
    input_shapes: Mapping[str, tuple[tuple[int, ...], ...]] | None = option(
        "--input-shapes",
        "--inputs",
        kind=Shapes(),
        help=(
            "Shapes of inputs, as in --input-shapes image:[1,3,224,224] mask:[1,224,224]. Names may"
            " be patterns. Data are generated in these shapes; an input that is given several takes"
            " them in turn."
        ),
    )


def model_type(options: ModelOptions) -> str | None:
    """Return the type of the model, None when nothing tells it."""
    if options.model_type is not None or options.model_file is None:
        return options.model_type
    lowered = options.model_file.lower()
    return next((kind for end, kind in _BY_EXTENSION.items() if lowered.endswith(end)), None)
