"""Usual ways to scale images before a model, by which the data of two programs often differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from polygraphy.domain.tensors.precision import is_float

_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet, for channels from 0 to 1."""
_FEWEST_AXES = 3
_PIXELS = 2.5
"""Data with a larger magnitude can be pixels from 0 to 255, smaller data pixels that are scaled
already. Chosen, not measured."""


def usual_scalings(feed: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a formula for an image input, and the data with this input scaled so."""
    for name, array in feed.items():
        images = np.asarray(array)
        if not is_float(images) or images.ndim < _FEWEST_AXES or not images.size:
            continue
        for formula, scaled in _scaled_images(images.astype(np.float64)):
            yield formula.format(name), {**feed, name: scaled.astype(images.dtype)}


def _scaled_images(images: Any) -> Iterator[tuple[str, Any]]:
    """Yield formulas and what they make of images."""
    axis = next((axis for axis in (-3, -1) if images.shape[axis] == len(_MEAN)), None)
    if float(np.max(np.abs(images))) > _PIXELS:
        yield "{} / 255", images / 255
        yield "({} - 127.5) / 127.5", (images - 127.5) / 127.5
        yield "({} - 127.5) / 128", (images - 127.5) / 128
        if axis is not None:
            mean, deviation = (_along(values, axis) for values in (_MEAN, _DEVIATION))
            yield "({} / 255 - mean) / std of ImageNet", (images / 255 - mean) / deviation
    else:
        yield "{} * 255", images * 255
        yield "{} * 127.5 + 127.5", images * 127.5 + 127.5
        yield "{} * 2 - 1", images * 2 - 1
    if axis is not None:
        yield "{}, with its channels reversed (RGB or BGR)", np.flip(images, axis)


def _along(values: tuple[float, ...], axis: int) -> Any:
    """Return values in an array that broadcasts along an axis."""
    return np.reshape(values, [-1] + [1] * (-axis - 1))
