"""Results of a comparison for one output: its differences, and whether they are within the
tolerance."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import inf, isnan
from operator import itemgetter
from typing import Any

import numpy as np
from attrs import fields, frozen

from polygraphy.domain.arithmetic import Difference, Mismatches
from polygraphy.domain.arithmetic.difference import KeptDifferences, match_within
from polygraphy.domain.arithmetic.passes.together import FormedRow, form_together
from polygraphy.domain.errors import UsageError
from polygraphy.domain.limits import Tolerance
from polygraphy.domain.rounding import Rounding, deviation
from polygraphy.domain.tensors.pickling import pickle_as


@pickle_as("polygraphy.comparator.compare")
@frozen
class ComparedTensor:
    """Name, data type and shape of one of the compared outputs."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @staticmethod
    def of(name: str, array: np.ndarray[Any, Any]) -> ComparedTensor:
        """Return the name, data type and shape of an array."""
        return _describe_tensor(name, array.dtype, array.shape)

    def __str__(self) -> str:
        """Return the tensor in one line."""
        return f"{self.name!r} (dtype={self.dtype}, shape={self.shape})"


@lru_cache(maxsize=1024)
def _describe_tensor(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> ComparedTensor:
    """Return the description of a tensor; iterations share equal descriptions."""
    return ComparedTensor(name, str(dtype), shape)


@pickle_as("polygraphy.comparator.compare")
class CompareResult:
    """The result for one output; true if it passed.

    Attributes:
        thresholds: the thresholds of the output.
        tensor0: the description of the output in the first run; None if the result was loaded.
        tensor1: the same for the second run.
    """

    def __init__(self, thresholds: Any = None) -> None:
        """Create a result with its thresholds."""
        self.thresholds = thresholds
        self.tensor0: ComparedTensor | None = None
        self.tensor1: ComparedTensor | None = None

    @property
    def output0_name(self) -> str | None:
        """The name of the output in the first run; None if it is unknown."""
        return self.tensor0.name if self.tensor0 else None

    @property
    def output1_name(self) -> str | None:
        """The name of the output in the second run; None if it is unknown."""
        return self.tensor1.name if self.tensor1 else None

    def set_thresholds(self, thresholds: Any) -> None:
        """Judge the same metrics by new thresholds."""
        self.thresholds = thresholds

    @property
    def excess(self) -> float | None:
        """Return the tolerance needed, as a multiple of the tolerance allowed: at most 1 if passed,
        infinite if no tolerance is enough, None if unknown.
        """
        return None

    def metric_fields(self) -> tuple[str, ...]:
        """Return the names of the metrics."""
        return ()

    def metric_values(self) -> dict[str, float | None]:
        """Return the metrics by name; None for metrics not computed."""
        return {}

    @property
    def is_in_decibels(self) -> bool:
        """Whether the metrics are ratios of a signal to its noise, in decibels."""
        return False

    def with_metrics(self, values: Mapping[str, float | None]) -> CompareResult:
        """Return a result of the same kind with new metrics and the same thresholds.

        Raises:
            UsageError: there are no metrics that tell.
        """
        raise UsageError(f"A {type(self).__name__} has no metrics that can be averaged.")

    def describe(self) -> tuple[str, bool] | None:
        """Return a line about the verdict and whether it passed; None if a line cannot show it."""
        if self.thresholds is None:
            return None
        described: tuple[str, bool] | None = self.thresholds.describe(self.metric_values())
        return described

    @property
    def nbytes(self) -> int:
        """Return the size of the arrays that the result holds, in bytes."""
        return 0

    def own_arrays(self) -> None:
        """Copy the arrays that the result reads, so that the originals may change."""

    def settle(self) -> None:
        """Compute all lazy values and release the arrays."""

    def __bool__(self) -> bool:
        """Return whether the output passed."""
        raise NotImplementedError

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled result.
        NVIDIA's Polygraphy saves metrics as attributes, and the names of outputs."""
        if "output0_name" not in state:
            vars(self).update(state)
            return
        thresholds = state["thresholds"]
        if thresholds is not None:
            # Create the object again, because NVIDIA's pickled objects lack our fields.
            names = [field.name for field in fields(type(thresholds)) if field.name != "reason"]
            thresholds = type(thresholds)(*(getattr(thresholds, name) for name in names))
        type(self).__init__(self, thresholds=thresholds)
        self._load_pickled_metrics(state)
        sides = [state["output0_name"], state["output1_name"]]
        self.tensor0, self.tensor1 = (ComparedTensor(name, "?", ()) for name in sides)

    def _load_pickled_metrics(self, state: dict[str, Any]) -> None:
        """Load the metrics from the state of a pickle by NVIDIA."""

    def __eq__(self, other: object) -> bool:
        """Return whether results are equal; a passed result equals True, and a failed one False."""
        if isinstance(other, (bool, np.bool_)):
            return bool(self) == bool(other)
        return NotImplemented

    __hash__ = object.__hash__


@pickle_as("polygraphy.comparator.compare")
class UncomparedResult(CompareResult):
    """A failure without metrics: one run lacks the output, or the shapes differ.

    Attributes:
        reason: the actual and the expected value, in a sentence.
        is_missing: whether one run lacks the output.
    """

    def __init__(self, reason: str, *, is_missing: bool = False) -> None:
        """Create a failure with its reason."""
        super().__init__()
        self.reason = reason
        self.is_missing = is_missing

    def __bool__(self) -> bool:
        """Return False: an output that was not compared does not pass."""
        return False

    def __repr__(self) -> str:
        """Return the class and the reason as text."""
        return f"UncomparedResult({self.reason!r})"


def excess_ratio(needed: float | None, allowed: float) -> float:
    """Return `needed` as a multiple of `allowed`."""
    if needed is None or isnan(needed):
        return inf
    if allowed == 0:
        return inf if needed > 0 else 0.0
    return needed / allowed


Arrays = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
Explain = Callable[[Arrays], Rounding | None]
"""Finds out what rounding explains of the difference of two arrays."""

_STATISTICS = ("max", "mean", "median", "quantile")
_FIELDS = tuple(
    f"{statistic}_{kind}" for statistic in _STATISTICS for kind in ("absdiff", "reldiff")
)
_COMMON = ("thresholds", "tensor0", "tensor1", "_passed", "_mismatches")
"""Attributes that nearly every settled result has besides its metrics."""
_PLAIN = _FIELDS[:6]
_NUMBERS = itemgetter(*_PLAIN)
_MOST_ATTRIBUTES = 15
"""Attributes that `OutputCompareResult` sets itself."""
_ELEMENTWISE = ("elemwise",)
_MAXIMA = _FIELDS[:2]
_NEVER_LATER = (*_MAXIMA, *_FIELDS[6:])
"""The metrics that differences which are kept do not give."""


@pickle_as("polygraphy.comparator.compare")
class OutputCompareResult(CompareResult):
    """The differences of one output, judged by its tolerance.

    Each metric is computed when it is first read, as long as the arrays are available. `own_arrays`
    copies the arrays; `settle` computes all metrics and releases the arrays. The metrics are
    ``max_absdiff``, ``max_reldiff``, and so ``mean_*``, ``median_*`` and ``quantile_*``; absolute
    ones are in the output's own unit, and relative ones are relative to the magnitude of the second
    run's value. A quantile exists only if it was checked.
    """

    part = ""
    """The part of the output that the verdict is about, such as ``scores (output[:, 4:6])``; "" for
    all of it."""
    _kept: KeptDifferences | None = None
    _excess: float | None = None
    _difference: Difference | None = None
    notes_infinities = False
    """Whether equal infinities pass although the user did not ask for it."""
    _infinities_equal = False
    _threads = 1
    _formed: FormedRow | None = None

    def __init__(
        self,
        max_absdiff: float | None = None,
        max_reldiff: float | None = None,
        mean_absdiff: float | None = None,
        mean_reldiff: float | None = None,
        median_absdiff: float | None = None,
        median_reldiff: float | None = None,
        quantile_absdiff: float | None = None,
        quantile_reldiff: float | None = None,
        thresholds: Tolerance | None = None,
        passed: bool | None = None,
    ) -> None:
        """Set known metrics, such as saved ones.
        `passed` is the saved verdict if metrics cannot tell (``elemwise``).
        """
        super().__init__(thresholds)
        given_values = (
            max_absdiff, max_reldiff, mean_absdiff, mean_reldiff,
            median_absdiff, median_reldiff, quantile_absdiff, quantile_reldiff,
        )  # fmt: skip
        self._metrics: dict[str, float | None] = dict(zip(_FIELDS, given_values))
        self._passed = passed
        self._mismatches: Mismatches | None = None
        self.quantile: float | None = None
        self.arrays: Arrays | None = None
        self._explain: Explain | None = None
        self._rounding: Rounding | None = None
        self._is_rounding: bool | None = None

    @classmethod
    def of(
        cls,
        tensors: tuple[ComparedTensor, ComparedTensor],
        arrays: Arrays,
        tolerance: Tolerance,
        quantile: float,
        explain: Explain | None = None,
        *,
        infinities_equal: bool = False,
        threads: int = 1,
    ) -> OutputCompareResult:
        """Return the judged difference of two arrays of equal shape;
        `explain` computes the rounding limit on demand. `infinities_equal` and `threads` are those
        of `Difference`.
        """
        result = cls.__new__(cls)
        result.thresholds = tolerance
        result.tensor0, result.tensor1 = tensors
        result.arrays = arrays
        if infinities_equal or threads != 1:
            result._infinities_equal, result._threads = infinities_equal, threads
        result.quantile = quantile if "quantile" in tolerance.check_error_stat else None
        result._explain = explain
        result._metrics = {}
        result._passed = None
        result._mismatches = None
        result._rounding = None
        result._is_rounding = None
        return result

    @property
    def difference(self) -> Difference | None:
        """Return the difference of the arrays; None if they are no longer available."""
        if self._difference is None and self.arrays is not None:
            self._difference = Difference(
                *self.arrays,
                infinities_equal=self._infinities_equal,
                threads=self._threads,
                formed=self._formed,
            )
        return self._difference

    def _load_pickled_metrics(self, state: dict[str, Any]) -> None:
        """Load the metrics from the state of a pickle of NVIDIA's Polygraphy."""
        self._metrics = {field: state.get(field) for field in _FIELDS}
        self._passed = state.get("_stored_passed")

    def _metric(self, field: str) -> float | None:
        """Return a statistic of the differences, computed at the first call, or None.
        The result is None if they are not known."""
        if field not in self._metrics:
            self._metrics[field] = self._compute_statistic(field)
        return self._metrics[field]

    def _compute_statistic(self, field: str) -> float | None:
        """Return a statistic of the differences; None if they are not known."""
        is_quantile = field.startswith("quantile")
        differences = self.difference or self._kept
        if differences is None or (is_quantile and self.quantile is None):
            return None
        metric: Callable[..., float] = getattr(differences, field.removesuffix("diff"))
        return metric(self.quantile) if is_quantile else metric()

    max_absdiff = property(
        lambda self: self._metric("max_absdiff"), doc="Largest absolute difference."
    )
    max_reldiff = property(
        lambda self: self._metric("max_reldiff"), doc="Largest relative difference."
    )
    mean_absdiff = property(
        lambda self: self._metric("mean_absdiff"), doc="Mean absolute difference."
    )
    mean_reldiff = property(
        lambda self: self._metric("mean_reldiff"), doc="Mean relative difference."
    )
    median_absdiff = property(
        lambda self: self._metric("median_absdiff"), doc="Median absolute difference."
    )
    median_reldiff = property(
        lambda self: self._metric("median_reldiff"), doc="Median relative difference."
    )
    quantile_absdiff = property(
        lambda self: self._metric("quantile_absdiff"),
        doc="The checked quantile of the absolute difference.",
    )
    quantile_reldiff = property(
        lambda self: self._metric("quantile_reldiff"),
        doc="The checked quantile of the relative difference.",
    )

    def metric_fields(self) -> tuple[str, ...]:
        """Return the names of the metrics."""
        return _FIELDS

    def metric_values(self) -> dict[str, float | None]:
        """Return all metrics by name, computing missing ones."""
        return {field: self._metric(field) for field in _FIELDS}

    @property
    def mismatches(self) -> Mismatches | None:
        """Return number and positions of elements beyond the tolerance; None for loaded results."""
        if self._mismatches is None and self.difference is not None and self.thresholds is not None:
            self._mismatches = self.difference.mismatches(
                self.thresholds.atol, self.thresholds.rtol
            )
        return self._mismatches

    def _note_formed(self, formed: FormedRow) -> None:
        """Keep the differences, and set the verdict if they show that all elements match."""
        self._formed, limits = formed, self.tolerance
        if limits.check_error_stat == _ELEMENTWISE:
            group, row = formed
            self._mismatches = match_within(group.size, group.peak(row), limits.atol, limits.rtol)
            self._passed = True if self._mismatches is not None else None

    def measure(self) -> None:
        """Compute mismatches and all statistics in a single pass, for callers that show both."""
        if self.difference is not None and self._mismatches is None:
            tolerance = self.tolerance
            self._mismatches = self.difference.measure(tolerance.atol, tolerance.rtol)

    @property
    def passed(self) -> bool:
        """Return whether every checked statistic is within tolerance; NaN never is."""
        if self._passed is None:
            self._passed = all(map(self.allows, self.tolerance.check_error_stat))
        return self._passed

    @property
    def tolerance(self) -> Tolerance:
        """Return the tolerance of the output, or the default tolerance if none was saved."""
        return self.thresholds or Tolerance()

    def allows(self, statistic: str) -> bool:
        """Return whether one checked statistic is within tolerance."""
        if statistic == "elemwise" and self.difference is None and self._mismatches is None:
            self.tolerance.passed({})  # Reports that metrics alone cannot decide.
        if statistic != "elemwise":
            fields = (f"{statistic}_absdiff", f"{statistic}_reldiff")
            return self.tolerance.allows(
                statistic, {field: self._metric(field) for field in fields}
            )
        mismatches = self.mismatches
        return mismatches is not None and mismatches.count == 0

    def required_tolerances(self, statistic: str) -> tuple[float | None, float | None]:
        """Return absolute and relative tolerance: either makes this statistic pass."""
        name = "max" if statistic == "elemwise" else statistic
        return self._metric(f"{name}_absdiff"), self._metric(f"{name}_reldiff")

    @property
    def excess(self) -> float:
        """Return the tolerance needed, as a multiple of the tolerance allowed: at most 1 if passed,
        infinite if no tolerance is enough.
        """
        if self._excess is not None:
            return self._excess
        excess = max(map(self._excess_of, self.tolerance.check_error_stat))
        return min(1.0, excess) if self.passed else excess

    def _excess_of(self, statistic: str) -> float:
        """Return a statistic as a multiple of its tolerance."""
        bound, limits = self._excess_bound(statistic), self.tolerance
        if statistic != "elemwise" or bound <= 1:
            return bound
        worst = self.mismatches.worst if self.mismatches is not None else None
        # All elements match: try a stricter limit.
        if worst is None and self.difference is not None:
            worst = self.difference.mismatches(limits.atol * 1e-6, limits.rtol * 1e-6).worst
        return bound if worst is None else self._ratio(worst.absolute, worst.relative)

    def _excess_bound(self, statistic: str) -> float:
        """Return the excess of a statistic; for single elements an upper bound,
        because the maxima may belong to different ones."""
        return self._ratio(*self.required_tolerances(statistic))

    def _ratio(self, absolute: float | None, relative: float | None) -> float:
        """Return the error as a multiple of the tolerance: the smaller of both ratios."""
        limits = self.tolerance
        return min(excess_ratio(absolute, limits.atol), excess_ratio(relative, limits.rtol))

    @property
    def rounding(self) -> Rounding | None:
        """Return the rounding limit of the difference; None if unknown, as for loaded results."""
        if self._explain is not None:
            assert self.arrays is not None
            self._rounding, self._explain = self._explain(self.arrays), None
        return self._rounding

    @property
    def is_rounding(self) -> bool:
        """Return whether rounding alone explains the failure."""
        rounding = self.rounding
        if rounding is None:
            return False
        if self._is_rounding is None:
            checked = self.tolerance.check_error_stat
            self._is_rounding = all(self._is_within(rounding, name) for name in checked)
        return self._is_rounding

    def _is_within(self, rounding: Rounding, statistic: str) -> bool:
        """Return whether differences are within rounding."""
        if rounding.parts and self.arrays is not None:
            # No tolerance accepts NaN, even if it is equal in both.
            is_nan = self.max_absdiff is not None and isnan(self.max_absdiff)
            return not is_nan and not deviation(*self.arrays, rounding=rounding).is_wrong
        if statistic == "elemwise" and self.difference is not None:
            return self.difference.mismatches(rounding.atol, rounding.rtol).count == 0
        absolute, relative = self.required_tolerances(statistic)
        return (absolute is not None and absolute <= rounding.atol) or (
            relative is not None and relative <= rounding.rtol
        )

    def note_part(self, part: str, rounding: Rounding) -> None:
        """Record the part of the output that the differences belong to, and its rounding limit."""
        self.part = part
        self._rounding, self._explain = rounding, None

    def set_thresholds(self, thresholds: Tolerance) -> None:
        """Judge the same differences by new thresholds."""
        super().set_thresholds(thresholds)
        self._passed = self._mismatches = self._is_rounding = self._excess = None

    @property
    def nbytes(self) -> int:
        """Return the size of the arrays in bytes, or 0 after they are released."""
        return sum(array.nbytes for array in self.arrays or ())

    def own_arrays(self) -> None:
        """Copy the arrays, so that later computations do not depend on changes to the originals."""
        if self.difference is not None:
            self.difference.own_arrays()
            self.arrays, self._formed = self.difference.arrays, None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process: settled, with every metric."""
        settled = self
        if self.arrays is not None:
            settled = object.__new__(type(self))
            vars(settled).update(vars(self), _metrics=dict(self._metrics))
            settled.settle()
        if settled._kept is None:
            return vars(settled)
        return {**vars(settled), "_metrics": settled.metric_values(), "_kept": None}

    def settle(self) -> None:
        """Compute the verdict and release the arrays.
        Small differences are kept for metrics that are read later.
        """
        if self._formed is not None and self._passed and self._difference is None:
            # All elements match, so the maxima are sufficient, and the excess is not needed.
            known_metrics = self._known_metrics()
            if known_metrics is not None:
                self._metrics = dict(zip(_FIELDS, (*known_metrics, None, None)))
                self.arrays = self._explain = self._formed = None
                return
        if not self:
            # Compute `is_rounding` now, because it needs the arrays; only failures use it.
            _ = self.is_rounding
        if self.arrays is not None:
            known_metrics = self._known_metrics()
            if known_metrics is not None:
                self._metrics = dict(zip(_FIELDS, (*known_metrics, None, None)))
            # If the maxima exceed the tolerance, the excess cannot be computed from them later.
            if max(map(self._excess_bound, self.tolerance.check_error_stat)) > 1:
                self._excess = self.excess
            if known_metrics is None and self.difference is not None:
                for field in _MAXIMA if self.quantile is None else _NEVER_LATER:
                    if field not in self._metrics:
                        self._metric(field)
                self._kept = self.difference.without_operands()
        if self._kept is None and len(self._metrics) < len(_FIELDS):
            self.metric_values()
        self.arrays = self._explain = None
        self._difference = self._formed = None

    def _known_metrics(self) -> tuple[float, ...] | None:
        """Return all metrics but quantiles, or None.
        The result is None if they are not known without a pass over the arrays, or there is a
        quantile."""
        if self.quantile is not None:
            return None
        if self._difference is None and self._formed is not None:
            group, row = self._formed
            if (metrics := group.metrics(row)) is not None:
                return metrics
        return None if self.difference is None else self.difference.metrics_without_pass()

    @staticmethod
    def prepare_verdicts(results: Iterable[CompareResult]) -> None:
        """Form the differences of many small outputs in one batch, and note those that match."""
        unformed = [
            (result, result.arrays)
            for result in results
            if isinstance(result, OutputCompareResult)
            and result.arrays is not None
            and result._difference is None
        ]
        formed = form_together([arrays for _, arrays in unformed])
        for (result, _), row in zip(unformed, formed):
            if row is not None:
                result._note_formed(row)

    @staticmethod
    def prepare_settling(results: Iterable[CompareResult]) -> None:
        """Compute what `settle` needs for many small outputs in one batch."""
        Difference.find_medians(
            result.difference
            for result in results
            if isinstance(result, OutputCompareResult)
            and result._formed is None
            and result.difference is not None
        )

    @staticmethod
    def prepare_metrics(results: Iterable[OutputCompareResult]) -> None:
        """Compute the metrics of many settled results in one batch."""
        KeptDifferences.find_medians(result._kept for result in results if result._kept is not None)

    def with_metrics(self, values: Mapping[str, float | None]) -> OutputCompareResult:
        """Return a result with new metrics and the same thresholds."""
        result = OutputCompareResult(thresholds=self.thresholds)
        result._metrics.update(values)
        result.quantile = self.quantile
        return result

    def as_fields(self) -> Mapping[str, Any]:
        """Return the fields to save, by name;
        the verdict only if it does not follow from the metrics."""
        keeps_verdict = "elemwise" in self.tolerance.check_error_stat
        return {
            **self.metric_values(),
            "thresholds": self.thresholds,
            "passed": self.passed if keeps_verdict else None,
        }

    @property
    def is_plain(self) -> bool:
        """Return whether the result is settled and only quantiles may be missing, and nothing
        explains a failure."""
        if self._kept is not None and self.quantile is None:
            self._metrics, self._kept = self.metric_values(), None
        optional_fields = self.arrays, self._explain, self._kept, self._rounding, self._is_rounding
        return (
            optional_fields.count(None) == len(optional_fields)
            and self.quantile is None
            and not self.part
            and len(self._metrics) == len(_FIELDS)
            and len(self.__dict__) <= _MOST_ATTRIBUTES
        )

    def __bool__(self) -> bool:
        """Return whether the output passed."""
        # Avoids calling the property: this method runs several times per output and iteration.
        passed = self._passed
        return self.passed if passed is None else passed

    def __repr__(self) -> str:
        """Return the metrics and the tolerance as text."""
        metrics = ", ".join(f"{field}={value!r}" for field, value in self.metric_values().items())
        return (
            f"OutputCompareResult({metrics}, thresholds={self.thresholds!r},"
            f" passed={self.passed!r})"
        )


Columns = tuple[tuple[Any, ...], Sequence[float]]
"""Values that many settled results have in common between iterations, and their metrics."""


def columns_of(results: Iterable[Any]) -> Columns | None:
    """Return settled results as columns, which are several times faster to write than objects.
    The result is None if one of them has more than columns hold. See `from_columns`.
    """
    shared: list[Any] = []
    metrics: list[Any] = []
    for result in results:
        if type(result) is not OutputCompareResult or not result.is_plain:
            return None
        shared += map(result.__dict__.__getitem__, _COMMON)
        metrics += _NUMBERS(result._metrics)
    try:
        return tuple(shared), array("d", metrics)
    except TypeError:  # The metric is unknown.
        return None


def from_columns(columns: Columns) -> Iterator[OutputCompareResult]:
    """Yield results from the columns that `columns_of` returns."""
    shared, metrics = columns
    count, width = len(_COMMON), len(_PLAIN)
    for number in range(len(shared) // count):
        result = OutputCompareResult()
        result._metrics.update(zip(_PLAIN, metrics[width * number : width * (number + 1)]))
        vars(result).update(zip(_COMMON, shared[count * number : count * (number + 1)]))
        yield result
