"""The parts of an ONNX model's outputs; the rules are in `polygraphy.domain.model.parts`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy import mod
from polygraphy.adapters.onnx.graph.graph import graph_weights
from polygraphy.adapters.onnx.graph.shapes import infer_value_infos, shape_of, value_infos
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx_common.messages import all_nodes, attribute_named, graphs_of
from polygraphy.domain.model.parts import Maker, layout_of
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.parts import Layout
from polygraphy.domain.tensors.precision import is_float
from polygraphy.domain.tensors.shapes import Dim

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

onnx = mod.lazy_import("onnx")

_SMALL = 4096
"""Constants with more elements are not axes, sizes, scales or fill values."""
_LARGE = 1 << 20
"""The sizes of channels of a larger weight are not computed, to save time."""
_CONSTANT_OF_CONSTANTS = frozenset({"Cast", "ConstantOfShape", "Expand", "Identity", "Unsqueeze"})


def layouts_of(model: ModelProto, bounded: Collection[str]) -> dict[str, Layout]:
    """Return the layout of each output of a model, by name.

    Args:
        model: the model.
        bounded: the tensors whose elements always lie between -1 and 1.
    """
    graph = _Graph(model, bounded)
    return {value.name: layout_of(value.name, graph) for value in model.graph.output}


class _Graph:
    """Implements `polygraphy.domain.model.parts.PartsGraph` for an ONNX graph."""

    def __init__(self, model: ModelProto, bounded: Collection[str]) -> None:
        """Set the model, and the tensors that are known to be bounded."""
        self._model = model
        self._bounded = bounded
        self._nodes: dict[str, NodeProto] = {
            name: node for node in all_nodes(model.graph) for name in node.output if name
        }
        self._shapes: dict[str, list[Dim] | None] = {}

    @cached_property
    def _weights(self) -> dict[str, Any]:
        """Return the weights by name."""
        return graph_weights(self._model.graph)

    @cached_property
    def _declared_types(self) -> dict[str, Any]:
        """Return the declared types of tensors, those of subgraphs included, by name."""
        bodies = (body for node in all_nodes(self._model.graph) for body in graphs_of(node))
        inside = {
            value.name: value
            for body in bodies
            for values in (body.input, body.value_info, body.output)
            for value in values
        }
        return {**inside, **value_infos(self._model)}

    @cached_property
    def _inferred_types(self) -> dict[str, Any]:
        """Return the inferred types of tensors, by name."""
        return infer_value_infos(self._model)

    def maker(self, tensor: str) -> Maker | None:
        """Return the node that computes a tensor, with its attributes; None if there is none."""
        node = self._nodes.get(tensor)
        if node is None or node.domain not in ("", "ai.onnx", "com.microsoft"):
            return None
        attributes = {
            attribute.name: onnx.helper.get_attribute_value(attribute)
            for attribute in node.attribute
            if attribute.type in _PLAIN and not attribute.ref_attr_name
        }
        values = {
            name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            for name, value in attributes.items()
        }
        bodies = [[value.name for value in body.output] for body in graphs_of(node)]
        return Maker(node.op_type, tuple(node.input), tuple(node.output), values, bodies)

    def shape(self, tensor: str) -> Sequence[Dim] | None:
        """Return the shape of a tensor; None if it is unknown."""
        if tensor not in self._shapes:
            self._shapes[tensor] = self._shape(tensor)
        return self._shapes[tensor]

    def _shape(self, tensor: str) -> list[Dim] | None:
        """Return the declared or inferred shape of a tensor; None if it is unknown."""
        if tensor in self._weights:
            return [int(dim) for dim in self._weights[tensor].dims]
        for known_values in (self._declared_types, self._inferred_types):
            if tensor in known_values:
                shape = shape_of(known_values[tensor])
                if shape is not None:
                    is_known = all(isinstance(value, int) and value >= 0 for value in shape)
                    if is_known or known_values is self._inferred_types:
                        return [_dimension(value) for value in shape]
        # Shapes are inferred only of standard operators. Quantizers keep the declared ones.
        plain = tensor.removesuffix("_quantized")
        return self._shape(plain) if plain != tensor else self._joined_shape(tensor)

    def _joined_shape(self, tensor: str) -> list[Dim] | None:
        """Return the shape of the output of QLinearConcat; None if it is unknown."""
        node = self._nodes.get(tensor)
        axis = None if node is None else attribute_named(node, "axis")
        if node is None or node.op_type != "QLinearConcat" or axis is None:
            return None
        shapes = [self.shape(name) for name in node.input[2::3]]
        first = shapes[0] if shapes else None
        if first is None or not -len(first) <= axis.i < len(first):
            return None
        lengths = [None if shape is None else shape[axis.i] for shape in shapes]
        joined: list[Dim] = [*first]
        is_known = all(isinstance(length, int) for length in lengths)
        joined[axis.i] = sum(int(length) for length in lengths if length) if is_known else None
        return joined

    def constant(self, tensor: str) -> Array | None:
        """Return the elements of a small constant; None for other tensors."""
        weight = self._weights.get(tensor)
        if weight is None:
            node = self._nodes.get(tensor)
            if node is None or node.op_type not in _CONSTANT_OF_CONSTANTS:
                return None
            if node.op_type == "ConstantOfShape":
                value = next(
                    (attribute.t for attribute in node.attribute if attribute.name == "value"), None
                )
                return None if value is None else elements(value)
            return self.constant(node.input[0]) if node.input else None
        if prod(weight.dims) > _SMALL or _is_external(weight):
            return None
        return elements(weight)

    def is_constant(self, tensor: str) -> bool:
        """Return whether a tensor is a weight, or is filled with or derived from constants."""
        if tensor in self._weights:
            return True
        node = self._nodes.get(tensor)
        if node is None or node.op_type not in _CONSTANT_OF_CONSTANTS:
            return False
        return node.op_type == "ConstantOfShape" or self.is_constant(node.input[0])

    def sizes_along(self, tensor: str, axis: int) -> Array | None:
        """Return the RMS of a weight in each slice along an axis; None for other tensors."""
        weight = self._weights.get(tensor)
        if weight is None or prod(weight.dims) > _LARGE or _is_external(weight):
            return None
        values = elements(weight)
        if not is_float(values) or not -values.ndim <= axis < values.ndim or not values.size:
            return None
        others = tuple(at for at in range(values.ndim) if at != axis % values.ndim)
        squares: Array = np.sqrt(np.mean(np.square(values, dtype=np.float64), axis=others))
        return squares

    def is_bounded(self, tensor: str) -> bool:
        """Return whether the values of a tensor are bounded."""
        return tensor in self._bounded


def _is_external(weight: TensorProto) -> bool:
    """Return whether the elements of a weight are in another file."""
    return bool(weight.HasField("data_location") and weight.data_location)


def _dimension(dim: Any) -> Dim:
    """Return the name or length of a dimension; None if it has neither."""
    return dim if isinstance(dim, str) or (isinstance(dim, int) and dim >= 0) else None


_PLAIN = frozenset({1, 2, 3, 6, 7, 8})
"""The types of attributes that are numbers or text, by their numbers in ONNX."""
