"""Formulas of operators that choose, move or count elements, that are made of indices, or have a
sliding window; see `polygraphy.adapters.onnx_common.formulas`. They go element by
element, or by axes, as the standard words them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.precision import is_float

_PLAIN = frozenset(
    ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
) | {"bfloat16", "float16", "float32", "float64"}
_LARGE = 1 << 26
"""Above this number of multiplications, a sum of products is not computed."""
_MANY = 1 << 20
"""More elements are not visited one by one."""


def _all_indices(shape: Sequence[int]) -> Any:
    """Return the indices of all elements."""
    if np.prod(shape, dtype=np.int64) > _MANY:
        raise NotImplementedError("tensors of this size")
    return np.ndindex(*shape)


def _extreme_index(
    is_largest: bool, x: Array, axis: int, keepdims: int, select_last_index: int = 0, **_: Any
) -> Array:
    """Return the index of the largest or smallest element along an axis."""
    best = (
        np.max(x, axis=axis, keepdims=True) if is_largest else np.min(x, axis=axis, keepdims=True)
    )
    if is_float(best) and np.isnan(best).any():
        raise NotImplementedError("sorting of NaN")
    positions = np.arange(x.shape[axis]).reshape(
        [-1 if at == axis % x.ndim else 1 for at in range(x.ndim)]
    )
    are_best = x == best
    if select_last_index:
        index = np.where(are_best, positions, -1).max(axis=axis, keepdims=bool(keepdims))
    else:
        index = np.where(are_best, positions, x.shape[axis]).min(axis=axis, keepdims=bool(keepdims))
    return np.asarray(index, np.int64)


def _cast_to(x: Array, kind: Any) -> Array:
    """Return x in a data type; raise NotImplementedError if an integer type cannot hold it."""
    if kind.name not in _PLAIN or x.dtype.name not in _PLAIN:
        raise NotImplementedError("casts of strings, or to types with fewer than 8 bits")
    if kind.kind in "iu" and is_float(x):
        limits = np.iinfo(kind)
        if not (np.isfinite(x).all() and ((x > limits.min - 1) & (x < limits.max + 1)).all()):
            raise NotImplementedError("casts of values outside the integer range")
        x = np.trunc(x)
    return (x != 0) if kind.kind == "b" else x.astype(kind)


def _cast(x: Array, *, to: int, **_: Any) -> Array:
    """Return x in the data type with an ONNX number."""
    return _cast_to(x, DataType.from_dtype(to, "onnx").numpy())


def _compress(x: Array, condition: Array, *, axis: int | None = None, **_: Any) -> Array:
    """Return the slices whose condition is true."""
    flat = x.reshape(-1) if axis is None else x
    ats = [at for at, holds in enumerate(condition) if holds]
    return np.take(flat, np.array(ats, np.int64), axis=0 if axis is None else axis)


def _cum_sum(x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0, **_: Any) -> Array:
    """Return the cumulative sum along an axis."""
    lines = np.moveaxis(x, int(np.asarray(axis).reshape(-1)[0]), 0)
    cum_sum, total = np.empty_like(lines), np.zeros_like(lines[0])
    for at in range(len(lines))[:: -1 if reverse else 1]:
        after = total + lines[at]
        cum_sum[at] = total if exclusive else after
        total = after
    return np.moveaxis(cum_sum, 0, int(np.asarray(axis).reshape(-1)[0]))


def _depth_to_space(x: Array, *, blocksize: int, mode: Any = "DCR", **_: Any) -> Array:
    """Return x with blocks of channels moved to space."""
    samples, channels, height, width = x.shape
    inner, size = channels // blocksize**2, blocksize
    array = np.empty((samples, inner, height * size, width * size), x.dtype)
    for channel in range(inner):
        for row in range(size):
            for column in range(size):
                block = row * size + column
                first = mode in ("CRD", b"CRD")
                read = channel * size * size + block if first else block * inner + channel
                array[:, channel, row::size, column::size] = x[:, read]
    return array


def _space_to_depth(x: Array, *, blocksize: int, mode: Any = None, **_: Any) -> Array:
    """Return x with blocks of space moved to channels."""
    size = blocksize
    if mode not in (None, "DCR", b"DCR"):
        raise NotImplementedError(f"the order {mode}")
    parts = [x[:, :, row::size, column::size] for row in range(size) for column in range(size)]
    return np.concatenate(parts, axis=1)


def _einsum(*inputs: Array, equation: Any, **_: Any) -> Array:
    """Return the product of all operands along all letters, summed over those that the result
    lacks.
    """
    text = equation.decode() if isinstance(equation, bytes) else equation
    terms, arrow, last = text.replace(" ", "").partition("->")
    names = terms.split(",")
    if "." in text or any(len({*value}) < len(value) for value in (*names, last)):
        raise NotImplementedError("an ellipsis or a repeated letter")
    letters = "".join(sorted({*terms} - {","}))
    last = last if arrow else "".join(letter for letter in letters if terms.count(letter) == 1)
    sizes = {name: size for value, x in zip(names, inputs) for name, size in zip(value, x.shape)}
    order = last + "".join(letter for letter in letters if letter not in last)
    if np.prod([sizes[letter] for letter in order], dtype=np.float64) > _LARGE:
        raise NotImplementedError("this number of products")
    product: Any = 1
    for value, x in zip(names, inputs):
        held_names = [name for name in order if name in value]
        turned = x.transpose([value.index(name) for name in held_names])
        product = product * turned.reshape([sizes[name] if name in value else 1 for name in order])
    total = np.asarray(product).sum(axis=tuple(range(len(last), len(order))))
    return np.asarray(total, inputs[0].dtype)


def _expand(x: Array, shape: Array, **_: Any) -> Array:
    """Return x broadcast to a shape."""
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(int(size) for size in shape)))


def _flatten(x: Array, *, axis: int = 1, **_: Any) -> Array:
    """Return x as a matrix, split at an axis."""
    start = axis + x.ndim if axis < 0 else axis
    return x.reshape(int(np.prod(x.shape[:start])), int(np.prod(x.shape[start:])))


def _gather_elements(x: Array, indices: Array, *, axis: int = 0, **_: Any) -> Array:
    """Return one element for each index."""
    array = np.empty(indices.shape, x.dtype)
    for at in _all_indices(indices.shape):
        index = list(at)
        index[axis] = int(indices[at])
        array[at] = x[tuple(index)]
    return array


def _gather_nd(x: Array, indices: Array, *, batch_dims: int = 0, **_: Any) -> Array:
    """Return one slice for each index in the last axis of `indices`."""
    shape = indices.shape[:-1]
    rest_shape = x.shape[batch_dims + indices.shape[-1] :]
    array = np.empty((*shape, *rest_shape), x.dtype)
    for at in _all_indices(shape):
        index = (*at[:batch_dims], *(int(value) for value in indices[at]))
        array[at] = x[index]
    return array


def _combine(reduction: Any, element: Any, update: Any) -> Any:
    """Return an element combined with its update."""
    name = reduction.decode() if isinstance(reduction, bytes) else reduction or "none"
    functions: Mapping[str, Callable[[], Any]] = {
        "none": lambda: update, "add": lambda: element + update, "mul": lambda: element * update,
        "max": lambda: np.maximum(element, update), "min": lambda: np.minimum(element, update),
    }  # fmt: skip
    return functions[name]()


def _scatter_elements(
    x: Array, indices: Array, updates: Array, *, axis: int = 0, reduction: Any = "none", **_: Any
) -> Array:
    """Return x with one element replaced for each index."""
    scatter_elements: Array = x.copy()
    for at in _all_indices(indices.shape):
        index = list(at)
        index[axis] = int(indices[at])
        scatter_elements[tuple(index)] = _combine(
            reduction, scatter_elements[tuple(index)], updates[at]
        )
    return scatter_elements


def _scatter_nd(
    x: Array, indices: Array, updates: Array, *, reduction: Any = "none", **_: Any
) -> Array:
    """Return x with one slice replaced for each index."""
    scatter_nd: Array = x.copy()
    for at in _all_indices(indices.shape[:-1]):
        index = tuple(int(value) for value in indices[at])
        scatter_nd[index] = _combine(reduction, scatter_nd[index], updates[at])
    return scatter_nd


def _hardmax(x: Array, *, opset: int, axis: int | None = None, **_: Any) -> Array:
    """Return 1 at the first of the largest elements, 0 elsewhere."""
    if opset < 13:
        raise NotImplementedError("the axis before opset 13")
    along = -1 if axis is None else axis
    first = _extreme_index(True, x, along, 1)
    positions = np.arange(x.shape[along]).reshape(
        [-1 if at == along % x.ndim else 1 for at in range(x.ndim)]
    )
    return np.asarray(positions == first, x.dtype)


def _non_zero(x: Array, **_: Any) -> Array:
    """Return the indices of the elements that are not zero."""
    ats = [at for at in _all_indices(x.shape) if x[at]]
    return np.asarray(np.array(ats, np.int64).reshape(len(ats), x.ndim).T)


def _one_hot(indices: Array, depth: Array, values: Array, *, axis: int = -1, **_: Any) -> Array:
    """Return the second of two values at each index, and the first elsewhere."""
    if is_float(indices) or is_float(np.asarray(depth)):
        raise NotImplementedError("indices that are not integers")
    count = int(np.asarray(depth).reshape(-1)[0])
    classes = indices.astype(np.int64)
    at = axis + indices.ndim + 1 if axis < 0 else axis
    parts = [
        np.where((classes == index) | (classes + count == index), values[1], values[0])
        for index in range(count)
    ]
    return np.stack(parts, axis=at).astype(values.dtype)


def _range(start: Array, limit: Array, delta: Array, **_: Any) -> Array:
    """Return the numbers from start to limit by delta."""
    first, last, step = (np.asarray(array).reshape(-1)[0] for array in (start, limit, delta))
    count = max(0, int(np.ceil((float(last) - float(first)) / float(step))))
    return np.array([first + number * step for number in range(count)], np.asarray(start).dtype)


def _reshape(x: Array, shape: Any = None, *, allowzero: int = 0, **_: Any) -> Array:
    """Return x reshaped; 0 keeps the size of an axis by default."""
    if shape is None:
        raise NotImplementedError("a shape in an attribute")
    sizes = [int(size) for size in shape]
    wanted = [x.shape[at] if size == 0 and not allowzero else size for at, size in enumerate(sizes)]
    return x.reshape(wanted)


def _reverse_sequence(
    x: Array, lengths: Array, *, batch_axis: int = 1, time_axis: int = 0, **_: Any
) -> Array:
    """Return x with the start of each sequence reversed."""
    sequence: Array = x.copy()
    for sample, length in enumerate(lengths):
        for moment in range(int(length)):
            to: list[Any] = [slice(None)] * x.ndim
            source: list[Any] = [*to]
            to[batch_axis] = source[batch_axis] = sample
            to[time_axis], source[time_axis] = moment, int(length) - 1 - moment
            sequence[tuple(to)] = x[tuple(source)]
    return sequence


def _slice(
    x: Array, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None, **_: Any
) -> Array:
    """Return a slice of x."""
    if starts is None or ends is None:
        raise NotImplementedError("bounds in attributes")
    array = x
    over = range(len(starts)) if axes is None else axes
    for number, axis in enumerate(over):
        step = 1 if steps is None else int(steps[number])
        size = x.shape[int(axis)]
        start, end = (
            int(value) + size if value < 0 else int(value)
            for value in (starts[number], ends[number])
        )
        low, high = (0, size) if step > 0 else (-1, size - 1)
        start = min(max(start, 0), high)
        end = min(max(end, low), size if step > 0 else high)
        array = np.take(array, np.arange(start, end, step), axis=int(axis))
    return array


def _squeeze(x: Array, axes: Any = None, **attributes: Any) -> Array:
    """Return x without some axes of size 1, or without all of them."""
    attribute = attributes.get("axes") if axes is None else axes
    over = (
        {at for at, size in enumerate(x.shape) if size == 1}
        if attribute is None
        else {int(a) % x.ndim for a in attribute}
    )
    return x.reshape([size for at, size in enumerate(x.shape) if at not in over])


def _unsqueeze(x: Array, axes: Any = None, **attributes: Any) -> Array:
    """Return x with axes of size 1 inserted."""
    attribute: Any = attributes.get("axes") if axes is None else axes
    rank = x.ndim + len(attribute)
    new, sizes = {int(axis) % rank for axis in attribute}, iter(x.shape)
    return x.reshape([1 if at in new else next(sizes) for at in range(rank)])


def _tile(x: Array, repeats: Any = None, *old_inputs: Any, **_: Any) -> Array:
    """Return x repeated along each axis."""
    if old_inputs or np.ndim(repeats) != 1:
        raise NotImplementedError("repetition along one axis")
    array = x
    for axis, count in enumerate(repeats):
        array = np.concatenate([array] * int(count), axis) if count else np.take(array, [], axis)
    return array


def _top_k(x: Array, k: Any = None, *, axis: int = -1, largest: int = 1, **attributes: Any) -> Any:
    """Return the largest or smallest elements, and their indices."""
    count = attributes.get("k") if k is None else int(np.asarray(k).reshape(-1)[0])
    if attributes.get("sorted") == 0 or (is_float(x) and np.isnan(x).any()):
        raise NotImplementedError("any order")
    lines = np.moveaxis(x, axis, -1)
    sign = -1 if largest in (1, None) else 1
    positions = np.empty((*lines.shape[:-1], count), np.int64)
    for at in _all_indices(lines.shape[:-1]):
        values = lines[at].tolist()
        positions[at] = sorted(range(len(values)), key=lambda index: (sign * values[index], index))[
            :count
        ]
    along_axis = np.take_along_axis(lines, positions, -1)
    return np.moveaxis(along_axis, -1, axis), np.moveaxis(positions, -1, axis)


def _trilu(x: Array, k: Any = None, *, upper: int = 1, **_: Any) -> Array:
    """Return the upper or lower triangle, zero elsewhere."""
    shift = 0 if k is None else int(np.asarray(k).reshape(-1)[0])
    rows, columns = np.indices(x.shape[-2:])
    trilu = columns >= rows + shift if upper else columns <= rows + shift
    return np.where(trilu, x, np.zeros((), x.dtype))


def _mod(x: Array, y: Array, *, fmod: int = 0, **_: Any) -> Array:
    """Return the remainder of the division."""
    if not np.all(y != 0):
        raise NotImplementedError("a remainder of a division by zero")
    if not fmod and is_float(x):
        raise NotImplementedError("values that the ONNX specification does not allow")
    return np.asarray(
        x - y * np.trunc(x / y) if is_float(x) else (np.fmod if fmod else np.mod)(x, y)
    )


def _shift(x: Array, y: Array, *, direction: Any, **_: Any) -> Array:
    """Return x with its bits shifted by y."""
    if np.any(y >= 8 * x.dtype.itemsize) or np.any(y < 0) or x.dtype.kind != "u":
        raise NotImplementedError("shifts of signed integers, or by more bits than the type has")
    factors = np.power(np.array(2, x.dtype), y)
    return np.asarray(x * factors if direction in ("LEFT", b"LEFT") else x // factors)


def _is_infinite(
    x: Array, *, detect_negative: int = 1, detect_positive: int = 1, **_: Any
) -> Array:
    """Return whether each element is infinite, of the signs that are detected."""
    top = np.finfo(np.float64).max
    above, below = (x > top) & bool(detect_positive), (x < -top) & bool(detect_negative)
    return np.asarray(above | below)


def _fill_shape(shape: Array, *, value: Any = None, **_: Any) -> Array:
    """Return an array of a shape filled with a value."""
    array = np.zeros(1, np.float32) if value is None else np.asarray(value).reshape(-1)
    computed_array = np.empty([int(size) for size in shape], array.dtype)
    computed_array[...] = array[0]
    return computed_array


def _shape(x: Array, *, start: int | None = None, end: int | None = None, **_: Any) -> Array:
    """Return the dimensions of x from start to end."""
    return np.array(x.shape[start or 0 : end], np.int64)


def _quantize(
    x: Array, scale: Array, zero: Any = None, *, axis: int = 1, **attributes: Any
) -> Array:
    """Return x over scale, rounded, plus zero point, within the limits of its type."""
    kind = np.dtype(np.uint8) if zero is None else np.asarray(zero).dtype
    if attributes.get("block_size") or attributes.get("output_dtype") or scale.ndim > 1:
        raise NotImplementedError("a scale for each block, or a different output type")
    if kind not in (np.int8, np.uint8, np.int16, np.uint16):
        raise NotImplementedError("types with fewer than 8 bits")
    shape = (
        [-1 if at == axis % x.ndim else 1 for at in range(x.ndim)]
        if scale.size > 1
        else [1] * x.ndim
    )
    start = 0 if zero is None else np.asarray(zero, np.float64).reshape(shape)
    limits = np.iinfo(kind)
    # Divide in the type of the operands, so that ties are the same as in the specification.
    ratio = (x.astype(np.float32) / scale.astype(np.float32).reshape(shape)).astype(np.float64)
    return np.clip(np.rint(ratio) + start, limits.min, limits.max).astype(kind)


def _matmul_integer(a: Array, b: Array, za: Any = None, zb: Any = None, **_: Any) -> Array:
    """Return the int32 product of matrices without their zero points."""
    if any(zero is not None and np.size(zero) > 1 for zero in (za, zb)):
        raise NotImplementedError("several zero points")
    left, right = (
        array.astype(np.int64) - (0 if zero is None else int(np.asarray(zero).reshape(-1)[0]))
        for array, zero in ((a, za), (b, zb))
    )
    return (left @ right).astype(np.int32)


def _eye(x: Array, *, k: int = 0, dtype: int | None = None, **_: Any) -> Array:
    """Return ones on a diagonal, zeros elsewhere."""
    rows, columns = np.indices(x.shape)
    if dtype is None:
        raise NotImplementedError("the type of the input")
    return np.asarray(columns == rows + k, DataType.from_dtype(dtype, "onnx").numpy())


FORMULAS: Mapping[str, Callable[..., Any]] = {
    "BitShift": _shift,
    "BitwiseAnd": lambda x, y, **_: x & y,
    "BitwiseNot": lambda x, **_: ~x,
    "BitwiseOr": lambda x, y, **_: x | y,
    "BitwiseXor": lambda x, y, **_: x ^ y,
    "Compress": _compress,
    "CumSum": _cum_sum,
    "DepthToSpace": _depth_to_space,
    "Einsum": _einsum,
    "Expand": _expand,
    "Flatten": _flatten,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Hardmax": _hardmax,
    "Mod": _mod,
    "OneHot": _one_hot,
    "Range": _range,
    "Reshape": _reshape,
    "ReverseSequence": _reverse_sequence,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Shrink": lambda x, *, bias, lambd, **_: np.where(
        x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)
    ),
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Squeeze": _squeeze,
    "Swish": lambda x, *, alpha=1.0, **_: x / (1 + np.exp(-alpha * x)),
    "Tile": _tile,
    "TopK": _top_k,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
}
"""Formulas by standard operator, for operators whose output has the type of the input."""
TYPED: Mapping[str, Callable[..., Any]] = {
    "ArgMax": lambda x, *, axis=0, keepdims=1, **how: _extreme_index(
        True, x, axis, keepdims, **how
    ),
    "ArgMin": lambda x, *, axis=0, keepdims=1, **how: _extreme_index(
        False, x, axis, keepdims, **how
    ),
    "Cast": _cast,
    "ConstantOfShape": _fill_shape,
    "EyeLike": _eye,
    "IsInf": _is_infinite,
    "MatMulInteger": _matmul_integer,
    "NonZero": _non_zero,
    "QuantizeLinear": _quantize,
    "Shape": _shape,
    "Size": lambda x, **_: np.array(x.size, np.int64),
}
"""The others, which give a type of their own."""


_MOST = 1 << 28
"""More products than this are not computed a second time."""


class _Windows:
    """The positions of the windows of an operator along each axis of an image ``[N, C, ...]``."""

    def __init__(self, shape: Sequence[int], kernel: Sequence[int], attributes: Any) -> None:
        """Compute the positions from shape, kernel and attributes."""
        rank = len(shape)
        self._shape, self._kernel = shape, kernel
        self._strides = attributes.get("strides") or [1] * rank
        self._dilations = attributes.get("dilations") or [1] * rank
        self._begins: list[int] = []
        self._ends: list[int] = []
        self.counts: list[int] = []
        pads = attributes.get("pads") or [0] * 2 * rank
        auto = attributes.get("auto_pad") or "NOTSET"
        auto = auto.decode() if isinstance(auto, bytes) else auto
        for axis, size in enumerate(shape):
            reach = (kernel[axis] - 1) * self._dilations[axis] + 1
            begin, end, stride = pads[axis], pads[rank + axis], self._strides[axis]
            if auto in ("SAME_UPPER", "SAME_LOWER"):
                count = math.ceil(size / stride)
                total = max(0, (count - 1) * stride + reach - size)
                begin = total // 2 if auto == "SAME_UPPER" else (total + 1) // 2
                end = total - begin
            else:
                begin, end = (0, 0) if auto == "VALID" else (begin, end)
                rounded = math.ceil if attributes.get("ceil_mode") else math.floor
                count = rounded((size + begin + end - reach) / stride) + 1
                if attributes.get("ceil_mode") and (count - 1) * stride >= size + begin:
                    count -= 1  # A window starts within the image or the padding before it.
            self._begins.append(begin)
            self._ends.append(end)
            self.counts.append(count)

    def taps(self, x: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Yield elements of all windows, mask of those in the image, mask with its padding.
        There is one item for each element of the kernel.
        """
        for tap in np.ndindex(*self._kernel):
            where, inside, padded = [], np.ones((), bool), np.ones((), bool)
            for axis, size in enumerate(self._shape):
                steps = np.arange(self.counts[axis]) * self._strides[axis]
                at = steps - self._begins[axis] + tap[axis] * self._dilations[axis]
                where.append(np.clip(at, 0, size - 1))
                inside = inside[..., None] & (at >= 0) & (at < size)
                padded = padded[..., None] & (at < size + self._ends[axis])
            index: tuple[Any, ...] = (slice(None), slice(None), *np.ix_(*where))
            yield x[index], inside, padded


def conv(x: Array, w: Array, b: Any = None, *, group: int = 1, **attributes: Any) -> Array:
    """Return the convolution of an image."""
    windows = _Windows(x.shape[2:], w.shape[2:], attributes)
    if math.prod(windows.counts) * w.size * x.shape[0] > _MOST:
        raise NotImplementedError("a large convolution")
    einsum = np.zeros((x.shape[0], group, w.shape[0] // group, *windows.counts))
    weights = w.reshape(group, w.shape[0] // group, *w.shape[1:])
    for position, (values, inside, _) in enumerate(windows.taps(x)):
        array = np.where(inside, values, 0).reshape(x.shape[0], group, w.shape[1], *windows.counts)
        einsum += np.einsum(
            "ngc...,gmc->ngm...", array, weights.reshape(*weights.shape[:3], -1)[..., position]
        )
    result = einsum.reshape(x.shape[0], w.shape[0], *windows.counts)
    return result if b is None else result + b.reshape(-1, *[1] * (x.ndim - 2))


def max_pool(x: Array, *, kernel_shape: Sequence[int], **attributes: Any) -> Array:
    """Return the largest element of each window."""
    windows = _Windows(x.shape[2:], kernel_shape, attributes)
    array = np.full((*x.shape[:2], *windows.counts), -np.inf)
    for values, inside, _ in windows.taps(x):
        array = np.maximum(array, np.where(inside, values, -np.inf))
    return array


def lp_pool(x: Array, *, kernel_shape: Sequence[int], p: float = 2, **attributes: Any) -> Array:
    """Return the p-norm of each window."""
    windows = _Windows(x.shape[2:], kernel_shape, attributes)
    array = np.zeros((*x.shape[:2], *windows.counts))
    for values, inside, _ in windows.taps(x):
        array += np.where(inside, abs(values) ** p, 0)
    return np.asarray(array ** (1 / p))


def average_pool(
    x: Array, *, kernel_shape: Sequence[int], count_include_pad: int = 0, **attributes: Any
) -> Array:
    """Return the mean of each window; padding counts if `count_include_pad` is set."""
    windows = _Windows(x.shape[2:], kernel_shape, attributes)
    array = np.zeros((*x.shape[:2], *windows.counts))
    counts = np.zeros(windows.counts)
    for values, inside, padded in windows.taps(x):
        array += np.where(inside, values, 0)
        counts += padded if count_include_pad else inside
    return np.asarray(array / counts)
