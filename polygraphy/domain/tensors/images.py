"""Arrays as images: where their channels are, and which range their values have."""

from __future__ import annotations

import numpy as np

from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.aliases import Array

_CHANNELS = (1, 3)

RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0))
"""What images usually are between."""


def as_images(array: Array) -> Array:
    """Return images as an array of shape (images, 3, height, width).

    Taken are (..., channels, height, width), (..., height, width, channels) and (height, width),
    with one channel, which is repeated, or three. Where both ends could be channels, the front is.

    Raises:
        UsageError: it is none of these.
    """
    if array.ndim == 2:
        array = array[None]
    if array.ndim >= 3 and array.shape[-3] not in _CHANNELS and array.shape[-1] in _CHANNELS:
        array = np.moveaxis(array, -1, -3)
    if array.ndim < 3 or array.shape[-3] not in _CHANNELS or array.size == 0:
        raise UsageError(
            f"An output of shape {list(array.shape)} is no image: one or three channels stand"
            " before height and width, or after them.",
            hint="Compare other outputs with another function, such as psnr.",
        )
    batch = array.reshape(-1, *array.shape[-3:])
    return np.repeat(batch, 3, axis=1) if batch.shape[1] == 1 else batch


def common_range(value: Array, reference: Array) -> tuple[float, float]:
    """Return the range that two arrays of images are in, so that both are scaled alike: the first
    of `RANGES` that holds both, else from their smallest to their largest element.

    Args:
        value: finite numbers; whole numbers of eight bits are between 0 and 255.
        reference: finite numbers.
    """
    if value.dtype == np.uint8 and reference.dtype == np.uint8:
        return RANGES[-1]
    low = min(float(value.min()), float(reference.min()))
    high = max(float(value.max()), float(reference.max()))
    for least, most in RANGES:
        if least <= low and high <= most:
            return least, most
    return low, high
