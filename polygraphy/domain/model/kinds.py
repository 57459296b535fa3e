"""What type of model a file holds, by its name."""

from __future__ import annotations

from polygraphy.domain.catalog.formats import FORMATS, format_named
from polygraphy.domain.errors import UsageError

_KINDS = tuple(name for name, each in FORMATS.items() if each.technology)


def kind_of(path: str, model_type: str | None = None) -> str:
    """Return the type of a model: the one that is given, else what the file extension says; a file
    with another extension is taken for an ONNX model.

    Raises:
        UsageError: models of the type are not described.
    """
    if model_type is None:
        kind = format_named(path) or "onnx"
        if not technology_of(kind):
            raise UsageError(
                f"{path} is a model of type {kind}, which no TensorRT of today reads.",
                hint="Convert it to ONNX with the tools of its framework, and give that.",
            )
        return kind
    if model_type not in _KINDS:
        raise UsageError(
            f"Models of type {model_type!r} cannot be described.",
            hint=f"Types that can: {', '.join(_KINDS)}.",
        )
    return model_type


def technology_of(kind: str) -> str:
    """Return what reads models of a type, as `ModelFormat` names it; empty for nothing."""
    return FORMATS[kind].technology
