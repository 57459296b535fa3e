"""What type of model a file holds, by its name."""

from __future__ import annotations

from polygraphy.domain.errors import UsageError

__all__ = ["kind_of", "technology_of"]

_BY_EXTENSION = {
    ".onnx": "onnx",
    ".engine": "engine",
    ".plan": "engine",
    ".trt": "engine",
    ".py": "trt-network-script",
    ".pb": "frozen",
    ".graphdef": "frozen",
    ".keras": "keras",
    ".h5": "keras",
    ".hdf5": "keras",
}
_REMOVED = {".uff": "uff", ".prototxt": "caffe"}
_KINDS = (*dict.fromkeys(_BY_EXTENSION.values()), "saved-model", "ckpt")
_TECHNOLOGIES = {
    "onnx": "onnx",
    "engine": "tensorrt",
    "trt-network-script": "tensorrt",
    "frozen": "tensorflow",
    "keras": "tensorflow",
    "saved-model": "tensorflow",
    "ckpt": "tensorflow",
}


def kind_of(path: str, model_type: str | None = None) -> str:
    """Return the type of a model: the one that is given, else what the file extension says; a file
    with another extension is taken for an ONNX model.

    Raises:
        UsageError: models of the type are not described.
    """
    if model_type is None:
        lowered = path.lower().rpartition(":")[0] if ".py:" in path.lower() else path.lower()
        removed = next((kind for end, kind in _REMOVED.items() if lowered.endswith(end)), None)
        if removed is not None:
            raise UsageError(
                f"{path} is a model of type {removed}, which no TensorRT of today reads.",
                hint="Convert it to ONNX with the tools of its framework, and give that.",
            )
        return next((kind for end, kind in _BY_EXTENSION.items() if lowered.endswith(end)), "onnx")
    if model_type not in _KINDS:
        raise UsageError(
            f"Models of type {model_type!r} cannot be described.",
            hint=f"Types that can: {', '.join(_KINDS)}.",
        )
    return model_type


def technology_of(kind: str) -> str:
    """Return what reads models of a type: ``onnx``, ``tensorflow`` or ``tensorrt``."""
    return _TECHNOLOGIES[kind]
