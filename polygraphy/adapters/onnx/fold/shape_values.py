"""Evaluates the parts of a graph that compute shapes, as far as the shapes are known.

``Shape(x)[1:]`` is a constant when only the first dimension of x is dynamic. So the values of small
integer tensors are followed through the graph element by element: some are numbers, some are the
names of dimensions, and some unknown. A name stands for the same number, which is not negative,
wherever it occurs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from polygraphy import mod
from polygraphy.adapters.onnx.fold import dimensions
from polygraphy.adapters.onnx.fold.dimensions import Element, Shape
from polygraphy.adapters.onnx.graph.element_types import domain_of
from polygraphy.adapters.onnx.storage.elements import elements

if TYPE_CHECKING:
    from onnx import NodeProto


numpy = mod.lazy_import("numpy")

INT32, INT64, BOOL = 6, 7, 9
LONGEST = 256
_BOUNDS = {INT32: 1 << 31, INT64: 1 << 63, BOOL: 2}
_DTYPES = {INT32: "int32", INT64: "int64", BOOL: "bool"}
_TYPES = {"i8": INT64, "i4": INT32, "b1": BOOL}


@frozen
class Elements:
    """A tensor of at most one dimension, some of whose elements are known.

    Attributes:
        values: the elements: numbers, names of dimensions, or None for what is not known.
        is_scalar: whether the tensor has no dimension at all.
        elem_type: the number of its data type in the standard.
    """

    values: tuple[Element, ...]
    is_scalar: bool = False
    elem_type: int = INT64

    @property
    def is_known(self) -> bool:
        """Whether all elements are numbers."""
        return all(isinstance(value, int) for value in self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return () if self.is_scalar else (len(self.values),)

    def array(self) -> Any:
        """Return the tensor as an array."""
        values = self.values[0] if self.is_scalar else self.values
        return numpy.array(values, _DTYPES[self.elem_type])

    @staticmethod
    def of(array: Any) -> Elements | None:
        """Return what is known of a constant; None for one that is no shape."""
        elem_type = _TYPES.get(array.dtype.str[1:])
        if elem_type is None or array.ndim > 1 or array.size > LONGEST:
            return None
        return Elements(tuple(map(int, array.reshape(-1).tolist())), array.ndim == 0, elem_type)


def made_elements(
    node: NodeProto,
    shape: Callable[[str], Shape | None],
    look_up: Callable[[str], Elements | None],
) -> Elements | None:
    """Return what is known of the small integer tensor that a node computes; None where it
    computes another, or nothing is known.

    Args:
        node: the node.
        shape: returns the shape of an operand, None where not even its rank is known.
        look_up: returns what is known of an operand.
    """
    rule = _RULES.get(node.op_type)
    if rule is None or domain_of(node.domain) or len(node.output) != 1:
        return None
    made = rule(_Call(node, shape, look_up))
    if made is None or len(made.values) > LONGEST or not _is_in_range(made):
        return None
    return made


def _is_in_range(made: Elements) -> bool:
    limit = _BOUNDS[made.elem_type]
    return all(-limit <= value < limit for value in made.values if isinstance(value, int))


class _Call:
    """A node, and what is known of its operands."""

    def __init__(
        self,
        node: NodeProto,
        shape: Callable[[str], Shape | None],
        look_up: Callable[[str], Elements | None],
    ) -> None:
        self.node = node
        self.inputs = node.input[:]
        self._shape = shape
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
        values = [value for value in made.values if isinstance(value, int)]
        return tuple(values) if len(values) == len(made.values) else None

    def shape(self, index: int) -> Shape | None:
        """Return the shape of an operand; None where not even its rank is known."""
        return self._shape(self.inputs[index]) if self.has(index) else None

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
    size: Element = 1
    for dim in shape:
        size = dimensions.times(size, dim)
    return Elements((size,), is_scalar=True)


def _identity(call: _Call) -> Elements | None:
    return call.operand(0)


def _cast(call: _Call) -> Elements | None:
    made, target = call.operand(0), call.attribute("to")
    if made is None or target not in _BOUNDS:
        return None
    values = made.values
    if target == BOOL:
        values = tuple(int(value != 0) if isinstance(value, int) else None for value in values)
    return Elements(values, made.is_scalar, target)


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
    values: list[Element] = []
    types = set()
    for index in range(len(call.inputs)):
        made, shape = call.operand(index), call.shape(index)
        if made is not None and not made.is_scalar:
            values += made.values
            types.add(made.elem_type)
        elif made is None and shape is not None and len(shape) == 1 and isinstance(shape[0], int):
            values += [None] * min(shape[0], LONGEST + 1)
        else:
            return None
        if len(values) > LONGEST:
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


def _elementwise(
    compute: Callable[[Any, Any], Element], elem_type: int | None = None
) -> Callable[[_Call], Elements | None]:
    def rule(call: _Call) -> Elements | None:
        left, right = call.operand(0), call.operand(1)
        if left is None or right is None or len(call.inputs) != 2:
            return None
        if left.elem_type != right.elem_type:
            return None
        return _broadcast(compute, [left, right], elem_type or left.elem_type)

    return rule


def _broadcast(
    compute: Callable[..., Element], operands: Sequence[Elements], elem_type: int
) -> Elements | None:
    """Compute each element from those of the operands, which are stretched to the longest."""
    lengths = {len(each.values) for each in operands}
    length = max(lengths)
    if 0 in lengths or not lengths <= {1, length}:
        return None
    columns = [each.values * (length // len(each.values)) for each in operands]
    values = tuple(map(compute, *columns))
    return Elements(values, all(each.is_scalar for each in operands), elem_type)


def _where(call: _Call) -> Elements | None:
    condition, left, right = (call.operand(index) for index in range(3))
    if condition is None or left is None or right is None or left.elem_type != right.elem_type:
        return None
    return _broadcast(dimensions.chosen, [condition, left, right], left.elem_type)


def _not(call: _Call) -> Elements | None:
    made = call.operand(0)
    if made is None:
        return None
    values = tuple(1 - value if isinstance(value, int) else None for value in made.values)
    return Elements(values, made.is_scalar, BOOL)


def _constant_of_shape(call: _Call) -> Elements | None:
    lengths = call.known(0)
    if lengths is None or len(lengths) > 1 or (lengths and not 0 <= lengths[0] <= LONGEST):
        return None
    value = next((each.t for each in call.node.attribute if each.name == "value"), None)
    if value is None or value.data_type not in _BOUNDS or list(value.dims) != [1]:
        return None
    filler = int(elements(value)[0])
    return Elements((filler,) * (lengths[0] if lengths else 1), not lengths, value.data_type)


def _range(call: _Call) -> Elements | None:
    limits = [call.known(index) for index in range(3)]
    first = call.operand(0)
    if first is None or any(limit is None or len(limit) != 1 for limit in limits):
        return None
    start, end, step = (limit[0] for limit in limits if limit)
    if step == 0 or len(range(start, end, step)) > LONGEST:
        return None
    return Elements(tuple(range(start, end, step)), False, first.elem_type)


def _product(call: _Call) -> Elements | None:
    made = call.operand(0)
    if made is None or made.is_scalar:
        return None
    axes = call.known(1) if call.has(1) else tuple(call.attribute("axes") or ())
    if axes not in ((), (0,), (-1,)) or (axes == () and call.attribute("noop_with_empty_axes")):
        return None
    product: Element = 1
    for value in made.values:
        product = dimensions.times(product, value)
    keeps = call.attribute("keepdims")
    return Elements((product,), keeps == 0, made.elem_type)


_RULES: dict[str, Callable[[_Call], Elements | None]] = {
    "Add": _elementwise(dimensions.plus),
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Div": _elementwise(dimensions.divided),
    "Equal": _elementwise(dimensions.equal, BOOL),
    "Gather": _gather,
    "Greater": _elementwise(dimensions.on_numbers(operator.gt), BOOL),
    "Identity": _identity,
    "Less": _elementwise(dimensions.on_numbers(operator.lt), BOOL),
    "Max": _elementwise(dimensions.on_numbers(max)),
    "Min": _elementwise(dimensions.on_numbers(min)),
    "Mul": _elementwise(dimensions.times),
    "Not": _not,
    "Range": _range,
    "ReduceProd": _product,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _elementwise(dimensions.minus),
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
