"""Arithmetic as older opsets define it, and reductions, rounded once; and what implementations of
operators have in common: how they widen and narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
Results: TypeAlias = "tuple[Array, ...]"


def to_float64(x: Array) -> Array:
    """Return the elements as float64; integers are exact up to 2**53."""
    return np.asarray(x).astype(np.float64)


def round_like(result: Array, operand: Array) -> Array:
    """Return a result rounded to the data type of an operand."""
    return np.asarray(result).astype(operand.dtype)


def positive_axis(axis: int, rank: int) -> int:
    """Return the non-negative number of an axis.

    Raises:
        ValueError: there is no such axis.
    """
    axis = int(axis)
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for a tensor of rank {rank}")
    return axis % rank


def index_of_slices(rank: int, slices: dict[int, Any]) -> tuple[Any, ...]:
    """Return an index with slices of some axes, and all elements of the other axes."""
    return tuple(slices.get(axis, slice(None)) for axis in range(rank))


def axis_values(values: Sequence[int] | None, length: int, default: int) -> list[int]:
    """Return an attribute as one value per spatial axis."""
    return [int(value) for value in values] if values else [default] * length


def with_legacy_broadcast(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """Return a binary operator as it was before opset 7:
    shapes are equal, or the second one is aligned with the first from an axis on if the attribute
    `broadcast` allows it.
    """

    def call(x: Array, y: Array, *, axis: int | None = None, broadcast: int = 0, **_: Any) -> Array:
        """Return the result of the operation, with the broadcasting of old opsets."""
        if not broadcast:
            if x.shape != y.shape:
                raise ValueError(f"shapes {x.shape} and {y.shape} differ, and broadcast is 0")
        elif axis is not None:
            y = y.reshape(*y.shape, *(1,) * (x.ndim - positive_axis(axis, x.ndim) - y.ndim))
        array = np.asarray(function(x, y))
        return array if array.dtype == bool else array.astype(x.dtype)

    return call


def div(x: Array, y: Array, **_: Any) -> Array:
    """Return the quotient; the fraction of integer quotients is dropped."""
    if x.dtype.kind not in "iu":
        array: Array = np.divide(x, y).astype(x.dtype)
        return array
    quotient = np.floor_divide(x, y)
    is_below = (np.remainder(x, y) != 0) & ((x < 0) != (y < 0))
    return round_like(quotient + is_below.astype(x.dtype), x)


def total(*values: Array, **_: Any) -> Array:
    """Return the sum of all operands."""
    return round_like(sum(map(to_float64, values[1:]), to_float64(values[0])), values[0])


def mean(*values: Array, **_: Any) -> Array:
    """Return the mean of all operands."""
    return round_like(
        sum(map(to_float64, values[1:]), to_float64(values[0])) / len(values), values[0]
    )


_erf = np.vectorize(math.erf, otypes=[np.float64])


def erf(x: Array, **_: Any) -> Array:
    """Return the error function of each element."""
    return round_like(_erf(to_float64(x)) if x.dtype.kind not in "iu" else np.rint(_erf(x)), x)


def gelu(x: Array, *, approximate: str = "none", **_: Any) -> Array:
    """Return x times the probability that a normal variable is below it, or an approximation."""
    values = to_float64(x)
    if approximate == "tanh":
        share = 1 + np.tanh(math.sqrt(2 / math.pi) * (values + 0.044715 * values**3))
    else:
        share = 1 + _erf(values / math.sqrt(2))
    return round_like(0.5 * values * share, x)


def det(x: Array, **_: Any) -> Array:
    """Return the determinants of matrices."""
    return round_like(np.linalg.det(to_float64(x)), x)


def clip(x: Array, **limits: Any) -> Array:
    """Return the elements limited by attributes, as below opset 11."""
    low, high = limits.get("min"), limits.get("max")
    array = x if low is None else np.maximum(x, np.asarray(low).astype(x.dtype))
    return array if high is None else np.minimum(array, np.asarray(high).astype(x.dtype))


def prelu(x: Array, slope: Array, **_: Any) -> Array:
    """Return the elements with negative ones scaled by one factor per channel, as below opset 7."""
    if slope.ndim == 1 and slope.size > 1:
        slope = slope.reshape(-1, *(1,) * (x.ndim - 2))
    array: Array = np.where(x < 0, x * slope, x).astype(x.dtype)
    return array


def gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    opset: int,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,
    transA: int = 0,
    transB: int = 0,
    **_: Any,
) -> Array:
    """Return alpha A' B' + beta C."""
    left, right = (
        matrix.T if is_turned else matrix for matrix, is_turned in ((a, transA), (b, transB))
    )
    exact = np.int64 if a.dtype.kind in "iu" else np.float64
    product = left.astype(exact) @ right.astype(exact)
    if alpha != 1:
        product = product * float(alpha)
    if c is not None and c.size:
        if opset < 7 and not broadcast and c.shape != product.shape:
            raise ValueError(f"shapes {c.shape} and {product.shape} differ, and broadcast is 0")
        added = c.astype(exact)
        product = product + (added * float(beta) if beta != 1 else added)
    return round_like(product, a)


def cum_sum(x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0, **_: Any) -> Array:
    """Return the cumulative sum along an axis."""
    along = positive_axis(int(np.asarray(axis).reshape(())), x.ndim)
    values = x if x.dtype.kind in "iu" else to_float64(x)
    if reverse:
        values = np.flip(values, along)
    cumsum = np.cumsum(values, axis=along, dtype=values.dtype)
    if exclusive:
        cumsum = cumsum - values
    return round_like(np.flip(cumsum, along) if reverse else cumsum, x)


def _log_sum_exp(x: Array, **over: Any) -> Array:
    """Return the logarithm of the sum of exponentials."""
    highest = np.max(x, axis=over["axis"], keepdims=True, initial=-np.inf)
    highest = np.where(np.isfinite(highest), highest, 0)
    total = np.log(np.sum(np.exp(x - highest), **over))
    sum_exp: Array = total + np.sum(highest, **over) / max(1, highest.size // max(1, total.size))
    return sum_exp


_REDUCED: dict[str, Callable[..., Array]] = {
    "ReduceL1": lambda x, **over: np.sum(np.abs(x), **over),
    "ReduceL2": lambda x, **over: np.sqrt(np.sum(np.square(to_float64(x)), **over)),
    "ReduceLogSum": lambda x, **over: np.log(np.sum(x, **over)),
    "ReduceLogSumExp": lambda x, **over: _log_sum_exp(to_float64(x), **over),
    "ReduceMean": lambda x, **over: np.mean(to_float64(x), **over),
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
    "ReduceSumSquare": lambda x, **over: np.sum(np.square(x), **over),
}


def reduce(name: str) -> Callable[..., Array]:
    """Return a reduction operator; its axes are an attribute, or an input in later opsets."""

    def call(
        x: Array,
        axes_input: Array | None = None,
        *,
        axes: Sequence[int] | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
        **_: Any,
    ) -> Array:
        """Return the reduced array in the type of the input."""
        axis_list = [int(axis) for axis in np.ravel(axes_input)] if axes_input is not None else axes
        if axis_list:
            over = tuple(positive_axis(axis, x.ndim) for axis in axis_list)
        else:
            over = () if noop_with_empty_axes else tuple(range(x.ndim))
        exact = {"i": np.int64, "u": np.uint64}.get(x.dtype.kind, np.float64)
        return round_like(_REDUCED[name](x.astype(exact), axis=over, keepdims=bool(keepdims)), x)

    return call
