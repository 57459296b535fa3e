"""Comparison of two arrays by `simple`.

Whether a difference is no larger than what an output's inputs brought along.

In a run over layers, inputs of a layer differ between two runs by what earlier layers rounded, and
a badly conditioned layer - a difference of close numbers, a normalization of a row that hardly
varies - makes more of it. So one implementation computes the layer from the inputs of each run.
What is left of the difference then is what the two backends did in this layer alone, and that is
held to what rounding explains of one layer: a layer that computes something else still fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
from attrs import Factory, define, evolve

from polygraphy.binding import resolve
from polygraphy.domain.arithmetic.passes.blocks import Kind, kind_of
from polygraphy.domain.catalog.precisions import COARSE
from polygraphy.domain.compare.pairwise import Side
from polygraphy.domain.compare.result import (
    Arrays,
    CompareResult,
    Explain,
    OutputCompareResult,
    UncomparedResult,
)
from polygraphy.domain.limits import Tolerance
from polygraphy.domain.part_limits import are_near
from polygraphy.domain.ports import Plots
from polygraphy.domain.results.results import RecomputedTensors
from polygraphy.domain.rounding import (
    GROWTH,
    Rounding,
    coarsest_between,
    deviation,
    flip_limit,
    rounding_between,
    rounding_between_runs,
)
from polygraphy.domain.row_order import order_like_reference
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.facts import (
    Facts,
    compute_dtype,
    compute_precision,
    is_bounded,
    is_ordered,
    layout_between,
)
from polygraphy.domain.tensors.precision import Precision, is_exact


@define
class Pictures:
    """Draws the requested plots, one output after another.

    Attributes:
        heat_maps: folder for heat maps; None for none.
        show_heat_maps: whether heat maps are shown.
        error_plots: folder for error plots; None for none.
        show_error_plots: whether error plots are shown.
    """

    heat_maps: str | None = None
    show_heat_maps: bool = False
    error_plots: str | None = None
    show_error_plots: bool = False
    _drawn: Counter[str] = Factory(Counter)

    def __attrs_post_init__(self) -> None:
        """Raise MissingDependencyError if plots are requested but cannot be drawn."""
        if self.are_wanted:
            resolve(Plots).prepare()

    @property
    def are_wanted(self) -> bool:
        """Return whether any plot is requested."""
        heat_maps = self.heat_maps is not None or self.show_heat_maps
        return heat_maps or self.error_plots is not None or self.show_error_plots

    def draw(self, name: str, value: Array, reference: Array, limits: tuple[float, float]) -> None:
        """Save a plot of two outputs of equal shape with their tolerances.
        Later iterations are numbered; strings and empty outputs are skipped.
        """
        if not self.are_wanted or not value.size:
            return
        if Kind.OTHER in (kind_of(value.dtype), kind_of(reference.dtype)):
            return
        title = name if not self._drawn[name] else f"{name}_{self._drawn[name]}"
        self._drawn[name] += 1
        if self.heat_maps is not None or self.show_heat_maps:
            resolve(Plots).heat_maps(
                title, value, reference, folder=self.heat_maps, show=self.show_heat_maps
            )
        if self.error_plots is not None or self.show_error_plots:
            resolve(Plots).error_plots(
                title,
                value,
                reference,
                limits,
                folder=self.error_plots,
                show=self.show_error_plots,
            )


def add_inherited_differences(
    sides: tuple[Side, Side], rounding: Rounding, precision: Precision | None, largest: float | None
) -> Rounding | None:
    """Return the rounding limit with propagated input differences added, or None.
    The result is None if both together do not explain the difference.

    Args:
        sides: an output and its reference.
        rounding: the rounding limit.
        precision: of the computation; None of exact values.
        largest: the largest absolute difference.
    """
    first, second = (side.lineage for side in sides)
    names = {side.name for side in sides}
    if first is None or second is None or len(names) > 1:
        return None
    if first.recompute != second.recompute or largest is None or not np.isfinite(largest):
        return None
    arrays = [side.array for side in sides]
    exact = all(is_exact(array.dtype.name) for array in arrays)
    epsilon = 0.0 if exact or precision is None else precision.epsilon
    tensors = [first.tensors, second.tensors]
    recomputed = first.recompute(names.pop(), tensors, epsilon)
    if recomputed is None or any(
        value.shape != array.shape for value, array in zip(recomputed.values, arrays)
    ):
        return None
    if exact:
        is_own = not all(
            np.array_equal(value, array) for value, array in zip(recomputed.values, arrays)
        )
    else:
        is_own = precision is None or not _explains(recomputed, arrays, rounding)
    if is_own:
        return None
    return Rounding(
        rounding.dtype,
        rounding.rtol,
        max(rounding.atol, float(f"{largest * 1.005:.3g}")),
        f"{rounding.origin}, plus the differences of its inputs",
    )


def _explains(recomputed: RecomputedTensors, arrays: list[Array], rounding: Rounding) -> bool:
    """Return whether rounding explains the error that backends add to that of their inputs."""
    wide = [np.asarray(array, np.float64) for array in arrays]
    again = [np.asarray(value, np.float64) for value in recomputed.values]
    with np.errstate(all="ignore"):
        for array, value in zip(wide, again):
            finite = np.isfinite(array)
            if not np.array_equal(finite, np.isfinite(value)):
                return False
            if not np.array_equal(array[~finite], value[~finite], equal_nan=True):
                return False
        added = np.abs((wide[0] - again[0]) - (wide[1] - again[1]))
        allowed = np.maximum(
            rounding.atol + GROWTH * recomputed.spread, rounding.rtol * np.abs(wide[1])
        )
        return bool(np.all((added <= allowed) | ~np.isfinite(wide[0]) | ~np.isfinite(wide[1])))


class Settings(Protocol):
    """The settings of a comparison function; see `SimpleCompareFunc`."""

    pictures: Pictures
    infinities_compare_equal: bool
    notes_infinities: bool

    @property
    def threads(self) -> int:
        """Return the maximum number of threads for one large output."""

    def shared_limits(self) -> tuple[Tolerance, float] | None:
        """Return the tolerance and the quantile of all outputs; None if outputs differ in them."""

    def is_auto(self, name: str) -> bool:
        """Return whether a tolerance of an output is ``"auto"``."""

    def tolerance_for(self, name: str, rounding: Rounding | None = None) -> Tolerance:
        """Return the tolerance of an output."""

    def quantile_for(self, name: str) -> float:
        """Return the quantile to check for an output, from 0 to 1."""


def compare_arrays(settings: Settings, value: Side, reference: Side, setting: str) -> CompareResult:
    """Return the comparison of two arrays of equal shape; metrics are computed on first access.

    Args:
        settings: the tolerances.
        value: the output.
        reference: the array that it is compared with.
        setting: the name that settings are looked up by.
    """
    arrays = value.array, reference.array
    known_rows = (value.facts, value.name), (reference.facts, reference.name)
    explain = partial(_rounding_between, known_rows, settings.threads)
    shared = settings.shared_limits()
    if shared is not None and not settings.pictures.are_wanted:
        tensors = value.tensor, reference.tensor
        result = OutputCompareResult.of(
            tensors,
            arrays,
            *shared,
            explain,
            infinities_equal=settings.infinities_compare_equal,
            threads=settings.threads,
        )
        if settings.notes_infinities:
            result.notes_infinities = True
        return result
    is_auto = settings.is_auto(setting)
    rounding = explain(arrays) if is_auto else None
    if settings.pictures.are_wanted:
        limits = settings.tolerance_for(setting, rounding)
        settings.pictures.draw(value.name, *arrays, (limits.atol, limits.rtol))
    if rounding is None and is_auto:
        return UncomparedResult(
            f"The rounding limit of {value.tensor} is unknown: set its tolerance."
        )

    def judge_with(
        rounding: Rounding | None, explain: Explain = explain, arrays: Arrays = arrays
    ) -> OutputCompareResult:
        """Return the comparison of arrays, judged with a rounding limit."""
        result = OutputCompareResult.of(
            (value.tensor, reference.tensor),
            arrays,
            settings.tolerance_for(setting, rounding),
            settings.quantile_for(setting),
            explain,
            infinities_equal=settings.infinities_compare_equal or is_auto,
            threads=settings.threads,
        )
        if settings.notes_infinities or (is_auto and not settings.infinities_compare_equal):
            result.notes_infinities = True
        return result

    result = judge_with(rounding)
    if rounding is None or (result and not rounding.parts):
        return result
    if result:
        result = judge_worst_part(result, rounding, judge_with)
        if result:
            return result
    sides = value, reference
    precision = coarsest_between(arrays, (value.compute_dtype, reference.compute_dtype))
    if value.lineage is not None:
        inherited = add_inherited_differences(sides, rounding, precision, result.max_absdiff)
        return result if inherited is None else judge_with(inherited)
    explained = _with_accumulated_rounding(sides, rounding)
    if explained != rounding or rounding.parts:
        result = judge_with(explained, lambda _: explained)
        if explained.parts:
            result = judge_worst_part(result, explained, judge_with)
    return result or _judge_reordered(sides, explained, precision, judge_with) or result


def judge_worst_part(
    result: OutputCompareResult,
    rounding: Rounding,
    held_to: Callable[..., OutputCompareResult],
) -> OutputCompareResult:
    """Return the result for the part of an output that exceeds its rounding limit most;
    for the whole output if no part does.

    Args:
        result: the verdict about all of it.
        rounding: the rounding limit of each part.
        held_to: holds arrays to what rounding explains.
    """
    if result.arrays is None or rounding.labels is None or result.max_absdiff == 0:
        return result
    value, reference = result.arrays
    if are_near(value, reference, rounding.parts, rounding.labels):
        return result
    measured = deviation(value, reference, rounding=rounding)
    if not measured.is_wrong:
        return result
    number = int(np.argmax(measured.excesses))
    part = rounding.parts[number]
    broadcast = np.broadcast_to(rounding.labels == number, value.shape)
    explained = evolve(rounding, rtol=part.rtol, atol=part.atol, parts=(), labels=None)
    worst_part = held_to(
        explained, lambda _: explained, (np.where(broadcast, value, reference), reference)
    )
    worst_part.note_part(part.name, explained)
    return worst_part


def _judge_reordered(
    sides: tuple[Side, Side],
    rounding: Rounding,
    precision: Precision | None,
    held_to: Callable[..., OutputCompareResult],
) -> OutputCompareResult | None:
    """Return a passing result if rounding explains swapped rows of nearly equal scores or, in a
    coarse type, a few different integers; else None.
    """
    value, reference = (side.array for side in sides)
    is_coarse = precision is not None and precision.name in COARSE
    coarse = evolve(rounding, dtype=precision.name) if precision and is_coarse else rounding
    if any(is_ordered(side.facts, side.name) for side in sides):
        value = order_like_reference(value, reference, coarse)
        judged = held_to(rounding, arrays=(value, reference))
        if judged and judge_worst_part(judged, rounding, held_to):
            return judged
    if is_exact(reference.dtype.name) and (few := flip_limit(value, reference, coarse)):
        return held_to(few, lambda _: few, (reference, reference))
    return None


def _with_accumulated_rounding(sides: tuple[Side, Side], rounding: Rounding) -> Rounding:
    """Return the rounding limit with accumulated rounding added, if the model is available."""
    for side in sides:
        precision = coarsest_between(
            (side.array, side.array), (side.compute_dtype, side.compute_dtype)
        )
        if precision is None or precision.name != rounding.dtype:
            # This side computes in a finer type, so it accumulates no rounding of the limit's type.
            continue
        perturbed = side.perturbed_outputs(rounding.dtype)
        if not perturbed:
            continue
        value, reference = (side.array for side in sides)
        measured = deviation(value, reference, rounding=rounding)
        adding_up = [
            rounding_between_runs(perturbed, side.name, rounding.for_part(part), excess)
            for part, excess in enumerate(measured.excesses or (measured.excess,))
        ]
        if max(adding_up):
            return rounding.with_accumulation_by_part(adding_up)
    return rounding


def _rounding_between(
    sides: tuple[tuple[Facts | None, str], tuple[Facts | None, str]],
    threads: int,
    arrays: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]],
) -> Rounding | None:
    """Return the rounding limit of the difference of two outputs, from facts about their models.
    The result is None if it does not explain it.
    """
    first, second = (compute_dtype(facts, name) for facts, name in sides)
    by_nature = any(is_bounded(facts, name) for facts, name in sides)
    rounding = rounding_between(
        arrays,
        (first, second),
        is_bounded=by_nature,
        threads=threads,
        name=sides[0][1],
        layout=layout_between(sides),
    )
    if rounding is None:
        return None
    reasons = (compute_precision(facts) for facts, _ in sides)
    return evolve(
        rounding,
        lowered=next(
            (reason for reason in reasons if reason and reason.dtype == rounding.dtype), None
        ),
    )
