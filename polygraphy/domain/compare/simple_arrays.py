"""How the comparison function `simple` compares two arrays."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy.domain.arithmetic import Difference
from polygraphy.domain.compare.differences import Explain, OutputCompareResult
from polygraphy.domain.compare.inherited import with_inherited
from polygraphy.domain.compare.pairwise import Side
from polygraphy.domain.compare.result import CompareResult, UncomparedResult
from polygraphy.domain.rounding import (
    Rounding,
    coarsest_between,
    rounding_between,
    seen_between,
)
from polygraphy.domain.tensors.facts import Facts, compute_dtype, is_bounded

if TYPE_CHECKING:
    from polygraphy.domain.compare.simple import SimpleCompareFunc


def compare_arrays(
    function: SimpleCompareFunc, value: Side, reference: Side, setting: str
) -> CompareResult:
    """Compare two arrays of one shape, lazily: each metric is computed when it is read.

    Args:
        function: says what is tolerated.
        value: the output.
        reference: what it is compared with.
        setting: the name that settings are looked up by.
    """
    arrays = value.array, reference.array
    known = (value.facts, value.name), (reference.facts, reference.name)
    explain = partial(_explained, known, function.threads)
    is_auto = function.is_auto(setting)
    rounding = explain(arrays) if is_auto else None
    if function.pictures.are_wanted:
        limits = function.tolerance_for(setting, rounding)
        function.pictures.draw(value.name, *arrays, (limits.atol, limits.rtol))
    if rounding is None and is_auto:
        return UncomparedResult(
            f"There is no telling what rounding explains of {value.tensor}: give its tolerance."
        )
    difference = Difference(
        *arrays, infinities_equal=function.infinities_compare_equal, threads=function.threads
    )

    def held_to(rounding: Rounding | None, explain: Explain = explain) -> OutputCompareResult:
        return OutputCompareResult.of(
            (value.tensor, reference.tensor),
            arrays,
            difference,
            function.tolerance_for(setting, rounding),
            function.quantile_for(setting),
            explain,
        )

    result = held_to(rounding)
    if rounding is not None and value.lineage is not None and not result:
        precision = coarsest_between(arrays, (value.computed_in, reference.computed_in))
        sides = value, reference
        inherited = with_inherited(sides, rounding, precision, result.max_absdiff)
        return result if inherited is None else held_to(inherited)
    if rounding is not None and not result:
        explained = _adding_up((value, reference), rounding)
        if explained != rounding:
            return held_to(explained, lambda _: explained)
    return result


def _adding_up(sides: tuple[Side, Side], rounding: Rounding) -> Rounding:
    """Return what is explained by rounding that adds up along the model, where it is at hand."""
    for side in sides:
        if seen := seen_between(side.rough(), side.name, rounding):
            return rounding.adding_up(seen)
    return rounding


def _explained(
    sides: tuple[tuple[Facts | None, str], tuple[Facts | None, str]],
    threads: int,
    arrays: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]],
) -> Rounding | None:
    """Return what rounding explains of the difference of two outputs, of which the facts about
    their models and their names are given.
    """
    first, second = (compute_dtype(facts, name) for facts, name in sides)
    by_nature = any(is_bounded(facts, name) for facts, name in sides)
    return rounding_between(arrays, (first, second), is_bounded=by_nature, threads=threads)
