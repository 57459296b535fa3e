"""Formulas in float64 of operators with a sliding window; see `formulas`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from polygraphy.domain.tensors.aliases import Array

_MOST = 1 << 28
"""More products than this are not computed a second time."""


class _Windows:
    """Where the windows of an operator lie along each axis of an image ``[N, C, ...]``."""

    def __init__(self, shape: Sequence[int], kernel: Sequence[int], attributes: Any) -> None:
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
                    count -= 1  # A window begins within the image or the padding before it.
            self._begins.append(begin)
            self._ends.append(end)
            self.counts.append(count)

    def taps(self, x: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Yield for each place of the kernel the elements that all windows have there, which of
        them lie in the image, and which in the image or its padding.
        """
        for tap in np.ndindex(*self._kernel):
            where, inside, padded = [], np.ones((), bool), np.ones((), bool)
            for axis, size in enumerate(self._shape):
                steps = np.arange(self.counts[axis]) * self._strides[axis]
                at = steps - self._begins[axis] + tap[axis] * self._dilations[axis]
                where.append(np.clip(at, 0, size - 1))
                inside = inside[..., None] & (at >= 0) & (at < size)
                padded = padded[..., None] & (at < size + self._ends[axis])
            place: tuple[Any, ...] = (slice(None), slice(None), *np.ix_(*where))
            yield x[place], inside, padded


def conv(x: Array, w: Array, b: Any = None, *, group: int = 1, **attributes: Any) -> Array:
    """Return the convolution of an image."""
    windows = _Windows(x.shape[2:], w.shape[2:], attributes)
    if math.prod(windows.counts) * w.size * x.shape[0] > _MOST:
        raise NotImplementedError("a large convolution")
    made = np.zeros((x.shape[0], group, w.shape[0] // group, *windows.counts))
    weights = w.reshape(group, w.shape[0] // group, *w.shape[1:])
    for place, (values, inside, _) in enumerate(windows.taps(x)):
        held = np.where(inside, values, 0).reshape(x.shape[0], group, w.shape[1], *windows.counts)
        made += np.einsum(
            "ngc...,gmc->ngm...", held, weights.reshape(*weights.shape[:3], -1)[..., place]
        )
    result = made.reshape(x.shape[0], w.shape[0], *windows.counts)
    return result if b is None else result + b.reshape(-1, *[1] * (x.ndim - 2))


def max_pool(x: Array, *, kernel_shape: Sequence[int], **attributes: Any) -> Array:
    """Return the largest element of each window."""
    windows = _Windows(x.shape[2:], kernel_shape, attributes)
    made = np.full((*x.shape[:2], *windows.counts), -np.inf)
    for values, inside, _ in windows.taps(x):
        made = np.maximum(made, np.where(inside, values, -np.inf))
    return made


def lp_pool(x: Array, *, kernel_shape: Sequence[int], p: float = 2, **attributes: Any) -> Array:
    """Return the p-norm of each window."""
    windows = _Windows(x.shape[2:], kernel_shape, attributes)
    made = np.zeros((*x.shape[:2], *windows.counts))
    for values, inside, _ in windows.taps(x):
        made += np.where(inside, abs(values) ** p, 0)
    return np.asarray(made ** (1 / p))


def average_pool(
    x: Array, *, kernel_shape: Sequence[int], count_include_pad: int = 0, **attributes: Any
) -> Array:
    """Return the mean of each window; padding counts where it is to."""
    windows = _Windows(x.shape[2:], kernel_shape, attributes)
    made = np.zeros((*x.shape[:2], *windows.counts))
    counts = np.zeros(windows.counts)
    for values, inside, padded in windows.taps(x):
        made += np.where(inside, values, 0)
        counts += padded if count_include_pad else inside
    return np.asarray(made / counts)
