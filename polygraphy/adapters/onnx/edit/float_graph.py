"""The model in floating point that a model was quantized from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.graph.graph import constant_tensor
from polygraphy.domain.tensors.precision import is_float

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, NodeProto

    Array = np.ndarray[Any, Any]

onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")

REMOVABLE = ("Relu", "Clip")
"""Operators that quantizers leave out if the range of the integers does the same."""


class FloatGraph:
    """The graph that a model was quantized from.

    Args:
        graph: that graph.
    """

    def __init__(self, graph: GraphProto) -> None:
        """Index the graph of a floating-point model."""
        self.graph = graph
        self.makers = {
            name: node
            for node in graph.node
            for name in node.output
            if name and node.op_type != "Constant"
        }
        self._weights = {weight.name: weight for weight in graph.initializer}
        self._named = {node.name: node for node in graph.node if node.name}
        for node in graph.node:
            if node.op_type == "Constant" and (tensor := constant_tensor(node)) is not None:
                self._weights[node.output[0]] = tensor
        self._arrays: dict[str, Array] = {}
        self._readers: dict[str, list[NodeProto]] = {}
        for node in graph.node:
            for name in dict.fromkeys(node.input):
                self._readers.setdefault(name, []).append(node)

    def readers(self, name: str) -> Sequence[NodeProto]:
        """Return the nodes that read a tensor."""
        return self._readers.get(name, [])

    def find_removed_activation(
        self, name: str, makers: Mapping[str, NodeProto]
    ) -> NodeProto | None:
        """Return the Relu or Clip after a node that the quantizer removed; None if there is none.

        Args:
            name: the tensor.
            makers: the nodes of the quantized model by what they make.
        """
        twin = self.makers.get(name)
        if twin is None or makers[name].op_type in REMOVABLE:
            return None
        if twin.op_type in REMOVABLE:
            before = self.makers.get(twin.input[0])
            is_same = before is not None and before.op_type == makers[name].op_type
            return twin if is_same else None
        readers = self.readers(name)
        if len(readers) != 1 or readers[0].op_type not in REMOVABLE:
            return None
        maker = makers.get(readers[0].output[0])
        is_removed = maker is None or maker.op_type == "DequantizeLinear"
        return readers[0] if is_removed else None

    def operand(self, node: NodeProto, at: int) -> Array | None:
        """Return the weight that the node with the same name or result reads at a position; None if
        unknown.
        """
        twin = self._named.get(node.name) or self.makers.get(node.output[0])
        if twin is None or twin.op_type != node.op_type or at >= len(twin.input):
            return None
        return self.constant(twin.input[at])

    def constant(self, name: str) -> Array | None:
        """Return a weight by name; None if there is none."""
        if name not in self._weights:
            return None
        if name not in self._arrays:
            self._arrays[name] = onnx.numpy_helper.to_array(self._weights[name])
        return self._arrays[name]

    def weights_with_shape(self, shape: Sequence[int]) -> Iterator[Array]:
        """Yield the floating-point weights of a shape, or of that shape transposed."""
        for name, tensor in self._weights.items():
            dims = tuple(tensor.dims)
            if dims not in (tuple(shape), tuple(shape)[::-1]):
                continue
            array = self.constant(name)
            if array is None or not is_float(array):
                continue
            if dims == tuple(shape):
                yield array
            if len(dims) == 2 and dims[::-1] == tuple(shape):
                yield numpy.ascontiguousarray(array.T)
