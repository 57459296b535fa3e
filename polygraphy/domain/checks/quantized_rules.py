"""The rules of the ONNX specification about quantized operators: their scales and zero points."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
from attrs import evolve

from polygraphy.domain.checks.layer_rules import check_convolution
from polygraphy.domain.checks.operator_call import Operand, OperatorCall, Violation, shape_text
from polygraphy.domain.checks.requirements import (
    Rule,
    attribute_rule,
    broadcast_shapes,
    dim_of,
    fits,
    is_shape,
    scalar_rule,
    wrong_attribute,
    wrong_rank,
    wrong_shape,
    wrong_values,
)
from polygraphy.domain.checks.window_rules import check_window


def _check_quantize(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if scale and zero point do not fit the input."""
    data, scale, zero = call.shape(0), call.input(1), call.input(2)
    axis, block = call.attributes.get("axis", 1), call.attributes.get("block_size", 0)
    if scale is None or scale.shape is None:
        return
    if zero is not None and zero.shape is not None and not is_shape(zero.shape, scale.shape):
        sizes = [prod(dim or 0 for dim in indices) for indices in (zero.shape, scale.shape)]
        if sizes != [1, 1]:
            text = f"a zero point of the shape of its scale {shape_text(scale.shape)}"
            yield wrong_shape(call, zero, text)
            return
    size = prod(dim or 0 for dim in scale.shape)
    if data is not None and block > 0:
        yield from _check_blocks(call, scale, data, block)
    if data is None or block or size == 1 or None in scale.shape:
        return
    if len(scale.shape) != 1:
        yield wrong_rank(call, scale, "a scale that is a scalar or a vector")
    elif not -len(data) <= axis < len(data):
        yield wrong_attribute(call, "axis", f"an axis in [{-len(data)}, {len(data) - 1}]")
    elif not fits(size, data[axis]):
        yield wrong_shape(call, scale, f"{data[axis]} scales, one per index of axis {axis}")


def _check_blocks(
    call: OperatorCall, scale: Operand, data: tuple[int | None, ...], block: int
) -> Iterator[Violation]:
    """Yield a violation unless there is one scale for each block."""
    axis = call.attributes.get("axis", 1)
    if not -len(data) <= axis < len(data):
        yield wrong_attribute(call, "axis", f"an axis in [{-len(data)}, {len(data) - 1}]")
        return
    expected = [*data]
    size = expected[axis]
    expected[axis] = None if size is None else -(-size // block)
    if scale.shape is not None and not is_shape(scale.shape, expected):
        text = f"a scale of shape {shape_text(expected)} for blocks of {block}"
        yield wrong_shape(call, scale, text)


def _per_index_rule(positions: tuple[int, ...], of: int, axis: int, name: str) -> Rule:
    """Return a rule for scales or zero points: one, or a vector with one for each index of an axis
    of an input.

    Args:
        positions: the scale and the zero point.
        of: the input that they belong to.
        axis: its axis.
        name: an element of the axis, as ``row``.
    """

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation if a vector does not have that length."""
        size = dim_of(call, of, axis)
        for position in positions:
            operand = call.input(position)
            shape = None if operand is None else operand.shape
            if operand is None or shape is None or len(shape) != 1:
                continue
            if not fits(shape[0], size) and not fits(shape[0], 1):
                yield wrong_shape(call, operand, f"one value, or one per {name} ({size})")

    return check


def _per_matrix_rule(positions: tuple[int, ...], of: int, axis: int) -> Rule:
    """Return a rule for scales or zero points with several axes: those of the matrices,
    with 1 in place of the axis that the product sums over.

    Args:
        positions: the scale and the zero point.
        of: the input that they belong to.
        axis: the axis with one value for each index, -2 or -1.
    """

    def check(call: OperatorCall) -> Iterator[Violation]:
        """Yield a violation if an input has other axes."""
        matrices = call.shape(of)
        if matrices is None or len(matrices) < 2:
            return
        expected = [*matrices]
        expected[-3 - axis] = 1
        for position in positions:
            operand = call.input(position)
            shape = None if operand is None else operand.shape
            if operand is None or shape is None or len(shape) < 2:
                continue
            if len(shape) != len(expected) or not all(
                fits(size, 1) or fits(size, wanted) for size, wanted in zip(shape, expected)
            ):
                yield wrong_shape(call, operand, f"one value, or shape {shape_text(expected)}")

    return check


def _check_quantized_convolution(call: OperatorCall) -> Iterator[Violation]:
    """Yield violations of the weights and the bias of a QLinearConv."""
    inputs = (call.input(0), call.input(_WEIGHT), call.input(_BIAS))
    plain = evolve(call, inputs=inputs)
    yield from check_convolution(plain)
    yield from check_window(plain)


_WEIGHT, _BIAS = 3, 8
"""The inputs of a QLinearConv."""


def _check_integers(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if dequantized int32 numbers have a zero point."""
    zero = call.input(2)
    if zero is None or zero.values is None or zero.dtype != "int32":
        return
    values = np.asarray(zero.values).reshape(-1)
    if values.any():
        text = "a zero point of 0 for int32"
        yield wrong_values(call, zero, text, values[values != 0].tolist())


def _check_quantized_product(call: OperatorCall) -> Iterator[Violation]:
    """Yield a violation if the quantized matrices of a product do not fit."""
    second: Operand | None = call.input(3 if call.op == "QLinearMatMul" else 1)
    a, b = call.shape(0), None if second is None else second.shape
    if second is None or a is None or b is None or len(a) < 2 or len(b) < 2:
        return
    inner = {dim for dim in (a[-1], b[-2]) if dim is not None}
    if len(inner) > 1 or broadcast_shapes([a[:-2], b[:-2]]) is None:
        yield wrong_shape(call, second, f"a matrix that multiplies {shape_text(a)}")


_QUANTIZING: tuple[Rule, ...] = (
    _check_quantize,
    attribute_rule("block_size", lambda value: value >= 0, "a block_size of at least 0"),
)
_ROWS, _COLUMNS = "row", "column"

QUANTIZED_RULES: dict[str, tuple[Rule, ...]] = {
    "QuantizeLinear": _QUANTIZING,
    "DequantizeLinear": (*_QUANTIZING, _check_integers),
    "MatMulInteger": (
        _check_quantized_product,
        _per_index_rule((2,), 0, -2, _ROWS),
        _per_index_rule((3,), 1, -1, _COLUMNS),
        _per_matrix_rule((2,), 0, -2),
        _per_matrix_rule((3,), 1, -1),
    ),
    "QLinearMatMul": (
        _check_quantized_product,
        _per_index_rule((1, 2), 0, -2, _ROWS),
        _per_index_rule((4, 5), 3, -1, _COLUMNS),
        _per_index_rule((6, 7), 0, -2, _ROWS),
        _per_matrix_rule((1, 2), 0, -2),
        _per_matrix_rule((4, 5), 3, -1),
    ),
    "ConvInteger": (scalar_rule(2), _per_index_rule((3,), 1, 0, "output channel")),
    "QLinearConv": (
        _check_quantized_convolution,
        scalar_rule(1, 2, 6, 7),
        _per_index_rule((4, 5), _WEIGHT, 0, "output channel"),
    ),
}
"""The rules by operator."""
