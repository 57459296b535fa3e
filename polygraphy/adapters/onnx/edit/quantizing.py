"""Removes the QuantizeLinear and DequantizeLinear nodes before operators from models, or copies
them into other models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.edit.opset import convert_in_place, standard_opset
from polygraphy.adapters.onnx.graph.graph import add_weight, clean_model, constant_tensor, sort
from polygraphy.adapters.onnx_common.messages import copy_of, identity_of
from polygraphy.adapters.onnx_common.quantization import dequantize, quantize
from polygraphy.domain.diagnosis.quantizing import OUTPUT, QuantizedOperand
from polygraphy.domain.errors import PolygraphyException

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, ModelProto, NodeProto

    Array = np.ndarray[Any, Any]


onnx = mod.lazy_import("onnx")
numpy = mod.lazy_import("numpy")

_STABLE = 13
"""Operators of this opset mean the same in newer ones."""
_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


def quantized_operands(model: ModelProto) -> list[QuantizedOperand]:
    """Return the operands of nodes that are quantized before they are read; see the port."""
    sites = _Sites(model.graph)
    operands = [
        QuantizedOperand(identity_of(node), position, name, sites.quantizing_function(name))
        for node in sites.readers()
        for position, name in enumerate(node.input)
        if name in sites.pairs
    ]
    outputs = [node for node in sites.readers() if node.op_type == _DEQUANTIZE]
    return operands + [
        QuantizedOperand(
            identity_of(node), OUTPUT, node.output[0], sites.quantizing_function(node.output[0])
        )
        for node in outputs
    ]


def remove_quantization(model: ModelProto) -> ModelProto:
    """Return a copy of a model in floating point, without its Q/DQ pairs; see the port."""
    copy: ModelProto = copy_of(model)
    sites = _Sites(copy.graph)
    names = dict(sites.before)
    for name in sites.pairs.keys() - names.keys():
        array = sites.weight(name)
        if array is not None:
            names[name] = f"{name}//float"
            add_weight(copy, onnx.numpy_helper.from_array(array), names[name])
    for node in list(sites.readers()):
        node.input[:] = [names.get(name, name) for name in _operands_of(node)]
        if node.op_type == _DEQUANTIZE:
            node.op_type, node.domain = "Identity", ""
            del node.attribute[:]
    clean_model(copy)
    del copy.graph.value_info[:]
    return copy


def copy_quantization(
    reference: ModelProto, model: ModelProto, places: Iterable[tuple[str, int, str]]
) -> ModelProto:
    """Return a copy of a model with operands quantized as in another model; see the port."""
    copy = _in_opset_of(reference, model)
    sites = _Sites(model.graph)
    nodes = {identity_of(node): node for node in copy.graph.node}
    copied_names: dict[tuple[str, str], str] = {}
    before: list[NodeProto] = []
    for twin, position, name in places:
        if position == OUTPUT:
            _quantize_output(copy, sites, name, twin)
            continue
        node = nodes[twin]
        key = name, node.input[position]
        if key not in copied_names:
            copied_names[key] = f"{name}//{len(copied_names)}"
            before += _quantizing_nodes(copy, sites, name, node.input[position], copied_names[key])
        node.input[position] = copied_names[key]
    copy.graph.node.extend(before)
    _raise_opset(copy, model)
    del copy.graph.value_info[:]
    sort(copy.graph)
    return copy


def _in_opset_of(reference: ModelProto, model: ModelProto) -> ModelProto:
    """Return a copy of a model, converted to the opset of another if its own is so old that it may
    have no quantization, and if the converter keeps its nodes."""
    copy: ModelProto = copy_of(reference)
    own, wanted = standard_opset(reference), standard_opset(model)
    if own is None or wanted is None or not own < wanted or own >= _STABLE:
        return copy
    try:
        convert_in_place(copy, wanted)
    except PolygraphyException:
        return copy_of(reference)
    nodes = {identity_of(node) for node in copy.graph.node}
    is_kept = all(identity_of(node) in nodes for node in reference.graph.node)
    return copy if is_kept else copy_of(reference)


def _raise_opset(copy: ModelProto, model: ModelProto) -> None:
    """Raise the opset of a model to that of another,
    for operators such as the QuantizeLinear of fp8.
    """
    versions = {entry.domain: entry.version for entry in model.opset_import}
    for entry in copy.opset_import:
        if entry.version >= _STABLE:
            entry.version = max(entry.version, versions.get(entry.domain, 0))
    copy.ir_version = max(copy.ir_version, model.ir_version)


def _quantize_output(copy: ModelProto, sites: _Sites, name: str, output: str) -> None:
    """Quantize an output of a model as another model does."""
    exact = f"{output}//exact"
    for node in copy.graph.node:
        for names in (node.input, node.output):
            names[:] = [exact if name == output else name for name in names]
    copy.graph.node.extend(_quantizing_nodes(copy, sites, name, exact, output))


def _quantizing_nodes(
    copy: ModelProto, sites: _Sites, name: str, source: str, new_name: str
) -> Iterator[NodeProto]:
    """Yield the nodes that quantize a tensor as another model does; its weights are added."""
    if name not in sites.before:
        add_weight(copy, onnx.numpy_helper.from_array(sites.weight(name)), new_name)
        return
    pair = sites.maker(name), sites.pairs[name]
    for number, (node, reads, makes) in enumerate(
        zip(pair, (source, f"{new_name}/stored"), (f"{new_name}/stored", new_name))
    ):
        value = onnx.NodeProto()
        value.CopyFrom(node)
        value.name, value.output[:] = f"{makes}/node", [makes]
        value.input[:] = [reads, *(f"{new_name}/{number}{at}" for at in range(1, len(node.input)))]
        for at, input_name in enumerate(node.input[1:], 1):
            array = sites.constant(input_name)
            add_weight(copy, onnx.numpy_helper.from_array(array), f"{new_name}/{number}{at}")
        yield value


def _operands_of(node: NodeProto) -> list[str]:
    """Return the operands of a node; for a node that quantizes a graph output, that output."""
    return list(node.output if node.op_type == _DEQUANTIZE else node.input)


class _Sites:
    """The quantized tensors of a graph.

    Attributes:
        pairs: the DequantizeLinear nodes that read a tensor quantized in the graph or a weight, by
            their outputs.
        before: the tensors before quantization, by the same outputs; not for weights.
    """

    def __init__(self, graph: GraphProto) -> None:
        """Index a graph."""
        self._graph = graph
        self._makers = {name: node for node in graph.node for name in node.output if name}
        self._weights = {weight.name: weight for weight in graph.initializer}
        self._outputs = {value.name for value in graph.output}
        self.pairs: dict[str, NodeProto] = {}
        self.before: dict[str, str] = {}
        for node in graph.node:
            if node.op_type != _DEQUANTIZE:
                continue
            maker = self._makers.get(node.input[0])
            if maker is not None and maker.op_type == _QUANTIZE:
                self.before[node.output[0]] = self.before.get(maker.input[0], maker.input[0])
            elif self.constant(node.input[0]) is None:
                continue
            self.pairs[node.output[0]] = node

    def readers(self) -> Iterator[NodeProto]:
        """Yield the nodes that read quantized tensors: all that compute, and the DequantizeLinear
        of quantized graph outputs.
        """
        for node in self._graph.node:
            if node.op_type == _DEQUANTIZE and node.output[0] in self._outputs:
                if node.output[0] in self.before:
                    yield node
            elif node.op_type not in (_QUANTIZE, _DEQUANTIZE):
                yield node

    def weight(self, name: str) -> Array | None:
        """Return a weight after quantization, as nodes read it; None if it is unknown."""
        node = self.pairs[name]
        stored, parameters = self.constant(node.input[0]), self._parameters(node)
        if stored is None or parameters is None:
            return None
        array: Array = dequantize(stored, *parameters, **self._options(node))
        return array

    def quantizing_function(self, name: str) -> Callable[[Any], Any] | None:
        """Return a function that quantizes an array like a tensor of the graph, or None.
        The result is None if that is unknown before a run."""
        node = self.pairs[name]
        before = self.maker(name) if name in self.before else node
        stored, read = self._parameters(before), self._parameters(node)
        if stored is None or read is None:
            return None
        first, second = self._options(before), self._options(node)
        return lambda array: dequantize(quantize(array, *stored, **first), *read, **second)

    def _parameters(self, node: NodeProto) -> list[Array] | None:
        """Return scale and zero point of a node if they are constant and without blocks;
        else None."""
        arrays = [array for name in node.input[1:] if (array := self.constant(name)) is not None]
        is_plain = all(
            array.dtype.itemsize == 1 or array.dtype.kind in "iu" for array in arrays[1:]
        )
        is_whole = len(arrays) == len(node.input) - 1 and not self._options(node).get("block_size")
        return arrays if is_whole and is_plain else None

    def _options(self, node: NodeProto) -> dict[str, Any]:
        """Return the attributes of a node by name."""
        return {
            attribute.name: onnx.helper.get_attribute_value(attribute)
            for attribute in node.attribute
        }

    def maker(self, name: str) -> NodeProto:
        """Return the node that quantizes the source of an operand."""
        node: NodeProto = self._makers[self.pairs[name].input[0]]
        return node

    def constant(self, name: str) -> Array | None:
        """Return the elements of a constant; None if the tensor is not constant."""
        tensor = self._weights.get(name)
        if tensor is None and name in self._makers:
            maker = self._makers[name]
            tensor = constant_tensor(maker) if maker.op_type == "Constant" else None
        return None if tensor is None else onnx.numpy_helper.to_array(tensor)
