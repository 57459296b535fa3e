"""Interpolation: Resize and Upsample at each of their versions, GridSample."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polygraphy.adapters.onnx_common.elementwise import Array, positive_axis, to_float64

_NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def upsample(
    x: Array,
    scales_input: Array | None = None,
    *,
    mode: str = "nearest",
    scales: Sequence[float] | None = None,
    height_scale: float | None = None,
    width_scale: float | None = None,
    **_: Any,
) -> Array:
    """Return x enlarged.
    The factors are two attributes in opset 1, one in opset 7, and an input in 9.
    """
    if scales_input is not None:
        factors = [float(scale) for scale in scales_input]
    elif scales is not None:
        factors = [float(scale) for scale in scales]
    else:
        factors = [1.0, 1.0, float(height_scale or 1), float(width_scale or 1)]
    return resize_10(x, np.array(factors), mode=mode)


def resize_10(x: Array, scales: Array, *, mode: str = "nearest", **_: Any) -> Array:
    """Return x resized as in opset 10: coordinates are divided by the factors.
    It does not define rounding; ONNX Runtime takes the next element if the input shrinks.
    """
    return resize(
        x,
        None,
        scales,
        mode="linear" if "linear" in mode else mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="outward",
    )


def resize(
    x: Array,
    roi: Array | None = None,
    scales: Array | None = None,
    sizes: Array | None = None,
    *,
    mode: str = "nearest",
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    nearest_mode: str = "round_prefer_floor",
    **_: Any,
) -> Array:
    """Return x resized, one axis after the other, as interpolation is separable."""
    chosen = [positive_axis(axis, x.ndim) for axis in (axes if axes else range(x.ndim))]
    factors, lengths = _factors(x, chosen, scales, sizes, keep_aspect_ratio_policy)
    array = to_float64(x)
    regions = [(0.0, 1.0)] * len(chosen)
    is_cropping = coordinate_transformation_mode == "tf_crop_and_resize"
    if is_cropping and roi is not None and np.size(roi):
        ends = to_float64(roi)
        regions = [(float(ends[i]), float(ends[len(chosen) + i])) for i in range(len(chosen))]
    outside = np.zeros(1, dtype=bool)
    for axis, factor, length, region in zip(chosen, factors, lengths, regions):
        size = x.shape[axis]
        if length == size and factor == 1 and region == (0.0, 1.0):
            continue
        # Choose the nearest element in float32, like backends. In float64, the factor 0.6 is
        # 0.6000000238, so 1.5 / 0.6 would be below 2.5.
        exact = np.float32 if mode == "nearest" else np.float64
        at = _origins(coordinate_transformation_mode, length, size, exact(factor), region)
        if mode == "nearest":
            how = nearest_mode
            if how == "outward":
                how = "ceil" if factor < 1 else "floor"
            index = np.clip(_NEAREST[how](at), 0, size - 1).astype(np.int64)
            array = array.take(index, axis=axis)
        else:
            scale = min(factor, 1.0) if antialias else 1.0
            indices, weights = _weights(mode, at, scale, cubic_coeff_a)
            if exclude_outside:
                weights = np.where((indices < 0) | (indices >= size), 0, weights)
            weights /= weights.sum(axis=0)
            indices = np.clip(indices, 0, size - 1)
            shape = (-1, *(1,) * (x.ndim - axis - 1))
            array = sum(
                array.take(index, axis=axis) * weight.reshape(shape)
                for index, weight in zip(indices, weights)
            )
        if is_cropping:
            shape = (-1, *(1,) * (x.ndim - axis - 1))
            outside = outside | ((at < 0) | (at > size - 1)).reshape(shape)
    if outside.any():
        array = np.where(outside, extrapolation_value, array)
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        array = np.clip(np.rint(array), limits.min, limits.max)
    result: Array = np.asarray(array).astype(x.dtype)
    return result


def _factors(
    x: Array,
    axes: Sequence[int],
    scales: Array | None,
    sizes: Array | None,
    policy: str,
) -> tuple[list[float], list[int]]:
    """Return the factor and the new length of each axis."""
    old = [x.shape[axis] for axis in axes]
    if sizes is None or not np.size(sizes):
        if scales is None or not np.size(scales):
            raise ValueError("neither scales nor sizes are set")
        factors = [float(scale) for scale in scales]
        return factors, [math.floor(size * factor) for size, factor in zip(old, factors)]
    lengths = [int(length) for length in sizes]
    factors = [length / size for length, size in zip(lengths, old)]
    if policy != "stretch":
        value = min(factors) if policy == "not_larger" else max(factors)
        factors = [value] * len(old)
        lengths = [math.floor(value * size + 0.5) for size in old]
    return factors, lengths


def _origins(
    how: str, length: int, size: int, factor: np.floating[Any], region: tuple[float, float]
) -> Array:
    """Return the positions in the input of the elements of the output,
    by the table of the standard, in the data type of the factor.
    """
    at: Array = np.arange(length).astype(factor.dtype)
    resized = factor * size
    if how == "align_corners":
        return at * 0 if resized == 1 else at * (size - 1) / (resized - 1)
    if how == "asymmetric":
        return np.asarray(at / factor)
    if how == "tf_half_pixel_for_nn":
        return np.asarray((at + 0.5) / factor)
    if how == "tf_crop_and_resize":
        begin, end = region
        if length == 1:
            return at + 0.5 * (begin + end) * (size - 1)
        return begin * (size - 1) + at * (end - begin) * (size - 1) / (length - 1)
    if how == "pytorch_half_pixel" and length == 1:
        return at * 0
    offset = 0.0
    if how == "half_pixel_symmetric":
        offset = size / 2 * (1 - length / resized)
    elif how not in ("half_pixel", "pytorch_half_pixel"):
        raise ValueError(f"coordinate_transformation_mode {how!r} is unknown")
    return np.asarray(offset + (at + 0.5) / factor - 0.5)


def _cubic(distance: Array, a: float) -> Array:
    """Return the weights of Keys' cubic convolution."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _weights(mode: str, at: Array, scale: float, a: float) -> tuple[Array, Array]:
    """Return the indices of input elements of each output element, and their weights.
    Both arrays have the shape [taps, length]. If `scale` is below 1, the kernel is wider by that
    factor.
    """
    reach = 2 if mode == "cubic" else 1
    if mode not in ("cubic", "linear"):
        raise ValueError(f"mode {mode!r} is unknown")
    taps = np.arange(-math.ceil(reach / scale) + 1, math.ceil(reach / scale) + 1)
    indices = np.floor(at).astype(np.int64) + taps[:, None]
    distance = np.abs(indices - at) * scale
    return indices, _cubic(distance, a) if mode == "cubic" else np.clip(1 - distance, 0, None)


def grid_sample(
    x: Array,
    grid: Array,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
    **_: Any,
) -> Array:
    """Return the interpolation at the points of a grid.
    `x` is [N, C, ...], the last axis of `grid` has the coordinates of a point, last axis first.
    Opset 16 names the modes bilinear and bicubic.
    """
    values, rank = to_float64(x), x.ndim - 2
    choices = []
    for axis, size in enumerate(x.shape[2:]):
        point = to_float64(grid[..., rank - 1 - axis])
        at = (point + 1) / 2 * (size - 1) if align_corners else ((point + 1) * size - 1) / 2
        if mode == "nearest":
            indices, weights = np.rint(at)[None], np.ones((1, *at.shape))
        else:
            reach = 2 if mode.endswith("cubic") else 1
            taps = np.arange(1 - reach, reach + 1).reshape(-1, *(1,) * at.ndim)
            indices = np.floor(at) + taps
            distance = np.abs(indices - at)
            weights = _cubic(distance, -0.75) if reach == 2 else 1 - distance
        choices.append(_pad_indices(indices, weights, size, padding_mode, align_corners))
    array = np.zeros((x.shape[0], *grid.shape[1:-1], x.shape[1]))
    samples = np.arange(x.shape[0]).reshape(-1, *(1,) * rank)
    last = np.moveaxis(values, 1, -1)
    for corners in itertools.product(*(zip(*choice) for choice in choices)):
        weight = math.prod((part[1] for part in corners), start=np.ones(()))
        index = (samples, *(part[0] for part in corners))
        array += last[index] * weight[..., None]
    result: Array = np.moveaxis(array, -1, 1).astype(x.dtype)
    return result


def _pad_indices(
    indices: Array, weights: Array, size: int, padding_mode: str, align_corners: int
) -> tuple[Array, Array]:
    """Return valid indices, and the weights after padding."""
    if padding_mode == "zeros":
        weights = np.where((indices < 0) | (indices > size - 1), 0, weights)
    elif padding_mode == "reflection":
        low, high = (0, size - 1) if align_corners else (-0.5, size - 0.5)
        if high > low:
            past = (indices - low) % (2 * (high - low))
            indices = low + np.minimum(past, 2 * (high - low) - past)
    elif padding_mode != "border":
        raise ValueError(f"padding_mode {padding_mode!r} is unknown")
    finite = np.nan_to_num(indices, nan=-1, posinf=size, neginf=-1)
    return np.clip(np.rint(finite), 0, size - 1).astype(np.int64), weights
