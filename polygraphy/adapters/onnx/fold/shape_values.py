"""Evaluates the parts of a graph that compute shapes, as far as the shapes are known.

``Shape(x)[1:]`` is a constant when only the first dimension of x is dynamic. So the values of small
integer tensors are followed through the graph element by element: some are numbers, some are the
names of dimensions, and some unknown. A name stands for the same number, which is not negative,
wherever it occurs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import inf, prod
from typing import TYPE_CHECKING, Any, Union

from attrs import frozen

from polygraphy import mod
from polygraphy.adapters.onnx.graph.element_types import domain_of
from polygraphy.adapters.onnx.graph.growth import LIFTED_BY, element_count
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import NodeProto


Element = Union[int, str, None]
Shape = Sequence[Element]


def number_rule(compute: Callable[[int, int], int | None]) -> Callable[[Element, Element], Element]:
    """Return a function of two elements that computes the result if both are known; else None."""

    def rule(left: Element, right: Element) -> Element:
        """Return the result for two known elements; else None."""
        if isinstance(left, int) and isinstance(right, int):
            return compute(left, right)
        return None

    return rule


def add_elements(left: Element, right: Element) -> Element:
    """Return the sum of two elements."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return right if left == 0 else left if right == 0 else None


def subtract_elements(left: Element, right: Element) -> Element:
    """Return the difference of two elements."""
    if isinstance(left, int) and isinstance(right, int):
        return left - right
    if right == 0:
        return left
    return 0 if left == right and left is not None else None


def multiply_elements(left: Element, right: Element) -> Element:
    """Return the product of two elements."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if left == 0 or right == 0:
        return 0
    return right if left == 1 else left if right == 1 else None


def divide_elements(dividend: Element, divisor: Element) -> Element:
    """Return the quotient of two elements, rounded towards zero as integers are."""
    if divisor == 1:
        return dividend
    if not isinstance(dividend, int) or not isinstance(divisor, int) or divisor == 0:
        return None
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def equal_elements(left: Element, right: Element) -> Element:
    """Return whether two elements are equal."""
    if left is None or right is None:
        return None
    if left == right or (isinstance(left, int) and isinstance(right, int)):
        return int(left == right)
    # A dimension is never negative.
    return 0 if any(isinstance(element, int) and element < 0 for element in (left, right)) else None


def choose_element(condition: Element, left: Element, right: Element) -> Element:
    """Return the left element where the condition holds, else the right one."""
    if condition is None:
        return left if left == right else None
    return left if condition else right


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
        values: the elements: numbers, names of dimensions, or None for unknown ones.
        is_scalar: whether the tensor has no dimension at all.
        elem_type: the number of its data type in the standard.
    """

    values: tuple[Element, ...]
    is_scalar: bool = False
    elem_type: int = INT64

    @property
    def is_known(self) -> bool:
        """Return whether all elements are numbers."""
        return all(isinstance(value, int) for value in self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the tensor."""
        return () if self.is_scalar else (len(self.values),)

    def array(self) -> Any:
        """Return the tensor as an array."""
        values = self.values[0] if self.is_scalar else self.values
        return numpy.array(values, _DTYPES[self.elem_type])

    @staticmethod
    def of(array: Any) -> Elements | None:
        """Return the elements of a constant; None if it cannot be a shape."""
        elem_type = _TYPES.get(array.dtype.str[1:])
        if elem_type is None or array.ndim > 1 or array.size > LONGEST:
            return None
        return Elements(tuple(map(int, array.reshape(-1).tolist())), array.ndim == 0, elem_type)


def output_elements(
    node: NodeProto,
    shape: Callable[[str], Shape | None],
    look_up: Callable[[str], Elements | None],
) -> Elements | None:
    """Return the known elements of the small integer tensor that a node computes, or None.
    The result is None for other results, or if nothing is known.

    Args:
        node: the node.
        shape: returns the shape of an operand; None if even its rank is unknown.
        look_up: returns the known elements of an operand.
    """
    rule = _RULES.get(node.op_type)
    if rule is None or domain_of(node.domain) or len(node.output) != 1:
        return None
    new_elements = rule(_Call(node, shape, look_up))
    if new_elements is None or len(new_elements.values) > LONGEST or not _is_in_range(new_elements):
        return None
    return new_elements


def _is_in_range(elements: Elements) -> bool:
    """Return whether all known elements fit their integer type."""
    limit = _BOUNDS[elements.elem_type]
    return all(-limit <= value < limit for value in elements.values if isinstance(value, int))


class _Call:
    """A node, with the known facts about its inputs."""

    def __init__(
        self,
        node: NodeProto,
        shape: Callable[[str], Shape | None],
        look_up: Callable[[str], Elements | None],
    ) -> None:
        """Set the node, and the functions that return shapes and elements of tensors."""
        self.node = node
        self.inputs = node.input[:]
        self._shape = shape
        self._look_up = look_up

    def operand(self, index: int) -> Elements | None:
        """Return the known elements of an operand; None if there are none."""
        return self._look_up(self.inputs[index]) if self.has_operand(index) else None

    def has_operand(self, index: int) -> bool:
        """Return whether the operand exists."""
        return index < len(self.inputs) and bool(self.inputs[index])

    def elements_if_known(self, index: int) -> tuple[int, ...] | None:
        """Return the elements of an operand if all are known; else None."""
        new_elements = self.operand(index)
        if new_elements is None:
            return None
        values = [value for value in new_elements.values if isinstance(value, int)]
        return tuple(values) if len(values) == len(new_elements.values) else None

    def shape(self, index: int) -> Shape | None:
        """Return the shape of an operand; None if even its rank is unknown."""
        return self._shape(self.inputs[index]) if self.has_operand(index) else None

    def attribute(self, name: str) -> Any:
        """Return the number, or the numbers, of an attribute; None if it is missing."""
        for attribute in self.node.attribute:
            if attribute.name == name:
                return list(attribute.ints) or attribute.i
        return None


def _fold_shape(call: _Call) -> Elements | None:
    """Return the elements of the output of Shape; None if the shape is unknown."""
    shape = call.shape(0)
    if shape is None:
        return None
    start, end = call.attribute("start") or 0, call.attribute("end")
    return Elements(tuple(shape[start : len(shape) if end is None else end]))


def _fold_size(call: _Call) -> Elements | None:
    """Return the output of Size; None if the shape is unknown."""
    shape = call.shape(0)
    if shape is None:
        return None
    if 0 in shape:
        return Elements((0,), is_scalar=True)
    size: Element = 1
    for dim in shape:
        size = multiply_elements(size, dim)
    return Elements((size,), is_scalar=True)


def _fold_identity(call: _Call) -> Elements | None:
    """Return the elements of the input; None if they are unknown."""
    return call.operand(0)


def _fold_cast(call: _Call) -> Elements | None:
    """Return the elements of the output of Cast; None if they are unknown."""
    operand, target = call.operand(0), call.attribute("to")
    if operand is None or target not in _BOUNDS:
        return None
    values = operand.values
    if target == BOOL:
        values = tuple(int(value != 0) if isinstance(value, int) else None for value in values)
    return Elements(values, operand.is_scalar, target)


def _fold_gather(call: _Call) -> Elements | None:
    """Return the elements of the output of Gather; None if they are unknown."""
    operand, chosen = call.operand(0), call.operand(1)
    indices = call.elements_if_known(1)
    if operand is None or operand.is_scalar or chosen is None or indices is None:
        return None
    if any(not -len(operand.values) <= index < len(operand.values) for index in indices):
        return None
    values = tuple(operand.values[index] for index in indices)
    return Elements(values, chosen.is_scalar, operand.elem_type)


def _fold_slice(call: _Call) -> Elements | None:
    """Return the elements of the output of Slice; None if they are unknown."""
    operand = call.operand(0)
    if operand is None or operand.is_scalar:
        return None
    if len(call.inputs) == 1:  # Up to opset 9 the limits are attributes.
        starts, ends = call.attribute("starts"), call.attribute("ends")
        steps: Sequence[int] | None = (1,)
    else:
        starts, ends = call.elements_if_known(1), call.elements_if_known(2)
        steps = call.elements_if_known(4) if call.has_operand(4) else (1,)
        if call.has_operand(3) and call.elements_if_known(3) is None:
            return None
    if not starts or not ends or not steps or len(starts) != 1 or steps[0] == 0:
        return None
    start, end, step = starts[0], ends[0], steps[0]
    if step < 0 and end < -len(operand.values):
        return Elements(operand.values[start::step], False, operand.elem_type)
    return Elements(operand.values[start:end:step], False, operand.elem_type)


def _fold_concat(call: _Call) -> Elements | None:
    """Return the elements of the output of Concat; None if they are unknown."""
    values: list[Element] = []
    types = set()
    for index in range(len(call.inputs)):
        operand, shape = call.operand(index), call.shape(index)
        if operand is not None and not operand.is_scalar:
            values += operand.values
            types.add(operand.elem_type)
        elif (
            operand is None and shape is not None and len(shape) == 1 and isinstance(shape[0], int)
        ):
            values += [None] * min(shape[0], LONGEST + 1)
        else:
            return None
        if len(values) > LONGEST:
            return None
    return Elements(tuple(values), False, types.pop()) if len(types) == 1 else None


def _fold_unsqueeze(call: _Call) -> Elements | None:
    """Return the elements of the output of Unsqueeze, or None.
    The result is None if it does not turn a scalar into a vector.
    """
    operand = call.operand(0)
    axes = call.attribute("axes") if len(call.inputs) == 1 else call.elements_if_known(1)
    if operand is None or not operand.is_scalar or axes is None or list(axes) not in ([0], [-1]):
        return None
    return Elements(operand.values, False, operand.elem_type)


def _fold_squeeze(call: _Call) -> Elements | None:
    """Return the element of the output of Squeeze; None if there are several."""
    operand = call.operand(0)
    if operand is None or operand.is_scalar or len(operand.values) != 1:
        return None
    return Elements(operand.values, True, operand.elem_type)


def _fold_reshape(call: _Call) -> Elements | None:
    """Return the elements of the output of Reshape, or None.
    The result is None if they are unknown or have more than one axis.
    """
    operand, target = call.operand(0), call.elements_if_known(1)
    if operand is None or target is None or len(target) > 1:
        return None
    if not target:
        return (
            Elements(operand.values, True, operand.elem_type) if len(operand.values) == 1 else None
        )
    return Elements(operand.values, False, operand.elem_type)


def _elementwise_rule(
    compute: Callable[[Any, Any], Element], elem_type: int | None = None
) -> Callable[[_Call], Elements | None]:
    """Return the rule of an elementwise operator with two operands."""

    def rule(call: _Call) -> Elements | None:
        """Return the elements of the output of the operator; None if an input is unknown."""
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
    """Return the elements computed from operands that are broadcast to the longest one, or None.
    The result is None if they cannot be.
    """
    lengths = {len(operand.values) for operand in operands}
    length = max(lengths)
    if 0 in lengths or not lengths <= {1, length}:
        return None
    columns = [operand.values * (length // len(operand.values)) for operand in operands]
    values = tuple(map(compute, *columns))
    return Elements(values, all(operand.is_scalar for operand in operands), elem_type)


def _fold_where(call: _Call) -> Elements | None:
    """Return the elements of the output of Where; None if an input is unknown."""
    condition, left, right = (call.operand(index) for index in range(3))
    if condition is None or left is None or right is None or left.elem_type != right.elem_type:
        return None
    return _broadcast(choose_element, [condition, left, right], left.elem_type)


def _fold_not(call: _Call) -> Elements | None:
    """Return the elements of the output of Not; None if the input is unknown."""
    operand = call.operand(0)
    if operand is None:
        return None
    values = tuple(1 - value if isinstance(value, int) else None for value in operand.values)
    return Elements(values, operand.is_scalar, BOOL)


def _fold_constant_of_shape(call: _Call) -> Elements | None:
    """Return the elements of the output of ConstantOfShape, or None.
    The result is None if they are unknown or too many."""
    lengths = call.elements_if_known(0)
    if lengths is None or len(lengths) > 1 or (lengths and not 0 <= lengths[0] <= LONGEST):
        return None
    value = next(
        (attribute.t for attribute in call.node.attribute if attribute.name == "value"), None
    )
    if value is None or value.data_type not in _BOUNDS or list(value.dims) != [1]:
        return None
    filler = int(elements(value)[0])
    return Elements((filler,) * (lengths[0] if lengths else 1), not lengths, value.data_type)


def _fold_range(call: _Call) -> Elements | None:
    """Return the elements of the output of Range; None if they are unknown or too many."""
    limits = [call.elements_if_known(index) for index in range(3)]
    first = call.operand(0)
    if first is None or any(limit is None or len(limit) != 1 for limit in limits):
        return None
    start, end, step = (limit[0] for limit in limits if limit)
    if step == 0 or len(range(start, end, step)) > LONGEST:
        return None
    return Elements(tuple(range(start, end, step)), False, first.elem_type)


def _fold_product(call: _Call) -> Elements | None:
    """Return the product that ReduceProd computes, or None.
    The result is None if the input is unknown or has several axes.
    """
    operand = call.operand(0)
    if operand is None or operand.is_scalar:
        return None
    axes = call.elements_if_known(1) if call.has_operand(1) else tuple(call.attribute("axes") or ())
    if axes not in ((), (0,), (-1,)) or (axes == () and call.attribute("noop_with_empty_axes")):
        return None
    product: Element = 1
    for value in operand.values:
        product = multiply_elements(product, value)
    keeps = call.attribute("keepdims")
    return Elements((product,), keeps == 0, operand.elem_type)


_RULES: dict[str, Callable[[_Call], Elements | None]] = {
    "Add": _elementwise_rule(add_elements),
    "Cast": _fold_cast,
    "Concat": _fold_concat,
    "ConstantOfShape": _fold_constant_of_shape,
    "Div": _elementwise_rule(divide_elements),
    "Equal": _elementwise_rule(equal_elements, BOOL),
    "Gather": _fold_gather,
    "Greater": _elementwise_rule(number_rule(operator.gt), BOOL),
    "Identity": _fold_identity,
    "Less": _elementwise_rule(number_rule(operator.lt), BOOL),
    "Max": _elementwise_rule(number_rule(max)),
    "Min": _elementwise_rule(number_rule(min)),
    "Mul": _elementwise_rule(multiply_elements),
    "Not": _fold_not,
    "Range": _fold_range,
    "ReduceProd": _fold_product,
    "Reshape": _fold_reshape,
    "Shape": _fold_shape,
    "Size": _fold_size,
    "Slice": _fold_slice,
    "Squeeze": _fold_squeeze,
    "Sub": _elementwise_rule(subtract_elements),
    "Unsqueeze": _fold_unsqueeze,
    "Where": _fold_where,
}


_OPERAND = 256
"""Largest number of elements of an operand that determines the size of a result."""
_NOT_LARGER = frozenset(
    {
        "Abs", "Cast", "Ceil", "Clip", "Compress", "Cos", "CumSum", "Exp", "Flatten", "Floor",
        "GatherElements", "Identity", "IsNaN", "Log", "Neg", "Not", "ReduceMax", "ReduceMean",
        "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "ScatterElements", "ScatterND", "Sin",
        "Size", "Shape", "Slice", "Sqrt", "Squeeze", "Transpose", "Unique", "Unsqueeze",
    }
)  # fmt: skip
"""Operators whose results have no more elements than the largest operand."""


class Room:
    """The number of bytes by which the constants of a model may still grow."""

    def __init__(self, limit: float, names: set[str]) -> None:
        """Set the number of bytes, and the nodes that were already logged."""
        self._limit = limit
        self._taken = 0.0
        self._said = names

    def take(self, node: NodeProto, nbytes: float) -> bool:
        """Reserve memory for the result of a node; return whether there is enough, and log if
        not."""
        if self._taken + nbytes <= self._limit:
            self._taken += nbytes
            return True
        label = node.name or node.output[0]
        if label not in self._said:
            self._said.add(label)
            G_LOGGER.warning(
                f"The {node.op_type} node {label!r} is not folded: its {nbytes:,.0f} bytes would"
                f" push the constants over the limit of {self._limit:,.0f}. {LIFTED_BY}"
            )
        return False


class Sizes:
    """Bounds on the sizes of constant nodes' outputs."""

    def __init__(
        self,
        kind: Callable[[str], str | None],
        shape: Callable[[str], Shape | None],
        small: Callable[[str], Any],
        compute: Callable[[str], Any],
    ) -> None:
        """Set the known types, shapes and small constants.

        Args:
            kind: returns the type of a tensor.
            shape: returns its shape.
            small: returns a small known constant; None for other tensors.
            compute: returns a computed constant; None if that fails.
        """
        self._kind = kind
        self._shape_of = shape
        self._small = small
        self._compute = compute
        # Upper limit for the number of elements of computed tensors.
        self._made: dict[str, float] = {}

    def measure(self, node: NodeProto) -> float:
        """Return the maximum number of bytes of the results of a node.
        Its operands must be measured before.
        """
        # The declared shape may be wrong, so check the operands first.
        grown = element_count(node, self._value, self._shape)
        nbytes = 0.0
        for name in filter(None, node.output[:]):
            shape = self._shape(name)
            elements = grown
            if elements is None:
                elements = self._largest_size(node) if shape is None else float(prod(shape))
            self._made[name] = elements
            nbytes += elements * itemsize(self._kind(name))
        return nbytes

    def _largest_size(self, node: NodeProto) -> float:
        """Return the maximum number of elements of a node with unknown shape:
        the number of pairs of its operands' elements, or their sum.
        """
        counts = [self._elements(name) for name in node.input[:] if name]
        if node.op_type in ("Concat", "Gather", "NonZero"):
            return sum(counts) * 8  # NonZero returns the same number for each dimension.
        return max([1.0, *counts]) if node.op_type in _NOT_LARGER else prod([1.0, *counts])

    def _elements(self, name: str) -> float:
        """Return the number of elements of a tensor, exact or at most; infinite if unknown."""
        shape = self._shape(name)
        return self._made.get(name, inf) if shape is None else float(prod(shape))

    def _shape(self, name: str) -> list[int] | None:
        """Return the shape of a tensor if all dimensions are numbers; else None."""
        return static_shape(self._shape_of(name))

    def _value(self, name: str) -> Any:
        """Return the value of a tensor, computed if it is small; None if it is unknown."""
        small = self._small(name)
        if small is None and self._made.get(name, inf) <= _OPERAND:
            small = self._compute(name)
        return small


def static_shape(shape: Shape | None) -> list[int] | None:
    """Return a shape if all dimensions are numbers; else None."""
    if shape is None:
        return None
    numbers = [dim for dim in shape if isinstance(dim, int)]
    return numbers if len(numbers) == len(shape) else None


def itemsize(kind: str | None) -> float:
    """Return the bytes of an element of a tensor type, 8 if that is unknown."""
    name = (kind or "").partition("(")[2][:-1]
    entry = DataType.__members__.get(
        {"float": "FLOAT32", "double": "FLOAT64"}.get(name, name.upper())
    )
    return float(entry.itemsize) if entry and entry.itemsize else 8.0
