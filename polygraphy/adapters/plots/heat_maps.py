"""Heat maps: two outputs and their difference, image by image."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy.adapters.plots.figures import file_name, new_figure
from polygraphy.domain.tensors.aliases import Array
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS, _ROWS = 14, 7
_MOST_FIGURES = 4
_MOST_PIXELS = 256
_LARGEST = 1e150
"""Larger numbers are drawn as this one: the distance between two colours has to fit a float."""


def heat_maps(name: str, value: Array, reference: Array) -> list[tuple[str, Figure]]:
    """Return figures with their file names: of both outputs, of the absolute and of the relative
    difference.

    The last two dimensions are an image. Only the first few hundred images are drawn. A large image
    is made smaller: a pixel shows the largest value of those it stands for, so that no outlier is
    lost.
    """
    pair = _images(value), _images(reference)
    count = len(pair[0])
    figures = []
    for start, stop in _pages(name, count):
        for what, images in _kinds(pair[0][start:stop], pair[1][start:stop]):
            label = f"{what}, images {start} to {stop - 1}" if count > 1 else what
            where = f"{name}_{what.replace(' ', '_')}"
            where += f"_{start}-{stop - 1}" if count > 1 else ""
            norm, scale = _norm(images, is_error=what.endswith("difference"))
            figure = _figure(f"{name}: {label}{scale}", images, norm)
            figures.append((file_name("heat_map", where, "svg"), figure))
    return figures


def array_heat_maps(
    name: str, array: Array, low: float, high: float, *, logarithmic: bool = False
) -> list[tuple[str, Figure]]:
    """Return figures with their file names: of one array, whose colours go from `low` to `high`;
    see `heat_maps`.
    """
    from matplotlib.colors import LogNorm, Normalize

    norm: Normalize = Normalize(low, high if high > low else low + 1)
    scale = ""
    if logarithmic and low > 0:
        norm, scale = LogNorm(low, high, clip=True), " (logarithmic)"
    images = _images(array)
    figures = []
    for start, stop in _pages(name, len(images)):
        drawn = [_smaller(_real(image)) for image in images[start:stop]]
        where = f"{name}_{start}-{stop - 1}" if len(images) > 1 else name
        figure = _figure(f"{where}{scale}", drawn, norm)
        figures.append((file_name("heat_map", where, "svg"), figure))
    return figures


def _pages(name: str, count: int) -> Iterator[tuple[int, int]]:
    """Yield which images are in each figure: from one up to another."""
    drawn = min(count, _COLUMNS * _ROWS * _MOST_FIGURES)
    if drawn < count:
        G_LOGGER.warning(f"Heat maps show the first {drawn} of the {count} images of {name!r}.")
    for start in range(0, drawn, _COLUMNS * _ROWS):
        yield start, min(start + _COLUMNS * _ROWS, drawn)


def _images(array: Array) -> Array:
    """Return an array as images, shape ``(images, height, width)``; none of an empty one."""
    if array.size == 0:
        return array.reshape(0, 1, 1)
    if array.ndim < 2:
        return array.reshape(1, 1, -1)
    return array.reshape(-1, *array.shape[-2:])


def _kinds(value: Array, reference: Array) -> Iterator[tuple[str, list[Array]]]:
    values, references = ([_real(image) for image in images] for images in (value, reference))
    yield "first run", [_smaller(image) for image in values]
    yield "second run", [_smaller(image) for image in references]
    with np.errstate(all="ignore"):
        errors = [np.abs(a - b) for a, b in zip(values, references)]
        yield "absolute difference", [_smaller(error) for error in errors]
        yield (
            "relative difference",
            [
                _smaller(np.where(error == 0, 0.0, error / np.abs(b)))
                for error, b in zip(errors, references)
            ],
        )


def _real(image: Array) -> Array:
    wide = (np.abs(image) if image.dtype.kind == "c" else image).astype(np.float64)
    return np.where(np.isfinite(wide), np.clip(wide, -_LARGEST, _LARGEST), wide)


def _smaller(image: Array) -> Array:
    """Return an image of at most so many pixels per side; NaN and infinity win over numbers."""
    for axis in (0, 1):
        step = math.ceil(image.shape[axis] / _MOST_PIXELS)
        if step > 1:
            starts = np.arange(0, image.shape[axis], step)
            image = np.maximum.reduceat(image, starts, axis=axis)
    return image


def _figure(title: str, images: list[Array], norm: Any) -> Figure:
    from matplotlib import colormaps

    columns = min(len(images), _COLUMNS)
    rows = math.ceil(len(images) / columns)
    figure = new_figure(max(columns * 1.6, 5), max(rows * 1.6, 4))
    axes = figure.subplots(rows, columns, squeeze=False)
    colors = colormaps["viridis"].with_extremes(bad="red")
    mappable: Any = None
    for index, axis in enumerate(axes.ravel()):
        axis.set_axis_off()
        if index < len(images):
            masked = np.ma.masked_invalid(images[index])
            mappable = axis.imshow(masked, norm=norm, cmap=colors, interpolation="nearest")
    figure.suptitle(f"{title}\nwhat is not finite is red", parse_math=False, fontsize=9)
    figure.colorbar(mappable, ax=axes)
    return figure


def _norm(images: list[Array], *, is_error: bool) -> tuple[Any, str]:
    """Return how values become colours, and what to say of it: differences are shown by their
    logarithm where there are several orders of magnitude.
    """
    from matplotlib.colors import LogNorm, Normalize

    finite = np.concatenate([image[np.isfinite(image)] for image in images] or [np.zeros(0)])
    if not finite.size:
        return Normalize(0, 1), ""
    low, high = float(finite.min()), float(finite.max())
    positive = finite[finite > 0]
    if is_error and positive.size and high > 100 * float(positive.min()):
        return LogNorm(float(positive.min()), high, clip=True), " (logarithmic)"
    return Normalize(low, high if high > low else low + 1), ""
