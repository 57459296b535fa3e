"""Draws pictures with matplotlib; implements the port `Plots`."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy import mod
from polygraphy.adapters.os.paths import atomic_file
from polygraphy.domain.accuracy.output_rows import OutputRow, largest_jump
from polygraphy.domain.errors import FileError, MissingDependencyError
from polygraphy.domain.limits import Tolerance
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.naming import count_text, shorten_text
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


matplotlib = mod.lazy_import("matplotlib")

_UNSAFE = re.compile(r"[^\w.+-]+")
_LONGEST = 100
_WITHOUT_SCREEN = {"agg", "cairo", "pdf", "pgf", "ps", "svg", "template"}


def require_matplotlib() -> None:
    """Raise MissingDependencyError unless figures can be drawn."""
    if not matplotlib.is_installed():
        install = matplotlib.install_command()
        raise MissingDependencyError(
            f"Plots require matplotlib, which is not installed. Install it with: {install}",
            module="matplotlib",
            install=install,
        )


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure with a size in inches, without a window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def file_name(kind: str, name: str, extension: str) -> str:
    """Return a file name that is safe on every system and unique for a tensor name."""
    safe = _UNSAFE.sub("_", name)[:_LONGEST].strip(".")
    if safe != name:
        safe += f"-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return f"{kind}_{safe}.{extension}"


def save_and_show(figures: Sequence[tuple[str, Figure]], *, folder: str | None, show: bool) -> None:
    """Save figures under their file names, and show them.

    Raises:
        FileError: a figure cannot be saved.
    """
    for name, figure in figures:
        if folder is not None:
            save_figure(figure, Path(folder) / name)
    if show:
        _show_figures([figure for _, figure in figures])


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure to a file, completely or not at all; the file extension sets the format.

    Raises:
        FileError: it cannot be written, or the format is not known.
    """
    drawn = io.BytesIO()
    extension = check_format(figure, path)
    # Without a date and random identifiers, equal data give equal files.
    options: dict[str, Any] = {"metadata": {"Date": None}} if extension == "svg" else {"dpi": 150}
    with matplotlib.rc_context({"svg.hashsalt": "polygraphy"}):
        figure.savefig(drawn, format=extension, **options)
    with atomic_file(path) as stream:
        stream.write(drawn.getvalue())
    G_LOGGER.verbose(f"Saved {path}")


def check_format(figure: Figure, path: Path) -> str:
    """Return the format for the extension of a path; raise FileError if there is none."""
    extension = path.suffix.removeprefix(".").lower()
    if extension not in figure.canvas.get_supported_filetypes():
        raise FileError(
            f"Could not save to {path}: {extension!r} is not a supported image format.",
            path=path,
            hint="Use a .png or .svg file.",
        )
    return extension


def _show_figures(figures: Sequence[Figure]) -> None:
    """Show figures in windows; warn if there is no display."""
    from matplotlib import pyplot

    if str(matplotlib.get_backend()).lower() in _WITHOUT_SCREEN:
        G_LOGGER.warning("Plots cannot be shown without a display; save them to a folder instead.")
        return
    for figure in figures:
        manager: Any = pyplot.figure().canvas.manager
        figure.set_canvas(manager.canvas)
        manager.canvas.figure = figure
    pyplot.show()


_MOST_NAMES = 40
_LONGEST_LABEL = 32
_LEAST, _FARTHEST = 1e-150, 1e150
_KINDS = (
    ("absolute", "atol", "Largest absolute difference"),
    ("relative", "rtol", "Largest relative difference"),
)
_EXACT = ("int", "uint", "bool")


def depth_plot(lines: Mapping[str, Sequence[OutputRow]]) -> Figure:
    """Return a figure of the largest absolute and relative difference of each output, with limits.
    Failed outputs are marked, and non-finite differences are at the top.

    Integers and booleans are not plotted.
    """
    drawn = {
        name: [row for row in rows if not _has_exact_dtype(row)] for name, rows in lines.items()
    }
    names = list(dict.fromkeys(row.name for rows in drawn.values() for row in rows))
    figure = new_figure(11, 8)
    figure.set_layout_engine("constrained")
    axes = figure.subplots(2, 1, sharex=True)
    for axis, (kind, limit, title) in zip(axes, _KINDS):
        for index, (name, rows) in enumerate(drawn.items()):
            _draw_pair(axis, f"C{index}", name, names, rows, kind)
        _draw_limits(axis, names, drawn, limit)
        _scale_axis(axis)
        axis.set_ylabel(title)
        axis.grid(visible=True, alpha=0.3)
    _name_outputs(axes[1], names, drawn)
    left_out = sum(map(len, lines.values())) - sum(map(len, drawn.values()))
    text = "Outputs, in order of computation"
    skipped = f" ({count_text(left_out, 'integer output')} skipped)" if left_out else ""
    axes[1].set_xlabel(f"{text}{skipped}")
    findings = "\n".join(_finding(name, rows) for name, rows in drawn.items())
    figure.suptitle(findings, fontsize=11, parse_math=False)
    legend = dict(zip(*reversed(axes[0].get_legend_handles_labels())))
    legend |= dict(zip(*reversed(axes[1].get_legend_handles_labels())))
    if legend:
        figure.legend(
            legend.values(), legend.keys(), loc="outside lower center", ncols=2, fontsize=8
        )
    return figure


def _has_exact_dtype(row: OutputRow) -> bool:
    """Return whether an output has integers, booleans or strings."""
    dtypes = [tensor.dtype for tensor in row.tensors if tensor is not None]
    return bool(dtypes) and all(dtype.startswith(_EXACT) for dtype in dtypes)


def _finding(name: str, rows: Sequence[OutputRow]) -> str:
    """Return a sentence about the line of a pair of runs."""
    failed = [row for row in rows if not row.passed]
    output_rows = [row for row in rows if row.worst.excess is not None]
    if not failed:
        worst = max(output_rows, key=_largest_excess, default=None)
        most = (
            f", {_largest_excess(worst):.2g} of it in {shorten_text(worst.name)!r}" if worst else ""
        )
        return f"{name}: {len(rows)} outputs within tolerance{most}"
    jump = largest_jump(rows)
    row = failed[0] if jump is None else rows[jump]
    name_alone = "first is" if jump is None else "first jump at"
    text = "" if row.absolute is None else f" (max abs {row.absolute:.2g})"
    count = f"{len(failed)} of {len(rows)} outputs differ"
    return f"{name}: {count}, {name_alone} {shorten_text(row.name)!r}{text}"


def _largest_excess(row: OutputRow) -> float:
    """Return the largest excess of an output over its tolerance; 0 if unknown."""
    return row.worst.excess or 0.0


def _draw_pair(
    axis: Axes, color: str, name: str, names: list[str], rows: Sequence[OutputRow], kind: str
) -> None:
    """Draw the line of a pair of runs, with gaps at unknown and non-finite differences."""
    depth = _depths(names, rows)
    errors = [getattr(row, kind) for row in rows]
    values = np.array([np.nan if value is None else value for value in errors], np.float64)
    values = np.where(np.isfinite(values), np.clip(values, 0, _FARTHEST), np.nan)
    axis.plot(depth, values, marker=".", linewidth=1, color=color, label=name)
    above = axis.get_xaxis_transform()
    for position, value, row in zip(depth, values, rows):
        is_infinite = getattr(row, kind) is not None and not isfinite(getattr(row, kind))
        if row.passed and not is_infinite:
            continue
        where: dict[str, Any] = {} if np.isfinite(value) else {"transform": above}
        height = value if np.isfinite(value) else 1.0
        label = "NaN or infinite" if is_infinite else f"{name}: failed"
        marker = "^" if is_infinite else "x"
        axis.scatter(
            [position], [height], marker=marker, color="#c0392b", zorder=3, clip_on=False,
            label=label if np.isfinite(value) or is_infinite else None, **where,
        )  # fmt: skip


def _depths(names: list[str], rows: Sequence[OutputRow]) -> list[int]:
    """Return the position of each output in a list of names."""
    depths = {name: depth for depth, name in enumerate(names)}
    return [depths[row.name] for row in rows]


def _draw_limits(
    axis: Axes, names: list[str], drawn: Mapping[str, Sequence[OutputRow]], kind: str
) -> None:
    """Draw the nonzero limits of outputs."""
    limits = np.full(len(names), np.nan)
    for rows in drawn.values():
        for depth, row in zip(_depths(names, rows), rows):
            if isinstance(row.limit, Tolerance):
                limit = getattr(row.limit, kind)
                limits[depth] = limit if _LEAST < limit < _FARTHEST else np.nan
    if np.isfinite(limits).any():
        axis.step(
            range(len(names)), limits, where="mid", color="0.35", linestyle="--", linewidth=1,
            marker="_" if len(names) == 1 else None, label="tolerance",
        )  # fmt: skip


def _scale_axis(axis: Axes) -> None:
    """Make the axis logarithmic from the smallest number drawn; zero is at its bottom."""
    drawn = np.concatenate([np.asarray(line.get_ydata(), np.float64) for line in axis.get_lines()])
    positive = drawn[drawn > _LEAST]
    if positive.size:
        axis.set_yscale("symlog", linthresh=float(positive.min()))


def _name_outputs(axis: Axes, names: list[str], drawn: Mapping[str, Sequence[OutputRow]]) -> None:
    """Label outputs below the axis: all if there are few, else a selection, and those where errors
    jump.
    """
    chosen = set(np.linspace(0, len(names) - 1, min(len(names), _MOST_NAMES), dtype=int).tolist())
    for rows in drawn.values():
        jump = largest_jump(rows)
        if jump is not None:
            depth = names.index(rows[jump].name)
            near = max(len(names) // _MOST_NAMES, 1) if len(names) > _MOST_NAMES else 0
            chosen -= set(range(depth - near, depth + near + 1))
            chosen.add(depth)
    depths = sorted(chosen)
    axis.set_xticks(depths)
    axis.set_xticklabels(
        [shorten_text(names[depth], _LONGEST_LABEL) for depth in depths],
        rotation=90,
        fontsize=7,
        parse_math=False,
    )


_MOST_POINTS = 50_000
_LARGEST = 1e150


Limits = tuple[float, float]


def error_plots(
    name: str, value: Array, reference: Array, limits: Limits
) -> list[tuple[str, Figure]]:
    """Return the file name and figure of an error plot, in a list.

    It shows the absolute and the relative difference of elements over the magnitude of the second
    run's, and the tolerance of each as a line.

    If there are many elements, an evenly spaced sample and the largest differences are drawn.
    """
    points = _points(value.reshape(-1), reference.reshape(-1))
    return [
        (file_name("error_metrics", name, "png"), _error_figure(name, value.size, limits, *points))
    ]


def plots_of_errors(
    name: str, absolute: Array, relative: Array, reference: Array
) -> list[tuple[str, Figure]]:
    """Return file names and figures of `error_plots`, for differences computed before."""
    with np.errstate(all="ignore"):
        magnitude = np.abs(_as_float64(reference.reshape(-1)))
    points = [
        _clip_to_axes(array) for array in (magnitude, absolute.reshape(-1), relative.reshape(-1))
    ]
    size = int(magnitude.size)
    return [(file_name("error_metrics", name, "png"), _error_figure(name, size, (0, 0), *points))]


def _error_figure(
    name: str, size: int, limits: Limits, magnitude: Array, absolute: Array, relative: Array
) -> Figure:
    """Return a figure with the absolute and the relative difference over the magnitude."""
    figure = new_figure(10, 5)
    figure.set_layout_engine("constrained")
    axes = figure.subplots(1, 2)
    is_held = any(limits)
    whats = ("Absolute difference", "Relative difference")
    for axis, errors, text, limit in zip(axes, (absolute, relative), whats, limits):
        array = np.isfinite(errors) & np.isfinite(magnitude)
        within = array & ((absolute <= limits[0]) | (relative <= limits[1]))
        for chosen, color, label in (
            (within, "C0", "within tolerance"),
            (array & ~within, "#c0392b" if is_held else "C0", "outside"),
        ):
            if chosen.any():
                axis.scatter(
                    magnitude[chosen], errors[chosen], s=9, alpha=0.6, linewidths=0, color=color,
                    label=label if is_held else None,
                )  # fmt: skip
        if 1 / _LARGEST < limit < _LARGEST:
            axis.axhline(limit, color="0.35", linestyle="--", linewidth=1, label="tolerance")
        axis.set_xlabel("Magnitude in the second run")
        axis.set_ylabel(text)
        for scale, values in (
            (axis.set_xscale, magnitude[array]),
            (axis.set_yscale, errors[array]),
        ):
            if (values > 0).any():
                scale("log", nonpositive="clip")
        left_out = int(errors.size - np.count_nonzero(array))
        axis.set_title(f"{left_out} not finite" if left_out else "", fontsize=8)
    figure.suptitle(
        f"{shorten_text(name)}: {_finding_of_points(size, limits, absolute, relative)}",
        parse_math=False,
    )
    legend: dict[str, Any] = {}
    for axis in axes:
        legend |= dict(zip(*reversed(axis.get_legend_handles_labels())))
    if legend:
        figure.legend(legend.values(), legend.keys(), loc="outside lower center", ncols=3)
    return figure


def _finding_of_points(size: int, limits: Limits, absolute: Array, relative: Array) -> str:
    """Return a sentence about the points of the plot."""
    finite = absolute[np.isfinite(absolute)]
    largest = f"max abs {finite.max():.2g}" if finite.size else "no finite values"
    drawn = f" ({absolute.size} drawn)" if absolute.size < size else ""
    if not any(limits):
        return f"{largest}; {size} elements{drawn}"
    outside = int(np.count_nonzero(~((absolute <= limits[0]) | (relative <= limits[1]))))
    return f"{outside or 'none'} of {size} elements{drawn} outside tolerance, {largest}"


def _points(value: Array, reference: Array) -> tuple[Array, Array, Array]:
    """Return magnitudes, absolute and relative differences of a sample of the elements."""
    chosen = _sample_positions(value, reference)
    a, b = (_as_float64(array[chosen]) for array in (value, reference))
    with np.errstate(all="ignore"):
        absolute = np.where(a == b, 0.0, np.abs(a - b))
        magnitude = np.abs(b)
        relative = np.where(absolute == 0, 0.0, absolute / magnitude)
        return _clip_to_axes(magnitude), _clip_to_axes(absolute), _clip_to_axes(relative)


def _clip_to_axes(numbers: Array) -> Array:
    """Return numbers clipped to the range of axes, whose ticks must fit a float."""
    wide = numbers.astype(np.float64)
    clipped = np.where(np.abs(wide) < 1 / _LARGEST, 0.0, wide)
    return np.where(np.isfinite(clipped), np.clip(clipped, -_LARGEST, _LARGEST), clipped)


def _sample_positions(value: Array, reference: Array) -> Array:
    """Return the positions of the elements to draw."""
    if value.size <= _MOST_POINTS:
        return np.arange(value.size)
    step = -(-value.size // (_MOST_POINTS // 2))
    positions = [np.arange(0, value.size, step)]
    for start in range(0, value.size, 1 << 20):
        stop = start + (1 << 20)
        with np.errstate(all="ignore"):
            errors = np.abs(_as_float64(value[start:stop]) - _as_float64(reference[start:stop]))
        most = max(_MOST_POINTS // 2 * errors.size // value.size, 1)
        positions.append(start + np.argpartition(np.nan_to_num(errors), -most)[-most:])
    return np.unique(np.concatenate(positions))


def _as_float64(array: Array) -> Array:
    """Return an array in float64 or complex128."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


_COLUMNS, _ROWS = 14, 7
_MOST_FIGURES = 4
_MOST_PIXELS = 256


def heat_maps(name: str, value: Array, reference: Array) -> list[tuple[str, Figure]]:
    """Return file names and figures of both outputs and of their differences.

    The differences are absolute and relative.

    The last two dimensions are an image. Only the first few hundred images are drawn. A large image
    is reduced: a pixel shows the largest of its values, so that no outlier is lost.
    """
    pair = _images(value), _images(reference)
    count = len(pair[0])
    figures = []
    for start, stop in _pages(name, count):
        for text, images in _map_groups(pair[0][start:stop], pair[1][start:stop]):
            label = f"{text}, images {start} to {stop - 1}" if count > 1 else text
            where = f"{name}_{text.replace(' ', '_')}"
            where += f"_{start}-{stop - 1}" if count > 1 else ""
            norm, scale = _color_scale(images, is_error=text.endswith("difference"))
            figure = _figure_of_maps(f"{name}: {label}{scale}", images, norm)
            figures.append((file_name("heat_map", where, "svg"), figure))
    return figures


def array_heat_maps(
    name: str, array: Array, low: float, high: float, *, logarithmic: bool = False
) -> list[tuple[str, Figure]]:
    """Return heat maps of one array with their file names; colors go from `low` to `high`."""
    from matplotlib.colors import LogNorm, Normalize

    norm: Normalize = Normalize(low, high if high > low else low + 1)
    scale = ""
    if logarithmic and low > 0:
        norm, scale = LogNorm(low, high, clip=True), " (logarithmic)"
    images = _images(array)
    figures = []
    for start, stop in _pages(name, len(images)):
        drawn = [_shrink_image(_real_image(image)) for image in images[start:stop]]
        where = f"{name}_{start}-{stop - 1}" if len(images) > 1 else name
        figure = _figure_of_maps(f"{where}{scale}", drawn, norm)
        figures.append((file_name("heat_map", where, "svg"), figure))
    return figures


def _pages(name: str, count: int) -> Iterator[tuple[int, int]]:
    """Yield, for each figure, the index of its first image and the index after its last."""
    drawn = min(count, _COLUMNS * _ROWS * _MOST_FIGURES)
    if drawn < count:
        G_LOGGER.warning(f"Heat maps show the first {drawn} of {count} images of {name!r}.")
    for start in range(0, drawn, _COLUMNS * _ROWS):
        yield start, min(start + _COLUMNS * _ROWS, drawn)


def _images(array: Array) -> Array:
    """Return an array as images, shape ``(images, height, width)``; empty for an empty array."""
    if array.size == 0:
        return array.reshape(0, 1, 1)
    if array.ndim < 2:
        return array.reshape(1, 1, -1)
    return array.reshape(-1, *array.shape[-2:])


def _map_groups(value: Array, reference: Array) -> Iterator[tuple[str, list[Array]]]:
    """Yield titles with images: both runs, and their absolute and relative differences."""
    values, references = ([_real_image(image) for image in images] for images in (value, reference))
    yield "first run", [_shrink_image(image) for image in values]
    yield "second run", [_shrink_image(image) for image in references]
    with np.errstate(all="ignore"):
        errors = [np.abs(a - b) for a, b in zip(values, references)]
        yield "absolute difference", [_shrink_image(error) for error in errors]
        yield (
            "relative difference",
            [
                _shrink_image(np.where(error == 0, 0.0, error / np.abs(b)))
                for error, b in zip(errors, references)
            ],
        )


def _real_image(image: Array) -> Array:
    """Return an image as float64, with magnitudes of complex numbers and bounded values."""
    wide = (np.abs(image) if image.dtype.kind == "c" else image).astype(np.float64)
    return np.where(np.isfinite(wide), np.clip(wide, -_LARGEST, _LARGEST), wide)


def _shrink_image(image: Array) -> Array:
    """Return an image with a limited number of pixels per side.
    The result is NaN and infinity take precedence."""
    for axis in (0, 1):
        step = math.ceil(image.shape[axis] / _MOST_PIXELS)
        if step > 1:
            starts = np.arange(0, image.shape[axis], step)
            image = np.maximum.reduceat(image, starts, axis=axis)
    return image


def _figure_of_maps(title: str, images: list[Array], norm: Any) -> Figure:
    """Return a figure with a row of heat maps and one color bar."""
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
    figure.suptitle(f"{title}\nnon-finite values are red", parse_math=False, fontsize=9)
    figure.colorbar(mappable, ax=axes)
    return figure


def _color_scale(images: list[Array], *, is_error: bool) -> tuple[Any, str]:
    """Return the mapping of values to colors with its label.
    Differences over several orders of magnitude use a logarithmic scale."""
    from matplotlib.colors import LogNorm, Normalize

    finite = np.concatenate([image[np.isfinite(image)] for image in images] or [np.zeros(0)])
    if not finite.size:
        return Normalize(0, 1), ""
    low, high = float(finite.min()), float(finite.max())
    positive = finite[finite > 0]
    if is_error and positive.size and high > 100 * float(positive.min()):
        return LogNorm(float(positive.min()), high, clip=True), " (logarithmic)"
    return Normalize(low, high if high > low else low + 1), ""


class MatplotlibPlots:
    """Draws heat maps as SVG files, error plots as PNG files, and plots of depth as either."""

    def prepare(self, path: str | None = None) -> None:
        """Import Matplotlib; raise an error if it is missing or cannot write files like `path`.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
            FileError: Matplotlib cannot write the format.
        """
        require_matplotlib()
        if path is not None:
            check_format(new_figure(1, 1), Path(path))

    def heat_maps(
        self, name: str, value: Array, reference: Array, *, folder: str | None, show: bool
    ) -> None:
        """Draw both outputs, and their differences, as images."""
        save_and_show(heat_maps(name, value, reference), folder=folder, show=show)

    def error_plots(
        self,
        name: str,
        value: Array,
        reference: Array,
        limits: tuple[float, float],
        *,
        folder: str | None,
        show: bool,
    ) -> None:
        """Draw the differences over the reference; raise FileError if a plot cannot be saved."""
        save_and_show(error_plots(name, value, reference, limits), folder=folder, show=show)

    def error_by_depth(self, lines: Mapping[str, Sequence[OutputRow]], path: str) -> None:
        """Draw the largest differences of outputs in the order of computation."""
        save_figure(depth_plot(lines), Path(path))
