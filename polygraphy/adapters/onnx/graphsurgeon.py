"""The border to onnx-graphsurgeon, whose graphs some scripts work with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.common.loader import BaseLoader, Deferred, evaluate

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["GsFromOnnx", "as_onnx", "gs_from_onnx", "like"]

gs_from_onnx: Callable[..., Any]

gs = mod.lazy_import("onnx_graphsurgeon>=0.3.21")


@mod.export(funcify=True)
class GsFromOnnx(BaseLoader):
    """Makes an onnx-graphsurgeon graph of an ONNX model."""

    def __init__(self, model: Deferred[ModelProto]) -> None:
        """Take the model, or a loader that makes it."""
        self._model = model

    def call_impl(self) -> Any:
        """Return the `onnx_graphsurgeon.Graph`."""
        return gs.import_onnx(evaluate(self._model))


def as_onnx(model: Any) -> ModelProto:
    """Return a model as an `onnx.ModelProto`, whether it is one or an onnx-graphsurgeon graph."""
    made: ModelProto = model if hasattr(model, "SerializeToString") else gs.export_onnx(model)
    return made


def like(given: Any, model: ModelProto) -> Any:
    """Return a model as what was given was."""
    return model if hasattr(given, "SerializeToString") else gs.import_onnx(model)
