"""Evaluates the parts of a graph that compute shapes, as far as the shapes are known.

``Shape(x)[1:]`` is a constant when only the first dimension of x is dynamic. So the values of small
integer tensors are followed through the graph element by element, some of them unknown.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from polygraphy import mod

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


numpy = mod.lazy_import("numpy")

INT32, INT64 = 6, 7
_LONGEST = 256
_BOUNDS = {INT32: 1 << 31, INT64: 1 << 63}


@frozen
class Elements:
    """A tensor of at most one dimension, some of whose elements are known.

    Attributes:
        values: the elements, None for the unknown ones.
        is_scalar: whether the tensor has no dimension at all.
        elem_type: the number of its data type in the standard.
    """

    values: tuple[int | None, ...]
    is_scalar: bool = False
    elem_type: int = INT64

    @property
    def is_known(self) -> bool:
        """Whether all elements are known."""
        return None not in self.values

    def array(self) -> Any:
        """Return the tensor as an array."""
        dtype = numpy.int64 if self.elem_type == INT64 else numpy.int32
        return numpy.array(self.values[0] if self.is_scalar else self.values, dtype)

    @staticmethod
    def of(array: Any) -> Elements | None:
        """Return what is known of a constant; None for one that is no shape."""
        elem_type = {"i8": INT64, "i4": INT32}.get(array.dtype.str[1:])
        if elem_type is None or array.ndim > 1 or array.size > _LONGEST:
            return None
        return Elements(tuple(array.reshape(-1).tolist()), array.ndim == 0, elem_type)


Shapes = Mapping[str, "Sequence[int | None] | None"]


def shape_values(
    graph: GraphProto, shapes: Shapes, constant: Callable[[str], Any]
) -> dict[str, Elements]:
    """Return what is known of the small integer tensors that nodes of a graph compute.

    Args:
        graph: the graph; nodes in an order in which they can be computed.
        shapes: the shapes of its tensors, None for unknown dimensions.
        constant: returns a small constant by name as an array, None for what is none.
    """
    found: dict[str, Elements] = {}
    constants: dict[str, Elements | None] = {}

    def look_up(name: str) -> Elements | None:
        if name in found:
            return found[name]
        if name not in constants:
            array = constant(name)
            constants[name] = None if array is None else Elements.of(array)
        return constants[name]

    for node in graph.node:
        rule = None if node.domain not in ("", "ai.onnx") else _RULES.get(node.op_type)
        if rule is None or len(node.output) != 1:
            continue
        made = rule(_Call(node, shapes, look_up))
        if made is not None and len(made.values) <= _LONGEST and _is_in_range(made):
            found[node.output[0]] = made
    return found


def _is_in_range(made: Elements) -> bool:
    limit = _BOUNDS[made.elem_type]
    return all(value is None or -limit <= value < limit for value in made.values)


class _Call:
    """A node, and what is known of its operands."""

    def __init__(
        self, node: NodeProto, shapes: Shapes, look_up: Callable[[str], Elements | None]
    ) -> None:
        self.node = node
        self.inputs = node.input[:]
        self._shapes = shapes
        self._look_up = look_up

    def operand(self, index: int) -> Elements | None:
        """Return what is known of an operand; None where nothing is, or there is none."""
        return self._look_up(self.inputs[index]) if self.has(index) else None

    def has(self, index: int) -> bool:
        """Return whether there is such an operand."""
        return index < len(self.inputs) and bool(self.inputs[index])

    def known(self, index: int) -> tuple[int, ...] | None:
        """Return an operand all of whose elements are known."""
        made = self.operand(index)
        if made is None:
            return None
        values = [value for value in made.values if value is not None]
        return tuple(values) if len(values) == len(made.values) else None

    def shape(self, index: int) -> Sequence[int | None] | None:
        """Return the shape of an operand; None where not even its rank is known."""
        return self._shapes.get(self.inputs[index])

    def attribute(self, name: str) -> Any:
        """Return the number, or the numbers, of an attribute; None where it is left out."""
        for attribute in self.node.attribute:
            if attribute.name == name:
                return list(attribute.ints) or attribute.i
        return None


def _shape(call: _Call) -> Elements | None:
    shape = call.shape(0)
    if shape is None:
        return None
    start, end = call.attribute("start") or 0, call.attribute("end")
    return Elements(tuple(shape[start : len(shape) if end is None else end]))


def _size(call: _Call) -> Elements | None:
    shape = call.shape(0)
    if shape is None:
        return None
    if 0 in shape:
        return Elements((0,), is_scalar=True)
    size: int | None = 1
    for dim in shape:
        size = None if dim is None or size is None else size * dim
    return Elements((size,), is_scalar=True)


def _identity(call: _Call) -> Elements | None:
    return call.operand(0)


def _cast(call: _Call) -> Elements | None:
    made, target = call.operand(0), call.attribute("to")
    if made is None or target not in _BOUNDS:
        return None
    return Elements(made.values, made.is_scalar, target)


def _gather(call: _Call) -> Elements | None:
    made, chosen = call.operand(0), call.operand(1)
    indices = call.known(1)
    if made is None or made.is_scalar or chosen is None or indices is None:
        return None
    if any(not -len(made.values) <= index < len(made.values) for index in indices):
        return None
    values = tuple(made.values[index] for index in indices)
    return Elements(values, chosen.is_scalar, made.elem_type)


def _slice(call: _Call) -> Elements | None:
    made = call.operand(0)
    if made is None or made.is_scalar:
        return None
    if len(call.inputs) == 1:  # Up to opset 9 the limits are attributes.
        starts, ends = call.attribute("starts"), call.attribute("ends")
        steps: Sequence[int] | None = (1,)
    else:
        starts, ends = call.known(1), call.known(2)
        steps = call.known(4) if call.has(4) else (1,)
        if call.has(3) and call.known(3) is None:
            return None
    if not starts or not ends or not steps or len(starts) != 1 or steps[0] == 0:
        return None
    start, end, step = starts[0], ends[0], steps[0]
    if step < 0 and end < -len(made.values):
        return Elements(made.values[start::step], False, made.elem_type)
    return Elements(made.values[start:end:step], False, made.elem_type)


def _concat(call: _Call) -> Elements | None:
    values: list[int | None] = []
    types = set()
    for index in range(len(call.inputs)):
        made, shape = call.operand(index), call.shape(index)
        if made is not None and not made.is_scalar:
            values += made.values
            types.add(made.elem_type)
        elif made is None and shape is not None and len(shape) == 1 and shape[0] is not None:
            values += [None] * min(shape[0], _LONGEST + 1)
        else:
            return None
        if len(values) > _LONGEST:
            return None
    return Elements(tuple(values), False, types.pop()) if len(types) == 1 else None


def _unsqueeze(call: _Call) -> Elements | None:
    made = call.operand(0)
    axes = call.attribute("axes") if len(call.inputs) == 1 else call.known(1)
    if made is None or not made.is_scalar or axes is None or list(axes) not in ([0], [-1]):
        return None
    return Elements(made.values, False, made.elem_type)


def _squeeze(call: _Call) -> Elements | None:
    made = call.operand(0)
    if made is None or made.is_scalar or len(made.values) != 1:
        return None
    return Elements(made.values, True, made.elem_type)


def _reshape(call: _Call) -> Elements | None:
    made, target = call.operand(0), call.known(1)
    if made is None or target is None or len(target) > 1:
        return None
    if not target:
        return Elements(made.values, True, made.elem_type) if len(made.values) == 1 else None
    return Elements(made.values, False, made.elem_type)


def _elementwise(compute: Callable[[int, int], int | None]) -> Callable[[_Call], Elements | None]:
    def rule(call: _Call) -> Elements | None:
        left, right = call.operand(0), call.operand(1)
        if left is None or right is None or len(call.inputs) != 2:
            return None
        if left.elem_type != right.elem_type:
            return None
        length = max(len(left.values), len(right.values))
        if 0 in (len(left.values), len(right.values)) or any(
            len(each.values) not in (1, length) for each in (left, right)
        ):
            return None
        pairs = zip(_stretched(left.values, length), _stretched(right.values, length))
        values = tuple(None if a is None or b is None else compute(a, b) for a, b in pairs)
        return Elements(values, left.is_scalar and right.is_scalar, left.elem_type)

    return rule


def _stretched(values: tuple[int | None, ...], length: int) -> tuple[int | None, ...]:
    return values if len(values) == length else values * length


def _divided(dividend: int, divisor: int) -> int | None:
    if divisor == 0:
        return None
    quotient = abs(dividend) // abs(divisor)  # Integers are divided towards zero.
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


_RULES: dict[str, Callable[[_Call], Elements | None]] = {
    "Add": _elementwise(operator.add),
    "Cast": _cast,
    "Concat": _concat,
    "Div": _elementwise(_divided),
    "Gather": _gather,
    "Identity": _identity,
    "Max": _elementwise(max),
    "Min": _elementwise(min),
    "Mul": _elementwise(operator.mul),
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _elementwise(operator.sub),
    "Unsqueeze": _unsqueeze,
}
