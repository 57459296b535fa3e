"""Error plots: differences over the size of the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy.adapters.plots.figures import file_name, new_figure, shortened
from polygraphy.domain.tensors.aliases import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_POINTS = 50_000
_LARGEST = 1e150


Limits = tuple[float, float]


def error_plots(
    name: str, value: Array, reference: Array, limits: Limits
) -> list[tuple[str, Figure]]:
    """Return one figure with its file name: the absolute and the relative difference of elements
    over the magnitude of the second run's, and the tolerance of each as a line.

    Of many elements an even sample is drawn, and always the largest differences.
    """
    points = _points(value.reshape(-1), reference.reshape(-1))
    return [(file_name("error_metrics", name, "png"), _figure(name, value.size, limits, *points))]


def known_error_plots(
    name: str, absolute: Array, relative: Array, reference: Array
) -> list[tuple[str, Figure]]:
    """Return what `error_plots` does, of differences that have been computed; of every element."""
    with np.errstate(all="ignore"):
        magnitude = np.abs(_wide(reference.reshape(-1)))
    points = [_drawable(each) for each in (magnitude, absolute.reshape(-1), relative.reshape(-1))]
    size = int(magnitude.size)
    return [(file_name("error_metrics", name, "png"), _figure(name, size, (0, 0), *points))]


def _figure(
    name: str, size: int, limits: Limits, magnitude: Array, absolute: Array, relative: Array
) -> Figure:
    figure = new_figure(10, 5)
    figure.set_layout_engine("constrained")
    axes = figure.subplots(1, 2)
    is_held = any(limits)
    whats = ("Absolute difference", "Relative difference")
    for axis, errors, what, limit in zip(axes, (absolute, relative), whats, limits):
        known = np.isfinite(errors) & np.isfinite(magnitude)
        within = known & ((absolute <= limits[0]) | (relative <= limits[1]))
        for chosen, color, label in (
            (within, "C0", "within tolerance"),
            (known & ~within, "#c0392b" if is_held else "C0", "outside"),
        ):
            if chosen.any():
                axis.scatter(
                    magnitude[chosen], errors[chosen], s=9, alpha=0.6, linewidths=0, color=color,
                    label=label if is_held else None,
                )  # fmt: skip
        if 1 / _LARGEST < limit < _LARGEST:
            axis.axhline(limit, color="0.35", linestyle="--", linewidth=1, label="tolerance")
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
    figure.suptitle(
        f"{shortened(name)}: {_finding(size, limits, absolute, relative)}", parse_math=False
    )
    legend: dict[str, Any] = {}
    for axis in axes:
        legend |= dict(zip(*reversed(axis.get_legend_handles_labels())))
    if legend:
        figure.legend(legend.values(), legend.keys(), loc="outside lower center", ncols=3)
    return figure


def _finding(size: int, limits: Limits, absolute: Array, relative: Array) -> str:
    """Return what the points show, in a sentence."""
    finite = absolute[np.isfinite(absolute)]
    largest = f"max abs {finite.max():.2g}" if finite.size else "nothing finite"
    drawn = f" ({absolute.size} drawn)" if absolute.size < size else ""
    if not any(limits):
        return f"{largest}; {size} elements{drawn}"
    outside = int(np.count_nonzero(~((absolute <= limits[0]) | (relative <= limits[1]))))
    return f"{outside or 'none'} of {size} elements{drawn} outside tolerance, {largest}"


def _points(value: Array, reference: Array) -> tuple[Array, Array, Array]:
    chosen = _sample(value, reference)
    a, b = (_wide(array[chosen]) for array in (value, reference))
    with np.errstate(all="ignore"):
        absolute = np.where(a == b, 0.0, np.abs(a - b))
        magnitude = np.abs(b)
        relative = np.where(absolute == 0, 0.0, absolute / magnitude)
        return _drawable(magnitude), _drawable(absolute), _drawable(relative)


def _drawable(numbers: Array) -> Array:
    """Bring numbers into the range of axes, whose ticks have to fit a float."""
    wide = numbers.astype(np.float64)
    clipped = np.where(np.abs(wide) < 1 / _LARGEST, 0.0, wide)
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
