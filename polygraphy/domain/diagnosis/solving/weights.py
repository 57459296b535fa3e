"""Weights with which a node computes what is expected, as far as they can be solved for.

Each is only a candidate: the node has to be run with it. Several weights may do the same where the
data are few, so that a weight that passes says which input differs, and not what it contained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.domain.diagnosis.solving.lookups import solve_indices
from polygraphy.domain.diagnosis.two_models import (
    QUANTIZING,
    cause_of_weight,
    change_of_weight,
    role_of,
)
from polygraphy.domain.diagnosis.variants import (
    Variant,
)
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.search.integers import Factors, solve_channels
from polygraphy.domain.tensors.precision import is_float

_MOST = 4_000_000
"""Elements of the system of equations that is solved for a weight."""
_NORMS = frozenset(
    {"BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization"}
)
_PRODUCTS = {
    "ConvInteger": (1, 0, 1),
    "DynamicQuantizeMatMul": (1, 1, -1),
    "MatMulInteger": (1, 1, -1),
    "MatMulIntegerToFloat": (1, 1, -1),
    "QLinearConv": (3, 0, 1),
    "QLinearMatMul": (3, 1, -1),
}
"""By operator: the position of the weight, and the axis of output channels in it and in the result.
"""
_FACTORS = {
    "ConvInteger": (0, 1, 2),
    "MatMulInteger": (0, 1, 2),
    "QLinearConv": (0, 3, 2, 1, 4, 6),
    "QLinearMatMul": (0, 3, 2, 1, 4, 6),
}
"""By operator: the positions of data, weight and the zero point of the data, and of the scales of
data, weight and result."""
_RATIO = 1e-4
"""Relative difference up to which ratios are one factor. Chosen, not measured."""


def solve_weights(
    side: Graph, index: int, inputs: Mapping[str, Any], output: Any, expected: Any
) -> Iterator[Variant]:
    """Yield variants of a node with a weight solved so that it computes the expected output.

    Args:
        side: the model.
        index: the position of the node.
        inputs: by tensor, what the node reads that is computed.
        output: its outputs.
        expected: the expected result.
    """
    node = side.nodes[index]
    goal = np.asarray(expected)
    yield from solve_indices(side, node, inputs, goal)
    yield from _solve_integer_weights(side, index, inputs, output, goal)
    yield from _solve_fill(side, index, inputs, goal)
    is_comparable = np.shape(output) == goal.shape and is_float(goal) and np.isfinite(goal).all()
    if not is_comparable and node.op != "QuantizeLinear":
        return
    arrays = {
        position: np.asarray(side.constants[name].values)
        for position, name in enumerate(node.inputs)
        if name in side.constants and side.constants[name].values is not None
    }
    data = {position: inputs.get(name) for position, name in enumerate(node.inputs)}
    # Other codes may also explain what another scale or zero point does.
    for position, weight in sorted(
        arrays.items(), key=lambda item: node.op in QUANTIZING and not item[0]
    ):
        for array in _solve_operand(node, position, weight, {**data, **arrays}, output, goal):
            shaped = np.asarray(array)
            if shaped.size == weight.size and np.isfinite(shaped).all():
                values = shaped.reshape(weight.shape).astype(weight.dtype)
                if not np.array_equal(values, weight):
                    yield _weight_variant(side, index, position, weight, values)


def _solve_integer_weights(
    side: Graph, index: int, inputs: Mapping[str, Any], output: Any, expected: Any
) -> Iterator[Variant]:
    """Yield variants of a product of integers with other integers in its weight.

    Args:
        side: the model.
        index: the position of the node.
        inputs: by tensor, what the node reads that is computed.
        output: its output.
        expected: the expected result.
    """
    node = side.nodes[index]
    position, weight_axis, axis = _PRODUCTS.get(node.op, (len(node.inputs), 0, 0))
    name = node.inputs[position] if position < len(node.inputs) else ""
    values = np.asarray(side.constants[name].values if name in side.constants else None)
    if values.ndim < 2 or not np.issubdtype(values.dtype, np.integer):
        return
    if np.shape(output) != np.shape(expected):
        return
    weight = np.moveaxis(values, weight_axis, 0)
    computed, wanted = (
        np.moveaxis(np.asarray(array), axis, 0).reshape(np.shape(array)[axis], -1)
        for array in (output, expected)
    )
    if len(computed) != len(weight) or not computed.size:
        return
    factors = _factors_of_integers(side, node, inputs, np.shape(expected))
    for solved in solve_channels(weight, computed, wanted, factors):
        array = np.moveaxis(solved, 0, weight_axis).astype(np.asarray(values).dtype)
        if not np.array_equal(array, values):
            change = changes.other_weight(
                "weight", name, change_of_weight(np.asarray(values), array), node.op
            )
            yield Variant("weight", change, node, {name: array})


def _factors_of_integers(
    side: Graph, node: Node, inputs: Mapping[str, Any], shape: Sequence[int]
) -> Factors | None:
    """Return what the elements of the weight of a product of integers are multiplied by, or None.
    The result is None if that is unknown.
    """
    operands = _FACTORS.get(node.op)
    if operands is None:
        return None
    names = [node.inputs[index] if index < len(node.inputs) else "" for index in operands]
    values = [
        side.constants[name].values if name in side.constants else inputs.get(name)
        for name in names
    ]
    data, weight, zero, *scales = values
    zero = np.zeros(()) if zero is None else zero
    if data is None or weight is None or np.size(data) > _MOST or np.size(zero) != 1:
        return None
    if any(scale is None or np.size(scale) != 1 for scale in scales):
        return None
    array = np.asarray(data, np.float64) - float(np.asarray(zero).item())
    rows = array.reshape(-1, array.shape[-1])
    if node.op.endswith(("ConvInteger", "LinearConv")):
        if int(node.attribute("group", 1)) != 1 or np.ndim(weight) != array.ndim:
            return None
        columns = _convolution_columns(node, array, np.shape(weight), shape[2:])
        if columns is None:
            return None
        rows = columns
    if not scales:
        return Factors(rows)
    first, second, result = (float(np.asarray(scale).item()) for scale in scales)
    return Factors(rows, result / (first * second)) if first and second else None


def solve_missing_bias(
    node: Node, position: int, start: Any, output: Any, expected: Any
) -> Iterator[Any]:
    """Yield the bias with which a node that lacks it would come closest to the expected output;
    none if the operator does not add this input.

    Args:
        node: the node.
        position: the position of the input.
        start: zeros in the shape of the bias.
        output: the output of the node.
        expected: the expected result.
    """
    if position == 2 and np.shape(output) == np.shape(expected):
        yield from _solve_operand(node, position, start, {}, output, expected)


def _solve_fill(side: Graph, index: int, inputs: Mapping[str, Any], goal: Any) -> Iterator[Variant]:
    """Yield the variant of a Where with the value that the output has where a constant is read;
    it may be infinite, and is the same at all these places."""
    node = side.nodes[index]
    if node.op != "Where" or (condition := inputs.get(node.inputs[0])) is None:
        return
    for position in (1, 2):
        name = node.inputs[position]
        array = np.asarray(side.constants[name].values) if name in side.constants else None
        if array is None or array.size != 1 or not (is_float(array) or array.dtype.kind in "iu"):
            continue
        filled = goal[np.broadcast_to(condition, goal.shape) == (position == 1)]
        if filled.size and (filled == filled[0]).all() and filled[0] != array.reshape(-1)[0]:
            values = np.full(array.shape, filled[0], array.dtype)
            yield _weight_variant(side, index, position, array, values)


def _weight_variant(side: Graph, index: int, position: int, weight: Any, values: Any) -> Variant:
    """Return the variant of a node with other values of a weight."""
    node = side.nodes[index]
    cause = cause_of_weight(side, [(index, position)], weight, values)
    name = node.inputs[position]
    if weight.size == 1:
        change = changes.is_value(weight.reshape(-1)[0], values.reshape(-1)[0])
    else:
        factor = _factor(values, weight)
        change = changes.differs() if factor is None else changes.is_scaled(1 / factor)
    weight_variant = changes.other_weight(role_of(cause), name, change, node.op)
    return Variant(cause, weight_variant, node, {name: values})


def _solve_operand(
    node: Node, position: int, weight: Any, values: Mapping[int, Any], array: Any, goal: Any
) -> Iterator[Any]:
    """Yield values for a weight with which a node would compute the goal."""
    if node.op in QUANTIZING:
        yield from _solve_scale(node, position, weight, values, goal)
        return
    if not is_float(weight):
        return
    goal, array = np.asarray(goal, np.float64), np.asarray(array, np.float64)
    first = values.get(0)
    if node.op in ("MatMul", "Gemm") and position < 2:
        yield from _solve_product(node, position, weight, values, array, goal)
    elif node.op == "Conv" and position == 1 and first is not None:
        bias = np.reshape(values.get(2, 0.0), (-1, *(1,) * (goal.ndim - 2)))
        yield from _scaled_weights(weight, 0, array - bias, goal - bias, 1)
        yield from _solve_convolution(node, weight, first, array, goal)
    elif node.op in ("Conv", "ConvTranspose", "Gemm") and position == 2:
        axis = 1 if node.op != "Gemm" else goal.ndim - 1
        scale = float(node.attribute("beta", 1.0)) if node.op == "Gemm" else 1.0
        yield weight + _mean_over(goal - array, weight, axis) / (scale or 1.0)
    elif node.op in ("Add", "Sub", "Mul", "Div"):
        yield from _solve_elementwise(node, position, weight, values, goal)
    elif node.op == "Gather" and position == 0 and not int(node.attribute("axis", 0)):
        yield from _solve_rows(weight, values.get(1), goal)
    elif node.op in _NORMS and position < 3:
        yield from _solve_norm(node, position, weight, array, goal)


def _solve_product(
    node: Node, position: int, weight: Any, values: Mapping[int, Any], value: Any, goal: Any
) -> Iterator[Any]:
    """Yield the weight of a matrix product that gives the expected output;
    the nearest one if several do.
    """
    other_value = values.get(1 - position)
    if other_value is None or weight.ndim != 2 or np.ndim(other_value) < 2:
        return
    is_gemm = node.op == "Gemm"
    alpha = float(node.attribute("alpha", 1.0)) if is_gemm else 1.0
    turned = [bool(node.attribute(name, 0)) and is_gemm for name in ("transA", "transB")]
    columns = (1 - turned[1], -1) if position else (int(turned[0]), -2)
    yield from _scaled_weights(weight, columns[0], value, goal, columns[1])
    apart = (goal - value) / (alpha or 1.0)
    data = np.asarray(other_value, np.float64)
    data = data.T if turned[1 - position] else data
    if position == 1:
        data, apart = data.reshape(-1, data.shape[-1]), apart.reshape(-1, apart.shape[-1])
        change = _least_change(data, apart)
    elif data.ndim == 2 and apart.ndim == 2:
        change = _least_change(data.T, apart.T)
        change = None if change is None else change.T
    else:
        return
    if change is not None:
        yield weight + (change.T if turned[position] else change)


def _scaled_weights(weight: Any, at: int, value: Any, goal: Any, axis: int) -> Iterator[Any]:
    """Yield a weight scaled to come closest to the goal: as a whole, and by channel,
    which is the axis `at` of the weight and `axis` of the goal.
    """
    other_axes = tuple(np.delete(np.arange(goal.ndim), axis))
    for axes, shape in ((None, ()), (other_axes, np.where(np.arange(weight.ndim) == at, -1, 1))):
        size = np.sum(np.square(value), axis=axes)
        factor = np.where(size, np.sum(value * goal, axis=axes) / np.where(size, size, 1), 1)
        yield weight * factor.reshape(shape)


def _solve_convolution(node: Node, weight: Any, data: Any, value: Any, goal: Any) -> Iterator[Any]:
    """Yield the kernel of a convolution with known pads that gives the expected output."""
    groups = int(node.attribute("group", 1))
    change = np.zeros(weight.shape)
    outputs, inputs = weight.shape[0] // groups, weight.shape[1]
    array = np.asarray(data, np.float64)
    for group in range(groups):
        channels = array[:, group * inputs : (group + 1) * inputs]
        system = _convolution_columns(node, channels, weight.shape, goal.shape[2:])
        if system is None:
            return
        own_slice = slice(group * outputs, (group + 1) * outputs)
        apart = np.moveaxis((goal - value)[:, own_slice].reshape(goal.shape[0], outputs, -1), 1, 2)
        least = _least_change(system, apart.reshape(-1, outputs))
        if least is None:
            return
        change[own_slice] = least.T.reshape(outputs, *weight.shape[1:])
    yield weight + change


def _convolution_columns(
    node: Node, data: Any, shape: Sequence[int], sizes: Sequence[int]
) -> Any | None:
    """Return the numbers by which the elements of a kernel are multiplied, one row for each element
    of a channel of the result; None if pads are unknown, or there are too many.

    Args:
        node: the convolution.
        data: its data, of one group of channels.
        shape: the shape of its weight.
        sizes: the sizes of the result, without batch and channels.
    """
    kernel, rank = shape[2:], len(shape) - 2
    pads = tuple(node.attribute("pads") or (0,) * 2 * rank)
    strides = tuple(node.attribute("strides") or (1,) * rank)
    spread = tuple(node.attribute("dilations") or (1,) * rank)
    if str(node.attribute("auto_pad", "NOTSET")) != "NOTSET" or np.ndim(data) != rank + 2:
        return None
    columns = shape[1] * int(np.prod(kernel))
    if columns * len(data) * int(np.prod(sizes)) > _MOST:
        return None
    padded = np.pad(data, [(0, 0), (0, 0), *((pads[i], pads[i + rank]) for i in range(rank))])
    used_kernels = []
    for index in np.ndindex(*kernel):
        cut: Any = tuple(
            slice(p * d, p * d + s * (size - 1) + 1, s)
            for p, d, s, size in zip(index, spread, strides, sizes)
        )
        place_of: Any = (slice(None), slice(None), *cut)
        used_kernels.append(padded[place_of])
    stacked = np.stack(used_kernels, 2)  # Axes: batch, inputs, kernel, *sizes.
    return np.moveaxis(stacked.reshape(*stacked.shape[:3], -1), 3, 1).reshape(-1, columns)


def _least_change(system: Any, apart: Any) -> Any | None:
    """Return the smallest weight change that best explains a difference, or None.
    The result is None if that takes too much work."""
    if system.size > _MOST or min(system.shape) > 2048 or not np.isfinite(system).all():
        return None
    return np.linalg.lstsq(system, apart, rcond=1e-7)[0]


def _solve_elementwise(
    node: Node, position: int, weight: Any, values: Mapping[int, Any], goal: Any
) -> Iterator[Any]:
    """Yield values for a weight of an elementwise node with which it would compute the goal."""
    value = values.get(1 - position)
    if value is None:
        return
    data = np.broadcast_to(np.asarray(value, np.float64), goal.shape)
    if node.op in ("Add", "Sub"):
        sign = -1.0 if node.op == "Sub" and position == 1 else 1.0
        array = data if node.op == "Add" else (-data if position == 0 else data)
        needed = goal - array if sign > 0 else array - goal
        yield _mean_over_broadcast(needed, weight)
        return
    with np.errstate(all="ignore"):
        if node.op == "Mul":
            yield _mean_over_broadcast(goal * data, weight) / _mean_over_broadcast(
                data * data, weight
            )
        elif position == 1:  # For data / weight = goal.
            yield _mean_over_broadcast(data * data, weight) / _mean_over_broadcast(
                goal * data, weight
            )
        else:  # For weight / data = goal.
            yield _mean_over_broadcast(goal * data, weight)


def _mean_over_broadcast(array: Any, weight: Any) -> Any:
    """Return the mean over the axes along which a weight is broadcast."""
    shape = (1,) * (array.ndim - weight.ndim) + weight.shape
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return array.mean(axis=axes, keepdims=True) if axes else array


def _mean_over(array: Any, weight: Any, axis: int) -> Any:
    """Return the mean over all axes except one; NaN if the weight does not fit that axis."""
    if weight.ndim != 1 or array.ndim <= axis or array.shape[axis] != weight.size:
        return np.full(weight.shape, np.nan)
    return array.mean(axis=tuple(index for index in range(array.ndim) if index != axis))


def _solve_rows(weight: Any, indices: Any, goal: Any) -> Iterator[Any]:
    """Yield the weight of a Gather with the rows that give the expected output."""
    if indices is None or np.shape(indices) != goal.shape[: np.ndim(indices)]:
        return
    values = weight.astype(np.float64)
    values[np.asarray(indices).reshape(-1)] = goal.reshape(-1, *weight.shape[1:])
    yield values


def _solve_norm(node: Node, position: int, weight: Any, value: Any, goal: Any) -> Iterator[Any]:
    """Yield the scale or bias, by channel, of a normalization that gives the expected output."""
    is_last = node.op == "LayerNormalization"
    if weight.ndim != 1 or (is_last and int(node.attribute("axis", -1)) not in (-1, goal.ndim - 1)):
        return
    axis = goal.ndim - 1 if is_last else 1
    if position == 2:
        yield weight + _mean_over(goal - value, weight, axis)
        return
    if goal.shape[axis] != weight.size:
        return
    axes = tuple(index for index in range(goal.ndim) if index != axis)
    middle, expected = value - value.mean(axes, keepdims=True), goal - goal.mean(
        axes, keepdims=True
    )
    with np.errstate(all="ignore"):
        yield weight * ((middle * expected).sum(axes) / (middle * middle).sum(axes))


def _solve_scale(
    node: Node, position: int, weight: Any, values: Mapping[int, Any], goal: Any
) -> Iterator[Any]:
    """Yield the scale of a QuantizeLinear or DequantizeLinear pair,
    for all channels or for each one; or the codes that a DequantizeLinear reads."""
    first, zero = values.get(0), values.get(2)
    if position == 0:
        yield from _solve_codes(node, weight, values, goal)
        return
    number, steps = np.asarray(first, np.float64), np.asarray(goal, np.float64)
    scale = np.asarray(values.get(1), np.float64)
    is_channelwise = scale.ndim == 1 and scale.size > 1
    if (
        first is None
        or number.shape != steps.shape
        or (is_channelwise and number.ndim <= int(node.attribute("axis", 1)))
    ):
        return
    lower: Any = np.zeros(scale.size) if zero is None else np.asarray(zero, np.float64).reshape(-1)
    lower = np.broadcast_to(lower, scale.size).reshape(scale.shape)
    groups = _over_elements(node, np.arange(scale.size).reshape(scale.shape), steps).reshape(-1)
    real, coded = (steps, number) if node.op == "DequantizeLinear" else (number, steps)

    def total(array: Any) -> Any:
        """Return the sum over the elements of each scale."""
        return np.bincount(groups, array.reshape(-1), scale.size).reshape(scale.shape)

    with np.errstate(all="ignore"):
        if position == 1:
            moved = coded - _over_elements(node, lower, steps)
            expected = total(real * moved) / total(moved * moved)
            yield expected
            if node.op == "QuantizeLinear":  # Rounding hides the exact scale, so try close values.
                for share in (-3e-3, 3e-3, -1e-3, 1e-3, -3e-4, 3e-4, -1e-2, 1e-2):
                    yield expected * (1 + share)
                yield scale * np.round(expected / scale, 2)
        elif is_float(np.asarray(zero)) or np.asarray(zero).dtype.kind in "iuV":
            apart = coded - real / _over_elements(node, scale, steps)
            yield np.rint(total(apart) / total(np.ones(steps.shape)))


def _solve_codes(node: Node, codes: Any, values: Mapping[int, Any], goal: Any) -> Iterator[Any]:
    """Yield the codes that give the expected numbers with the scale and zero point of a
    DequantizeLinear; none if no codes of their type do, or another zero point would."""
    if node.op != "DequantizeLinear" or np.shape(codes) != np.shape(goal) or not np.size(goal):
        return
    own, real = np.asarray(codes).astype(np.float64), np.asarray(goal, np.float64)
    scale: Any = np.asarray(values.get(1), np.float64)
    zero: Any = (
        np.zeros(scale.shape) if values.get(2) is None else np.asarray(values[2], np.float64)
    )
    numbers = [scale, zero.reshape(scale.shape), np.arange(scale.size).reshape(scale.shape)]
    scale, zero, groups = (_over_elements(node, number, real) for number in numbers)
    with np.errstate(all="ignore"):
        array = real / scale + zero
        rounded = array if is_float(np.asarray(codes)) else np.rint(array)
        held = rounded.astype(np.asarray(codes).dtype).astype(np.float64)
    is_held = np.allclose(held, array, rtol=1e-3, atol=0 if array is rounded else 1e-2)
    moved = [(held - own)[groups == group] for group in np.unique(groups[held != own])]
    if is_held and not any((part == part[0]).all() for part in moved):
        yield held


def _over_elements(node: Node, number: Any, goal: Any) -> Any:
    """Return the scale, zero point or other number of each element of a quantized tensor."""
    axis = int(node.attribute("axis", 1)) % goal.ndim
    if number.ndim == 1 and number.size > 1:
        number = number.reshape([-1 if at == axis else 1 for at in range(goal.ndim)])
    elif number.ndim == goal.ndim and (size := int(node.attribute("block_size", 0))):
        number = np.take(np.repeat(number, size, axis), range(goal.shape[axis]), axis)
    return np.broadcast_to(number if number.size > 1 else number.reshape(()), goal.shape)


def _factor(array: Any, reference: Any) -> float | None:
    """Return the factor between two arrays, if it is the same for all elements; else None."""
    nonzero = reference != 0
    if not nonzero.any() or array[~nonzero].any():
        return None
    ratios = np.asarray(array[nonzero], np.float64) / np.asarray(reference[nonzero], np.float64)
    middle = float(np.mean(ratios))
    return middle if middle and np.allclose(ratios, middle, rtol=_RATIO) else None
