"""Which values the inputs of an ONNX graph may take that are indices or masks.

An input that is used as an index may be as large as what it is an index of. One that is used as a
condition is a mask, and so is one that is taken from one and multiplied with a large number, as in
``(1 - mask) * -10000``, which is added to scores that are not to count. One that is only compared
with constants takes values of theirs: with all of a range, as where a one-hot encoding is written
as ``x == range(n)``, any of them; with one number, as where a sampling rate chooses a branch, that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.graph.constants import graph_weights
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx_common.messages import captured_by, graphs_of, inputs_of
from polygraphy.domain.tensors.facts import InputHint

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, ValueInfoProto


onnx = mod.lazy_import("onnx")

_INTEGERS = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
_SAME_VALUES = frozenset(
    {
        "Cast",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "Reshape",
        "Slice",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
_SHUTS_OUT = 1000
"""How large a factor is, at least, that makes of what is not masked what does not count."""

_MANY = 1 << 20
"""More values than these are no choice that a person wrote down."""

_INDEXING = frozenset({"Gather", "GatherElements", "ScatterElements"})
_SHAPE_ONLY = frozenset({"Shape", "Size"})
LIMITING = _INDEXING | {"Cast", "Equal", "OneHot", "Sub", "Where"}
"""The operators of which one at least is in every graph with a hint."""

_MASK = InputHint(0, 1, "a mask")


def input_hints(graph: GraphProto) -> dict[str, InputHint]:
    """Return by input which values it may take, where that is known; numbers of any type are masks,
    but only integers are indices.
    """
    known = _Known(graph)
    hints = {}
    for value in inputs_of(graph):
        is_integer = _is_integer(value)
        found = list(known.uses(value.name)) if is_integer else []
        compared = None if found or not is_integer else known.compared_with(value.name)
        if compared is not None:
            found.append(compared)
        if known.is_inverted_mask(value.name):
            found.append(_MASK)
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
        self._constants = graph_weights(graph)
        self._captured = {
            name for node in graph.node for inner in graphs_of(node) for name in captured_by(inner)
        }
        for node in graph.node:
            for name in dict.fromkeys(node.input):
                self._consumers[name].append(node)
        for value in (*graph.value_info, *graph.input):
            if value.type.tensor_type.HasField("shape"):
                dims = value.type.tensor_type.shape.dim
                self._shapes[value.name] = [dim.dim_value for dim in dims]
        for name, tensor in self._constants.items():
            self._shapes[name] = list(tensor.dims)

    def uses(self, name: str) -> Iterator[InputHint]:
        """Yield what every use of a tensor, directly or in another shape, says of its values."""
        for node, at in self._users(name):
            hint = self._use(node, at)
            if hint is not None:
                yield hint

    def compared_with(self, name: str) -> InputHint | None:
        """Return the values of the constants that a tensor is only compared with: all of a range of
        whole numbers, or the one number that a single value is compared with; None where it has
        other uses, or zero and one, which any data hold, are among few.
        """
        constants: list[int] = []
        for node, at in self._users(name):
            if node.op_type == "Equal" and (values := self._whole(node.input[1 - at])):
                constants += values
            elif node.op_type not in _SHAPE_ONLY and not _passes_on(node, at):
                return None
        if not constants or not self._captured.isdisjoint(self._same(name)):
            return None
        low, high = min(constants), max(constants)
        if low < high and set(constants) == set(range(low, high + 1)):
            reason = f"what is compared with each number from {low} to {high}"
            return InputHint(low, high, reason) if high > 1 else None
        is_single = prod(self._shapes.get(name, [0])) == 1
        if not is_single or {0, 1} & set(constants):
            return None
        return InputHint(constants[0], constants[0], f"what is compared with {constants[0]}")

    def is_inverted_mask(self, name: str) -> bool:
        """Return whether the difference of a tensor and one shuts out what is not masked."""
        return any(
            node.op_type == "Sub"
            and self._number(node.input[1 - at]) == 1
            and any(self._shuts_out(*user) for user in self._users(node.output[0]))
            for node, at in self._users(name)
        )

    def _shuts_out(self, node: NodeProto, at: int) -> bool:
        """Return whether a node takes what is one at its input for what does not count."""
        if node.op_type == "Mul":
            return abs(self._number(node.input[1 - at]) or 0) >= _SHUTS_OUT
        return _is_condition(node, at)

    def _users(self, name: str) -> Iterator[tuple[NodeProto, int]]:
        """Yield the nodes that take the values of a tensor, directly or in another shape, each with
        the place of its input.
        """
        for current in self._same(name):
            for node in self._consumers[current]:
                yield node, list(node.input).index(current)

    def _same(self, name: str) -> Iterator[str]:
        """Yield the tensors that hold the values of a tensor or some of them, itself first."""
        seen, pending = {name}, [name]
        while pending:
            current = pending.pop()
            yield current
            for node in self._consumers[current]:
                if _passes_on(node, list(node.input).index(current)):
                    pending += [output for output in node.output if output not in seen]
                    seen.update(node.output)

    def _use(self, node: NodeProto, at: int) -> InputHint | None:
        if node.op_type in _INDEXING and at == 1:
            return self._indices(node)
        if node.op_type == "OneHot" and at == 0:
            depth = int(self._number(node.input[1]) or 0)
            return InputHint(0, depth - 1, f"one-hot of depth {depth}") if depth else None
        if _is_condition(node, at):
            return _MASK
        return None

    def _indices(self, node: NodeProto) -> InputHint | None:
        table = node.input[0]
        shape = self._shapes.get(table)
        axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
        if shape is None or not -len(shape) <= axis < len(shape) or shape[axis] < 1:
            return None
        return InputHint(0, shape[axis] - 1, f"indices into {shape[axis]} entries of {table!r}")

    def _number(self, name: str) -> float | None:
        values = self._values(name, at_most=1)
        return float(values[0]) if len(values) == 1 else None

    def _whole(self, name: str) -> list[int]:
        """Return the elements of a constant that holds whole numbers; none of another."""
        values = self._values(name, _MANY)
        whole = [int(value) for value in values if isinstance(value, int) or value.is_integer()]
        return whole if len(whole) == len(values) else []

    def _values(self, name: str, at_most: int) -> list[Any]:
        """Return the elements of a constant, as numbers; none of a larger one, or of one that is
        kept in a file.
        """
        tensor = self._constants.get(name)
        if tensor is None or (tensor.HasField("data_location") and tensor.data_location):
            return []
        return elements(tensor).ravel().tolist() if prod(tensor.dims) <= at_most else []


def _passes_on(node: NodeProto, at: int) -> bool:
    """Return whether the results of a node are values of its input at that place."""
    return node.op_type in _SAME_VALUES and at == 0 and not _is_condition(node, 0)


def _is_condition(node: NodeProto, at: int) -> bool:
    if node.op_type == "Where":
        return at == 0
    if node.op_type != "Cast":
        return False
    to = next((each.i for each in node.attribute if each.name == "to"), 0)
    return bool(to == onnx.TensorProto.BOOL)
