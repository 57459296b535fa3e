"""Descriptions of saved data: each tensor, and a file as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import numpy as np
from attrs import Factory, frozen

from polygraphy.domain.arithmetic import Histogram, Summary, histogram, summarize
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.maps import as_array

PERCENTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
"""The quantiles of a detailed report."""

_BLOCK = 1 << 18


@frozen
class Detail:
    """The level of detail of a report.

    Attributes:
        statistics: whether NaN, infinities and zeros are counted even where there are none, and
            `PERCENTILES` computed.
        histogram: whether the distribution of the elements is computed.
        values: whether the elements themselves are part of the report.
    """

    statistics: bool = False
    histogram: bool = False
    values: bool = False


@frozen
class Peculiarity:
    """Elements that are NaN, infinite or zero: how many, and where the first is, in C order."""

    what: str
    count: int
    first: tuple[int, ...] | None


@frozen
class TensorReport:
    """One tensor of one iteration.

    Attributes:
        name: of the tensor.
        dtype: of the elements, by name.
        shape: of the tensor.
        unmeasured: the kind of elements if there are no statistics of them; None for numbers.
        summary: its statistics, with `PERCENTILES` where detail is asked for.
        peculiarities: NaN, +Inf, -Inf and zeros; without detail only NaN and infinities that there
            are.
        histogram: the distribution of its elements; None unless asked for.
        values: the elements; None unless asked for.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    summary: Summary
    unmeasured: str | None = None
    peculiarities: tuple[Peculiarity, ...] = ()
    histogram: Histogram | None = None
    values: Array | None = None


@frozen
class IterationReport:
    """The tensors of one iteration."""

    index: int
    tensors: tuple[TensorReport, ...]

    @staticmethod
    def of(index: int, arrays: Mapping[str, Any], detail: Detail) -> IterationReport:
        """Return the report on the arrays of an iteration."""
        tensors = (report_on(name, as_array(value), detail) for name, value in arrays.items())
        return IterationReport(index, tuple(tensors))


@frozen
class RunReport:
    """The report on one runner, or on input data.

    Attributes:
        runner: name of the runner; None for input data.
        iterations: number of iterations, of which the report may hold only some.
        reports: one per iteration that is reported on.
    """

    runner: str | None
    iterations: int
    reports: list[IterationReport] = Factory(list)


@frozen
class DataReport:
    """The report on one file or folder.

    Attributes:
        source: the path.
        runs: one per runner, or a single one for input data.
        detail: the level of detail.
        all_iterations: whether it is said about all iterations or only the first.
    """

    source: str
    runs: tuple[RunReport, ...]
    detail: Detail
    all_iterations: bool

    @property
    def is_detailed(self) -> bool:
        """Return whether the report has more than the default details."""
        return self.all_iterations or self.detail != Detail()

    @property
    def is_about_inputs(self) -> bool:
        """Whether the report is about input data."""
        return any(run.runner is None for run in self.runs)


_UNMEASURED = dict.fromkeys("USO", "Text") | {"V": "Bytes of an unknown type"}
"""Names of elements that are not numbers, by the kind of their data type."""


def report_on(name: str, array: Array, detail: Detail) -> TensorReport:
    """Return the report on an array of any dtype and shape."""
    summary = summarize(array, quantiles=PERCENTILES) if detail.statistics else summarize(array)
    return TensorReport(
        name=name,
        dtype="str" if array.dtype.kind in "UO" else str(array.dtype),
        shape=array.shape,
        summary=summary,
        unmeasured=_UNMEASURED.get(array.dtype.kind),
        peculiarities=_peculiarities(array, summary, detail),
        histogram=histogram(array) if detail.histogram else None,
        values=array if detail.values else None,
    )


def _peculiarities(array: Array, summary: Summary, detail: Detail) -> tuple[Peculiarity, ...]:
    """Return which of NaN and infinities occur in an array;
    with statistics all of them, and zeros."""
    peculiarities = [
        _peculiarity("NaN", summary.nan, array, np.isnan),
        _peculiarity("+Inf", summary.posinf, array, _is_positive_infinity),
        _peculiarity("-Inf", summary.neginf, array, lambda block: block == -inf),
    ]
    if detail.statistics:
        peculiarities.append(_peculiarity("zeros", summary.zeros, array, lambda block: block == 0))
        return tuple(peculiarities)
    return tuple(peculiarity for peculiarity in peculiarities if peculiarity.count)


def _is_positive_infinity(block: Array) -> Any:
    """Return a mask of positive infinities.
    All infinities of complex numbers count, because the modulus decides.
    """
    return np.isinf(block) if block.dtype.kind == "c" else block == inf


def _peculiarity(
    name: str, count: int, array: Array, predicate: Callable[[Array], Any]
) -> Peculiarity:
    """Return the number of elements that satisfy a predicate, and the first of them.
    The array is searched in blocks."""
    first = None
    flat = array.reshape(-1)
    for start in range(0, flat.size if count else 0, _BLOCK):
        matches = predicate(flat[start : start + _BLOCK])
        if matches.any():
            index = np.unravel_index(start + int(matches.argmax()), array.shape)
            first = tuple(int(step) for step in index)
            break
    return Peculiarity(name, count, first)
