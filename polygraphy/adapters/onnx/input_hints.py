"""Which values the integer inputs of an ONNX graph may take.

An input that is used as an index may be as large as what it is an index of; one that is used as a
condition is a mask.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.domain.facts import InputHint

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, ValueInfoProto

__all__ = ["input_hints"]

onnx = mod.lazy_import("onnx")

_INTEGERS = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
_SAME_VALUES = frozenset(
    {
        "Cast",
        "Expand",
        "Flatten",
        "Identity",
        "Reshape",
        "Slice",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
_INDEXING = frozenset({"Gather", "GatherElements", "ScatterElements"})


def input_hints(graph: GraphProto) -> dict[str, InputHint]:
    """Return by input which values it may take; only for integer inputs of which that is known."""
    known = _Known(graph)
    initialised = {tensor.name for tensor in graph.initializer}
    hints = {}
    for value in graph.input:
        if value.name in initialised or not _is_integer(value):
            continue
        found = list(known.uses(value.name))
        if found:
            hints[value.name] = _intersection(found)
    return hints


def _is_integer(value: ValueInfoProto) -> bool:
    dtype = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type)
    return dtype in _INTEGERS


def _intersection(hints: list[InputHint]) -> InputHint:
    """Return the hint with the fewest values; all of them must be legal for every use."""
    return min(hints, key=lambda hint: hint.high)


class _Known:
    """The consumers, the shapes and the constants of a graph."""

    def __init__(self, graph: GraphProto) -> None:
        self._consumers: dict[str, list[NodeProto]] = defaultdict(list)
        self._shapes: dict[str, list[int]] = {}
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            for name in dict.fromkeys(node.input):
                self._consumers[name].append(node)
            if node.op_type == "Constant":
                for attribute in node.attribute:
                    if attribute.name == "value":
                        self._constants[node.output[0]] = attribute.t
        for value in (*graph.value_info, *graph.input):
            if value.type.tensor_type.HasField("shape"):
                dims = value.type.tensor_type.shape.dim
                self._shapes[value.name] = [dim.dim_value for dim in dims]
        for name, tensor in self._constants.items():
            self._shapes[name] = list(tensor.dims)

    def uses(self, name: str) -> Iterator[InputHint]:
        """Yield what every use of a tensor, directly or in another shape, says of its values."""
        seen, pending = {name}, [name]
        while pending:
            current = pending.pop()
            for node in self._consumers[current]:
                hint = self._use(node, current)
                if hint is not None:
                    yield hint
                elif node.op_type in _SAME_VALUES and node.input[0] == current:
                    pending += [output for output in node.output if output not in seen]
                    seen.update(node.output)

    def _use(self, node: NodeProto, name: str) -> InputHint | None:
        at = list(node.input).index(name)
        if node.op_type in _INDEXING and at == 1:
            return self._indices(node)
        if node.op_type == "OneHot" and at == 0:
            depth = self._number(node.input[1])
            return None if not depth else InputHint(0, depth - 1, f"one-hot of depth {depth}")
        if _is_condition(node, at):
            return InputHint(0, 1, "a mask")
        return None

    def _indices(self, node: NodeProto) -> InputHint | None:
        table = node.input[0]
        shape = self._shapes.get(table)
        axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
        if shape is None or not -len(shape) <= axis < len(shape) or shape[axis] < 1:
            return None
        return InputHint(0, shape[axis] - 1, f"indices into {shape[axis]} entries of {table!r}")

    def _number(self, name: str) -> int | None:
        tensor = self._constants.get(name)
        if tensor is None or (tensor.HasField("data_location") and tensor.data_location):
            return None
        values = onnx.numpy_helper.to_array(tensor).ravel()
        return int(values[0]) if values.size == 1 else None


def _is_condition(node: NodeProto, at: int) -> bool:
    if node.op_type == "Where":
        return at == 0
    if node.op_type != "Cast":
        return False
    to = next((each.i for each in node.attribute if each.name == "to"), 0)
    return bool(to == onnx.TensorProto.BOOL)
