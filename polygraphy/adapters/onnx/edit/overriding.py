"""Gives the inputs of an ONNX model other shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.onnx.graph.editing import edited
from polygraphy.adapters.onnx.graph.shapes import set_shape
from polygraphy.adapters.onnx.storage.weights import all_graphs
from polygraphy.adapters.onnx_common.messages import inputs_of
from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.naming import counted, matching
from polygraphy.domain.tensors.shapes import Shape
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto


override_input_shapes: Callable[..., ModelProto]


@mod.export(funcify=True)
class OverrideInputShapes(BaseLoader):
    """Gives inputs of an ONNX model other shapes, and forgets the shapes that follow from them."""

    def __init__(self, model: Deferred[ModelProto], shapes: Mapping[str, Shape]) -> None:
        """Set which shapes.

        Args:
            model: the model, which is changed in place, or a loader that makes it.
            shapes: the shapes by the names of inputs, which may be patterns; a dimension may be a
                name, or any where it is None or negative.
        """
        self._model = model
        self._shapes = shapes

    def call_impl(self) -> ModelProto:
        """Return the model; infer the shapes of its other tensors again.

        Raises:
            UnknownNameError: the model has no input of a name.
            UsageError: an input is no tensor.
        """
        return edited(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        inputs = {value.name: value for value in inputs_of(model.graph)}
        for word, shape in self._shapes.items():
            for name in matching([word], inputs, what="Input"):
                if inputs[name].type.WhichOneof("value") != "tensor_type":
                    raise UsageError(f"Input {name!r} is no tensor, so it has no shape.")
                rank = _rank(inputs[name])
                if rank is not None and rank != len(shape):
                    G_LOGGER.warning(
                        f"Input {name!r} has {counted(rank, 'dimension')} in the model, and"
                        f" {len(shape)} in its new shape."
                    )
                set_shape(inputs[name], shape)
        for graph in all_graphs(model.graph):
            for value in graph.value_info:
                if value.type.WhichOneof("value") == "tensor_type":
                    value.type.tensor_type.ClearField("shape")
        for value in model.graph.output:
            tensor = value.type.tensor_type
            if value.type.WhichOneof("value") == "tensor_type" and tensor.HasField("shape"):
                set_shape(value, [None] * len(tensor.shape.dim))
        return model


def _rank(value: ValueInfoProto) -> int | None:
    """Return how many dimensions an input has; None where its model does not say."""
    tensor = value.type.tensor_type
    return len(tensor.shape.dim) if tensor.HasField("shape") else None
