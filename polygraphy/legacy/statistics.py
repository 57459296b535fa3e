"""Statistics of outputs, as numbers, as text and as images.

Arrays may be from NumPy, PyTorch or a device. The statistics of an array without elements are 0,
its means NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy.legacy import arrays as array
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.domain.results.results import IterationResult

__all__ = [
    "build_heatmaps",
    "cast_up",
    "compute_argmax",
    "compute_argmin",
    "compute_average_magnitude",
    "compute_max",
    "compute_mean",
    "compute_median",
    "compute_min",
    "compute_quantile",
    "compute_std",
    "compute_variance",
    "log_compared_output_stats",
    "log_output_stats",
    "scatter_plot_error_magnitude",
    "str_histogram",
    "str_output_stats",
]


def compute_max(buffer: Any) -> Any:
    """Return the largest element; NaN if one is NaN."""
    return array.max(buffer) if array.size(buffer) else 0


def compute_min(buffer: Any) -> Any:
    """Return the smallest element; NaN if one is NaN."""
    return array.min(buffer) if array.size(buffer) else 0


def compute_mean(buffer: Any) -> float:
    """Return the mean, in float64."""
    return array.mean(buffer) if array.size(buffer) else float("nan")


def compute_median(buffer: Any) -> float:
    """Return the median, in float64."""
    return array.median(buffer) if array.size(buffer) else 0.0


def compute_std(buffer: Any) -> float:
    """Return the standard deviation of the population, in float64."""
    return array.std(buffer) if array.size(buffer) else 0.0


def compute_variance(buffer: Any) -> float:
    """Return the variance of the population, in float64."""
    return array.var(buffer) if array.size(buffer) else 0.0


def compute_argmax(buffer: Any) -> Any:
    """Return the index of the largest element as a tuple; that of the first NaN if there is one."""
    return _index(buffer, array.argmax)


def compute_argmin(buffer: Any) -> Any:
    """Return the index of the smallest element as a tuple;
    that of the first NaN if there is one."""
    return _index(buffer, array.argmin)


def _index(buffer: Any, position: Callable[[Any], int]) -> Any:
    """Return the index of the element at the position that a function returns.
    The result is 0 for an array without elements.
    """
    if not array.size(buffer):
        return 0
    return tuple(
        int(signedinteger)
        for signedinteger in np.unravel_index(position(buffer), array.shape(buffer))
    )


def compute_average_magnitude(buffer: Any) -> float:
    """Return the mean of the absolute values, in float64."""
    return compute_mean(np.abs(array.to_numpy(cast_up(buffer))))


def compute_quantile(buffer: Any, q: float | Sequence[float]) -> Any:
    """Return one quantile, or an array of them, in float64; `q` is from 0 to 1."""
    if not array.size(buffer):
        return float("inf") if np.ndim(q) == 0 else np.full(np.shape(q), np.inf)
    quantile = array.quantile(buffer, q)
    return quantile if np.ndim(q) == 0 else np.asarray(quantile)


def cast_up(buffer: Any) -> Any:
    """Return the elements of a narrow type in a 32-bit type; other elements unchanged."""
    from polygraphy.domain.tensors.datatype import DataType

    dtype = array.dtype(buffer)
    if dtype.is_floating and dtype.itemsize < 4:
        return array.cast(buffer, DataType.FLOAT32)
    if dtype.is_integral and dtype.itemsize < 4:
        return array.cast(buffer, DataType.INT32)
    return buffer


def str_output_stats(output: Any, runner_name: str | None = None) -> str:
    """Return the statistics of an output as a line of text that ends with a line feed.

    Args:
        output: the array.
        runner_name: the name of the runner, at the start of the text (default: empty).
    """
    from polygraphy.adapters.console.numbers import percentiles, statistics
    from polygraphy.domain.arithmetic import summarize

    values = array.to_numpy(output)
    summary = summarize(values)
    facts = [statistics(summary)] + ([percentiles(summary)] if values.dtype.kind != "b" else [])
    return f"{f'{runner_name} | Stats: ' if runner_name else ''}{', '.join(facts)}\n"


def str_histogram(output: Any, hist_range: tuple[float, float] | None = None) -> str:
    """Return the histogram of an output as text; empty if it has bools or no elements.

    Args:
        output: the array.
        hist_range: the outer edges (default: the smallest and the largest element).
    """
    from polygraphy.adapters.console.numbers import histogram_bars
    from polygraphy.domain.arithmetic import histogram

    values = array.to_numpy(output)
    if values.dtype.kind == "b" or not values.size:
        return ""
    return histogram_bars(histogram(values, range=hist_range)) + "\n"


def log_output_stats(
    output: Any,
    info_hist: bool = False,
    runner_name: str | None = None,
    hist_range: tuple[float, float] | None = None,
) -> None:
    """Log the statistics of an output; its values and their histogram with severity VERBOSE.

    Args:
        output: the array.
        info_hist: whether values and histogram are logged with severity INFO.
        runner_name: the name of its runner.
        hist_range: the outer edges of the histogram.
    """
    severity = G_LOGGER.INFO if info_hist else G_LOGGER.VERBOSE
    G_LOGGER.info(lambda: str_output_stats(output, runner_name).rstrip())
    with G_LOGGER.indent():
        G_LOGGER.log(lambda: f"---- Values ----\n{array.to_numpy(output)}", severity)
        G_LOGGER.log(lambda: str_histogram(output, hist_range), severity)


def log_compared_output_stats(
    iter_result0: IterationResult,
    iter_result1: IterationResult,
    match_dicts: dict[str, Any],
    runner0_name: str,
    runner1_name: str,
) -> None:
    """Log the statistics of compared outputs of two runners.

    Args:
        iter_result0: the outputs of the first runner.
        iter_result1: the outputs of the second runner.
        match_dicts: results of a comparison function, by output.
        runner0_name: the name of the first runner.
        runner1_name: the name of the second runner.
    """
    for name, answer in match_dicts.items():
        G_LOGGER.info(f"Output: {name!r} | {'PASSED' if answer else 'FAILED'}")
        with G_LOGGER.indent():
            for results, runner in ((iter_result0, runner0_name), (iter_result1, runner1_name)):
                if name in results:
                    log_output_stats(results[name], not answer, runner)


def build_heatmaps(
    arr: Any,
    min_val: float,
    max_val: float,
    prefix: str,
    save_dir: str | None = None,
    show: bool | None = None,
    use_lognorm: bool | None = None,
) -> None:
    """Draw an array as images, one for each index of all dimensions but the last two.

    Args:
        arr: the array.
        min_val: the number of the first color.
        max_val: the number of the last color.
        prefix: the start of the file names.
        save_dir: the folder in which they are saved (default: not saved).
        show: whether they are shown (default: False).
        use_lognorm: whether colors are logarithmic, if `min_val` is positive (default: False).

    Raises:
        MissingDependencyError: matplotlib is not installed.
        FileError: an image cannot be saved.
    """
    from polygraphy.adapters.plots import (
        array_heat_maps,
        require_matplotlib,
        save_and_show,
    )

    require_matplotlib()
    values = array.to_numpy(arr)
    figures = array_heat_maps(prefix, values, min_val, max_val, logarithmic=bool(use_lognorm))
    save_and_show(figures, folder=save_dir, show=bool(show))


def scatter_plot_error_magnitude(  # noqa: PLR0917
    absdiff: Any,
    reldiff: Any,
    reference_output: Any,
    min_reldiff: float,
    max_reldiff: float,
    runner0_name: str,
    runner1_name: str,
    out0_name: str,
    out1_name: str,
    save_dir: str | None = None,
    show: bool | None = None,
) -> None:
    """Draw differences against the magnitude of the reference.

    Args:
        absdiff: the absolute difference of each element.
        reldiff: the relative difference of each element.
        reference_output: the second output.
        min_reldiff: not used, because the axes follow the differences.
        max_reldiff: not used.
        runner0_name: the name of the runner of the first output.
        runner1_name: the name of the runner of the second output.
        out0_name: name of the first output.
        out1_name: name of the second output.
        save_dir: the folder in which the plot is saved (default: not saved).
        show: whether it is shown (default: False).

    Raises:
        MissingDependencyError: matplotlib is not installed.
        FileError: the plot cannot be saved.
    """
    from polygraphy.adapters.plots import (
        plots_of_errors,
        require_matplotlib,
        save_and_show,
    )

    require_matplotlib()
    name = f"{runner0_name} {out0_name} vs. {runner1_name} {out1_name}"
    arrays = [array.to_numpy(value) for value in (absdiff, reldiff, reference_output)]
    save_and_show(plots_of_errors(name, *arrays), folder=save_dir, show=bool(show))
