"""Conversion from and to graphs of onnx-graphsurgeon, which some scripts use."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.onnx.storage.elements import elements_from_bytes
from polygraphy.adapters.onnx.storage.weights import (
    all_graphs,
    is_stored,
    load_stored,
    map_weight_bytes,
)
from polygraphy.adapters.onnx_common.loadable import evaluate_model

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto, TensorProto


gs_from_onnx: Callable[..., Any]

gs = mod.lazy_import("onnx_graphsurgeon>=0.3.21")
gs_tensor = mod.lazy_import("onnx_graphsurgeon.ir.tensor")


@mod.export(funcify=True)
class GsFromOnnx(BaseLoader):
    """Creates an onnx-graphsurgeon graph from an ONNX model."""

    def __init__(self, model: Deferred[ModelProto]) -> None:
        """Create a loader of an onnx-graphsurgeon graph from a model or a loader."""
        self._model = model

    def call_impl(self) -> Any:
        """Return the `onnx_graphsurgeon.Graph`."""
        return import_graph(evaluate_model(self._model))


def import_graph(model: ModelProto) -> Any:
    """Return an ONNX model as an onnx-graphsurgeon graph.

    Stored weights stay in their files: the values of a constant are mapped from there, and changes
    to them stay in memory. Weights of subgraphs are loaded.
    """
    graph = gs.import_onnx(model)
    stored = {tensor.name: tensor for tensor in model.graph.initializer if is_stored(tensor)}
    for name, constant in graph.tensors().items() if stored else ():
        if name in stored and isinstance(constant, gs.Constant):
            constant.values = _lazy_values_class()(stored[name])
            constant.data_location = None  # The values are in memory now, not in an external file.
    for inner in all_graphs(model.graph):
        if inner is not model.graph:
            for tensor in inner.initializer:
                load_stored(tensor)
    return graph


@cache
def _lazy_values_class() -> Any:
    """Return the class for values that stay in a file; it exists once the package is imported."""

    class StoredValues(gs_tensor.LazyValues):  # type: ignore[misc, name-defined]
        """Values of a stored weight."""

        def __init__(self, stored: TensorProto) -> None:
            """Set the stored weight."""
            facts = vars(gs_tensor.LazyValues(stored))
            self._stored = facts.pop("tensor")
            self.__dict__.update(facts)

        @property
        def tensor(self) -> TensorProto:
            """Return the weight with its elements, for exporting."""
            new_tensor: TensorProto = type(self._stored)()
            new_tensor.CopyFrom(self._stored)
            load_stored(new_tensor)
            return new_tensor

        def load(self) -> np.ndarray[Any, Any]:
            """Return the elements, mapped from their file."""
            return elements_from_bytes(
                self._stored, map_weight_bytes(self._stored, is_writable=True)
            )

    return StoredValues


def as_onnx(model: Any) -> ModelProto:
    """Return an `onnx.ModelProto` from an onnx-graphsurgeon graph.
    A model is returned unchanged."""
    onnx: ModelProto = model if hasattr(model, "SerializeToString") else gs.export_onnx(model)
    return onnx


def convert_like(original: Any, model: ModelProto) -> Any:
    """Return a model in the same form as `original`:
    an `onnx.ModelProto` or an onnx-graphsurgeon graph."""
    return model if hasattr(original, "SerializeToString") else import_graph(model)
