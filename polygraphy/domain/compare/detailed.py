"""Metrics that come with further facts about the difference: thresholds, verdicts, functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import frozen

from polygraphy.domain.arithmetic import Difference
from polygraphy.domain.arithmetic.bias import mean_signed_error
from polygraphy.domain.arithmetic.magnitude import root_mean_square
from polygraphy.domain.arithmetic.nonfinite import compare_non_finite
from polygraphy.domain.arithmetic.passes.widen import Kind, kind_of
from polygraphy.domain.arithmetic.ranking import compare_top_k
from polygraphy.domain.arithmetic.ulps import ulp_distances
from polygraphy.domain.catalog.metrics import METRICS
from polygraphy.domain.compare.distribution import distribution_of
from polygraphy.domain.compare.metric import MetricCompareFunc, MetricResult, MetricThreshold
from polygraphy.domain.compare.pairwise import Side
from polygraphy.domain.compare.result import CompareResult, UncomparedResult
from polygraphy.domain.errors import UsageError
from polygraphy.domain.rounding import coarsest_between
from polygraphy.domain.tensors.pairing import FindOutput
from polygraphy.domain.tensors.per_output import PerOutput, kept_setting, value_for
from polygraphy.domain.tensors.precision import is_exact

Measured = tuple[float, Mapping[str, Any]]

__all__ = [
    "BiasCompareFunc",
    "BiasResult",
    "BiasThreshold",
    "ErrorDistributionCompareFunc",
    "ErrorDistributionResult",
    "ErrorDistributionThreshold",
    "NonFiniteCompareFunc",
    "NonFiniteResult",
    "NonFiniteThreshold",
    "TopKCompareFunc",
    "TopKResult",
    "TopKThreshold",
    "UlpCompareFunc",
    "UlpResult",
    "UlpThreshold",
]


class DetailedResult(MetricResult):
    """A metric that is held to a threshold, and facts that are only shown and saved.

    Attributes:
        details: the facts by name: numbers, lists and dictionaries, as they are saved.
    """

    shown: ClassVar[tuple[str, ...]] = ()
    """The facts that a log line shows."""

    def __init__(
        self,
        value: float | None = None,
        thresholds: MetricThreshold | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(value, thresholds)
        self.details: Mapping[str, Any] = dict(details or {})

    def as_fields(self) -> dict[str, Any]:
        return {**self.metric_values(), **self.details, "thresholds": self.thresholds}


class _DetailedCompareFunc(MetricCompareFunc):
    """Measures a metric together with further facts."""

    result_type: ClassVar[type[DetailedResult]]

    def measure_in_detail(self, value: Side, reference: Side, setting: str) -> Measured:
        """Return the metric of two arrays of one shape, and further facts.

        Raises:
            TypeError: they do not hold numbers.
        """
        raise NotImplementedError

    def result_of(self, value: Side, reference: Side, setting: str) -> CompareResult:
        """Measure two arrays of one shape; the verdict holds the further facts."""
        found, details = self.measure_in_detail(value, reference, setting)
        return self.result_type(found, self.thresholds_for(setting), details)


@frozen
class UlpThreshold(MetricThreshold):
    """The largest tolerable distance, in units in the last place."""

    metric = METRICS["ulp"]


class UlpResult(DetailedResult):
    """The largest distance in units in the last place of the data type in which the output was
    computed.

    Details: ``p99_ulp``, ``mean_ulp``, and the data type as ``computed_in``.
    """

    metric = UlpThreshold.metric
    shown = ("p99_ulp", "mean_ulp", "computed_in")


class UlpCompareFunc(_DetailedCompareFunc):
    """Holds the largest distance in units in the last place to a limit: of the data type in which
    the output was computed, or where that is not known of its own.

    Of integers the unit is 1.
    """

    result_type = UlpResult
    threshold_type = UlpThreshold

    def __init__(
        self,
        ulp_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the largest distance (default: 16)."""
        super().__init__(ulp_threshold, check_shapes, fail_fast, find_output_func)

    def measure_in_detail(self, value: Side, reference: Side, setting: str) -> Measured:
        """Return the largest distance, its 99th percentile, its mean, and the data type."""
        arrays = value.array, reference.array
        precision = coarsest_between(arrays, (value.computed_in, reference.computed_in))
        if all(is_exact(array.dtype.name) for array in arrays):
            precision = None
        elif precision is None:
            raise TypeError(f"{reference.array.dtype} has no units in the last place")
        summary = ulp_distances(*arrays, precision, threads=self.threads)
        details = {
            "p99_ulp": summary.quantiles[0.99] if summary.size else 0.0,
            "mean_ulp": summary.mean if summary.size else 0.0,
            "computed_in": reference.array.dtype.name if precision is None else precision.name,
        }
        if summary.nan:
            return math.nan, details
        return (float(summary.max) if summary.size else 0.0), details


@frozen
class TopKThreshold(MetricThreshold):
    """The smallest tolerable share of lists that agree, from 0 to 1."""

    metric = METRICS["top_k"]


class TopKResult(DetailedResult):
    """The share of lists of scores whose highest entries are the same, or as good.

    Details: ``k``, the ``margin`` that was allowed, the ``needed_margin`` with which all would
    agree, ``lists``, and ``first_disagreement``, the position of a list.
    """

    metric = TopKThreshold.metric
    shown = ("k", "margin", "needed_margin", "lists", "first_disagreement")


class TopKCompareFunc(_DetailedCompareFunc):
    """Holds the share of lists (the last dimension) whose highest entries agree to a smallest
    value.
    """

    result_type = TopKResult
    threshold_type = TopKThreshold

    def __init__(
        self,
        agreement_threshold: PerOutput[float] | None = None,
        k: PerOutput[int] | None = None,
        margin: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set what agreement means; each setting may be one value, or one per output.

        Args:
            agreement_threshold: the smallest share of lists that agree, from 0 to 1
                (default: 1).
            k: how many of the highest entries are looked at (default: 1).
            margin: how much lower than the k-th highest score of the second run the score of an
                entry may be there, in the output's own unit (default: 0: only ties may change
                places).
            check_shapes: whether outputs of different shapes fail (the default).
            fail_fast: whether to stop at the first output that fails.
            find_output_func: finds the partner of an output.

        Raises:
            UsageError: a value is out of its range.
        """
        self.k = kept_setting(k)
        self.margin = kept_setting(margin)
        super().__init__(agreement_threshold, check_shapes, fail_fast, find_output_func)
        for name in self.named_outputs() | {""}:
            self._k_for(name)
            self._margin_for(name)

    def per_output_settings(self) -> tuple[Any, ...]:
        """Return the threshold, how many entries are looked at, and the margin."""
        return self.threshold, self.k, self.margin

    def _k_for(self, name: str) -> int:
        k = value_for(self.k, name, 1)
        if isinstance(k, bool) or int(k) != k or k < 1:
            raise UsageError(f"The number of highest entries is a whole number from 1, not {k!r}.")
        return int(k)

    def _margin_for(self, name: str) -> float:
        margin = float(value_for(self.margin, name, 0.0))
        if not margin >= 0:
            raise UsageError(f"A margin is a number that is not negative, not {margin!r}.")
        return margin

    def result_of(self, value: Side, reference: Side, setting: str) -> CompareResult:
        """Compare lists; those that have no more than k entries cannot differ, which fails."""
        k, shape = self._k_for(setting), value.array.shape or (1,)
        if shape[-1] <= k:
            return UncomparedResult(
                f"All entries of lists of {shape[-1]} are among the {k} highest, so there is"
                " nothing to compare."
            )
        return super().result_of(value, reference, setting)

    def measure_in_detail(self, value: Side, reference: Side, setting: str) -> Measured:
        """Return the share of lists that agree, and what agreement would take."""
        k, margin = self._k_for(setting), self._margin_for(setting)
        found = compare_top_k(value.array, reference.array, k, margin)
        return found.agreement, {
            "k": k,
            "margin": margin,
            "needed_margin": found.margin,
            "lists": found.lists,
            "first_disagreement": None if found.first is None else list(found.first),
        }


@frozen
class BiasThreshold(MetricThreshold):
    """The largest tolerable bias in either direction."""

    metric = METRICS["bias"]


class BiasResult(DetailedResult):
    """The mean signed error by the root of the mean square of the second run's output.

    Details: ``mean_signed_error`` in the output's own unit.
    """

    metric = BiasThreshold.metric
    shown = ("mean_signed_error",)


class BiasCompareFunc(_DetailedCompareFunc):
    """Holds the mean signed error, by the root of the mean square of the second run's output, to a
    largest value in either direction: errors that cancel do not count, a drift does.
    """

    result_type = BiasResult
    threshold_type = BiasThreshold

    def __init__(
        self,
        bias_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the largest bias (default: 1e-5)."""
        super().__init__(bias_threshold, check_shapes, fail_fast, find_output_func)

    def measure_in_detail(self, value: Side, reference: Side, setting: str) -> Measured:
        """Return the bias, and the mean signed error in the output's own unit."""
        mean = mean_signed_error(value.array, reference.array, threads=self.threads)
        details = {"mean_signed_error": mean}
        if mean == 0 or math.isnan(mean):
            return mean, details
        magnitude = root_mean_square(reference.array, threads=self.threads)
        return (mean / magnitude if magnitude else math.copysign(math.inf, mean)), details


@frozen
class NonFiniteThreshold(MetricThreshold):
    """How many elements may be NaN or infinite on one side only."""

    metric = METRICS["non_finite"]


class NonFiniteResult(DetailedResult):
    """How many elements are NaN, +inf or -inf on one side and something else on the other.

    Details: how many of each kind (``nan``, ``posinf``, ``neginf``), and the index of the
    ``first``.
    """

    metric = NonFiniteThreshold.metric
    shown = ("nan", "posinf", "neginf", "first")


class NonFiniteCompareFunc(_DetailedCompareFunc):
    """Holds the number of elements that are NaN, +inf or -inf on one side only to a largest value;
    finite elements are not compared.
    """

    result_type = NonFiniteResult
    threshold_type = NonFiniteThreshold

    def __init__(
        self,
        non_finite_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set how many elements may differ (default: none)."""
        super().__init__(non_finite_threshold, check_shapes, fail_fast, find_output_func)

    def measure_in_detail(self, value: Side, reference: Side, setting: str) -> Measured:
        """Return how many elements differ, how many of each kind, and the first."""
        found = compare_non_finite(value.array, reference.array, threads=self.threads)
        return float(found.count), {
            "nan": found.nan,
            "posinf": found.posinf,
            "neginf": found.neginf,
            "first": None if found.first is None else list(found.first),
        }


@frozen
class ErrorDistributionThreshold(MetricThreshold):
    """The largest tolerable 99th percentile of the absolute error, in the output's own unit."""

    metric = METRICS["error_distribution"]


class ErrorDistributionResult(DetailedResult):
    """The 99th percentile of the absolute error.

    Details: ``min``, ``max``, ``mean``, ``std``, ``median``, ``p90`` and ``p95`` of the absolute
    error, how many errors are ``nan``, and their ``histogram`` (``bin_edges`` and ``counts``).
    """

    metric = ErrorDistributionThreshold.metric
    shown = ("min", "max", "mean", "std", "median", "p90", "p95", "nan")


class ErrorDistributionCompareFunc(_DetailedCompareFunc):
    """Describes how the absolute error is distributed, and holds its 99th percentile to a largest
    value.
    """

    result_type = ErrorDistributionResult
    threshold_type = ErrorDistributionThreshold

    def __init__(
        self,
        error_distribution_threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the largest 99th percentile, in the output's own unit (default: 1e-5)."""
        super().__init__(error_distribution_threshold, check_shapes, fail_fast, find_output_func)

    def measure_in_detail(self, value: Side, reference: Side, setting: str) -> Measured:
        """Return the 99th percentile, and the distribution."""
        if Kind.OTHER in (kind_of(value.array.dtype), kind_of(reference.array.dtype)):
            raise TypeError("errors are of numbers")
        difference = Difference(value.array, reference.array, threads=self.threads)
        details = distribution_of(difference)
        p99 = details.pop("p99")
        return (math.nan if details["nan"] else p99), details
