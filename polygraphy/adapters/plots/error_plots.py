"""Error plots: differences over the size of the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy.adapters.plots.figures import file_name, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Array = np.ndarray[Any, Any]

_MOST_POINTS = 50_000
_LARGEST = 1e150


def error_plots(name: str, value: Array, reference: Array) -> list[tuple[str, Figure]]:
    """Return one figure with its file name: the absolute and the relative difference of elements
    over the magnitude of the second run's.

    Of many elements an even sample is drawn, and always the largest differences.
    """
    points = _points(value.reshape(-1), reference.reshape(-1))
    title = f"{name}: {points[0].size} of {value.size} elements"
    return [(file_name("error_metrics", name, "png"), _figure(title, *points))]


def known_error_plots(
    name: str, absolute: Array, relative: Array, reference: Array
) -> list[tuple[str, Figure]]:
    """Return what `error_plots` does, of differences that have been computed; of every element."""
    with np.errstate(all="ignore"):
        magnitude = np.abs(_wide(reference.reshape(-1)))
    points = [_drawable(each) for each in (magnitude, absolute.reshape(-1), relative.reshape(-1))]
    return [(file_name("error_metrics", name, "png"), _figure(name, *points))]


def _figure(title: str, magnitude: Array, absolute: Array, relative: Array) -> Figure:
    figure = new_figure(10, 4.5)
    for axis, errors, what in zip(
        figure.subplots(1, 2), (absolute, relative), ("Absolute difference", "Relative difference")
    ):
        known = np.isfinite(errors) & np.isfinite(magnitude)
        axis.scatter(magnitude[known], errors[known], s=4, alpha=0.4, linewidths=0)
        axis.set_xlabel("Magnitude in the second run")
        axis.set_ylabel(what)
        for scale, values in (
            (axis.set_xscale, magnitude[known]),
            (axis.set_yscale, errors[known]),
        ):
            if (values > 0).any():
                scale("log", nonpositive="clip")
        left_out = int(errors.size - np.count_nonzero(known))
        axis.set_title(f"{left_out} not finite" if left_out else "", fontsize=8)
    figure.suptitle(title, parse_math=False)
    return figure


def _points(value: Array, reference: Array) -> tuple[Array, Array, Array]:
    chosen = _sample(value, reference)
    a, b = (_wide(array[chosen]) for array in (value, reference))
    with np.errstate(all="ignore"):
        absolute = np.abs(a - b)
        magnitude = np.abs(b)
        relative = np.where(absolute == 0, 0.0, absolute / magnitude)
        return _drawable(magnitude), _drawable(absolute), _drawable(relative)


def _drawable(numbers: Array) -> Array:
    """Bring numbers into the range of axes, whose ticks have to fit a float."""
    clipped = np.where(np.abs(numbers) < 1 / _LARGEST, 0.0, numbers)
    return np.where(np.isfinite(clipped), np.clip(clipped, -_LARGEST, _LARGEST), clipped)


def _sample(value: Array, reference: Array) -> Array:
    """Return the positions of the elements that are drawn."""
    if value.size <= _MOST_POINTS:
        return np.arange(value.size)
    step = -(-value.size // (_MOST_POINTS // 2))
    positions = [np.arange(0, value.size, step)]
    for start in range(0, value.size, 1 << 20):
        stop = start + (1 << 20)
        with np.errstate(all="ignore"):
            errors = np.abs(_wide(value[start:stop]) - _wide(reference[start:stop]))
        most = max(_MOST_POINTS // 2 * errors.size // value.size, 1)
        positions.append(start + np.argpartition(np.nan_to_num(errors), -most)[-most:])
    return np.unique(np.concatenate(positions))


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
