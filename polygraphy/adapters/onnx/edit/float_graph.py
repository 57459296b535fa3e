"""The model in floating point that a model was quantized from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from polygraphy import mod
from polygraphy.adapters.onnx.edit.quantized_nodes import (
    DEQUANTIZE,
    QUANTIZE,
    is_shifted,
    makers_of,
)
from polygraphy.adapters.onnx.graph.graph import add_weight, constant_tensor, sort
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.domain.quantization.sites import RAW
from polygraphy.domain.tensors.precision import is_float

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, ModelProto, NodeProto

    Array = np.ndarray[Any, Any]

onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")

_SMALL = 4096
"""Constants with at most this number of elements are decoded once: scales and zero points."""
_UNQUANTIZED = "//unquantized"
"""Suffix of a tensor before a restored Relu or Clip."""
_SHAPE_ONLY = ("Shape", "Size")
"""Operators that read no elements."""
REMOVABLE = ("Relu", "Clip")
"""Operators that quantizers leave out if the range of the integers does the same."""


class FloatGraph:
    """The graph that a model was quantized from.

    Args:
        graph: the graph in floating point.
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
        """Return the Relu or Clip that the quantizer removed after a tensor; None if there is none.

        Args:
            name: the tensor.
            makers: the nodes of the quantized model by their outputs.
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
        """Return the weight that the node with the same name or result reads at a position.
        The result is None if unknown.
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
            self._arrays[name] = elements(self._weights[name])
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


class MissingPair(NamedTuple):
    """A place at which nodes read a tensor without the pair that replaces its Relu or Clip.

    Attributes:
        tensor: the result of the Relu or Clip.
        node: the node whose result they read instead.
    """

    tensor: str
    node: NodeProto


def restore_activations(
    model: ModelProto, reference: FloatGraph, *, is_static: bool
) -> tuple[dict[str, str], list[MissingPair]]:
    """Restore Relu and Clip nodes; return new tensor names, and the pairs that are missing.
    Integer ranges replace these nodes. The names are the outputs by which unnamed nodes are called,
    by their input.

    Args:
        model: the quantized model; it is changed.
        reference: the graph that it was quantized from.
        is_static: whether its quantizer replaces these nodes.
    """
    graph = model.graph
    makers, names = makers_of(graph), {node.name for node in graph.node} - {""}
    constant = constant_reader(graph)
    stored = {node.input[0]: node for node in graph.node if node.op_type == QUANTIZE}
    shifted = {name for name, node in stored.items() if is_shifted(node, constant)}
    all_makers, unnamed = dict(makers), {}
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        for read in dict.fromkeys(node.input):
            readers.setdefault(read, []).append(node)
    fixed = {value.name for value in graph.output}
    removed = {}
    for name in sorted(makers.keys() - (stored.keys() - shifted)):
        twin = reference.find_removed_activation(name, makers)
        if twin is not None and twin.name not in names:
            removed[name] = twin
    if not (is_static or removed.keys() & shifted):
        return {}, []
    pairs: list[MissingPair] = []
    for name, twin in removed.items():
        direct_readers = [
            node for node in readers.get(name, ()) if node.op_type not in (QUANTIZE, *_SHAPE_ONLY)
        ]
        expected = {node.op_type for node in reference.readers(twin.output[0])}
        is_read = bool(direct_readers) and all(node.op_type in expected for node in direct_readers)
        if name not in shifted and (name in fixed or not is_read):
            continue
        raw = _restore_activation(model, name, twin, reference, all_makers, readers)
        if not raw:
            continue
        unnamed[raw] = twin.input[0]
        if is_read:
            result = twin.output[0]
            copy = f"{result}{_UNQUANTIZED}"
            for node in direct_readers:
                node.input[:] = [copy if operand == result else operand for operand in node.input]
            graph.node.append(onnx.helper.make_node("Identity", [raw], [copy]))
            pairs.append(MissingPair(result, graph.node[-1]))
    sort(graph)
    return unnamed, pairs


def is_unpaired(node: NodeProto) -> bool:
    """Return whether a node gives others a tensor without the pair that is missing."""
    return node.op_type == "Identity" and node.output[0].endswith(_UNQUANTIZED)


def constant_reader(graph: GraphProto) -> Callable[[str], Array | None]:
    """Return a function from names to the elements of constants, and None for other tensors.
    Constants added later are not included."""
    makers = makers_of(graph)
    weights = {weight.name: weight for weight in graph.initializer}
    arrays: dict[str, Array | None] = {}

    def constant(name: str) -> Array | None:
        """Return the value of a weight or Constant node; None if the tensor is computed."""
        if name in arrays:
            return arrays[name]
        tensor = weights.get(name)
        if tensor is None and name in makers and makers[name].op_type == "Constant":
            tensor = constant_tensor(makers[name])
        array = None if tensor is None else elements(tensor)
        if array is None or array.size <= _SMALL:  # Read large weights only once.
            arrays[name] = array
        return array

    return constant


def _restore_activation(
    model: ModelProto,
    name: str,
    twin: NodeProto,
    reference: FloatGraph,
    makers: dict[str, NodeProto],
    readers: dict[str, list[NodeProto]],
) -> str:
    """Add a Relu or Clip of the reference after the node that computes a tensor, and return the
    name of what this node computes now; empty if it cannot be added.

    Args:
        model: the model.
        name: the tensor.
        twin: the Relu or Clip.
        reference: the reference.
        makers: the node that computes each tensor; updated.
        readers: the nodes that read each tensor; updated.
    """
    result, maker = twin.output[0], makers[name]
    raw = f"{result}{RAW}"

    def replace_input(old: str, new: str, nodes: Sequence[NodeProto]) -> None:
        """Replace a tensor by another one in the inputs of some nodes."""
        for node in nodes:
            node.input[:] = [new if operand == old else operand for operand in node.input]
        readers.setdefault(new, []).extend(nodes)

    reader = makers.get(result)
    # The node reads the codes by this name.
    if reader is not None and reader.op_type == DEQUANTIZE:
        if any(value.name == result for value in model.graph.output):
            return ""
        replace_input(result, f"{result}//read", readers.pop(result, []))
        reader.output[0] = f"{result}//read"
        makers[f"{result}//read"] = makers.pop(result)
    before = readers.pop(name, [])
    # The quantized values replace the Relu, so they are compared with its input.
    replace_input(name, raw, [node for node in before if node.op_type == QUANTIZE])
    replace_input(name, result, [node for node in before if node.op_type != QUANTIZE])
    maker.output[:] = [raw if output == name else output for output in maker.output]
    makers.pop(name, None)
    makers[raw] = maker
    model.graph.node.append(twin)
    node = makers[result] = model.graph.node[-1]
    node.input[0] = raw
    readers.setdefault(raw, []).append(node)
    for at in range(1, len(node.input)):
        if (array := reference.constant(node.input[at])) is not None:
            text = f"{result}//{at}"
            add_weight(model, onnx.numpy_helper.from_array(array), text)
            node.input[at] = text
    return raw
