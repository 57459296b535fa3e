"""Computation of the metrics: each function measures two arrays of one shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from polygraphy.binding import UnboundPortError, resolve
from polygraphy.domain.arithmetic import Difference, similarity
from polygraphy.domain.arithmetic.passes.blocks import Kind, kind_of
from polygraphy.domain.arithmetic.similarity import (
    compare_non_finite,
    compare_top_k,
    mean_signed_error,
    ulp_distances,
)
from polygraphy.domain.arithmetic.summary import root_mean_square
from polygraphy.domain.compare.distribution import distribution_of
from polygraphy.domain.compare.metric import Measured, MetricCompareFunc
from polygraphy.domain.compare.pairwise import Side
from polygraphy.domain.compare.result import CompareResult, UncomparedResult
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.domain.rounding import coarsest_between
from polygraphy.domain.tensors.naming import PerOutput, copy_setting, value_for
from polygraphy.domain.tensors.pairing import FindOutput
from polygraphy.domain.tensors.precision import is_exact

if TYPE_CHECKING:
    import numpy as np

Method = Callable[[MetricCompareFunc, Side, Side, str], Measured]


class PerceptualDistance(Protocol):
    """Measures how different two images look."""

    def prepare(self) -> None:
        """Raise an error if the metric cannot be computed, such as a missing package.

        Raises:
            BackendError: a package, or a trained network, is missing.
        """

    def between(self, image0: np.ndarray[Any, Any], image1: np.ndarray[Any, Any]) -> float:
        """Return the distance of two image arrays of equal shape; 0 if they are equal.

        It is NaN if one of them contains NaN or infinity.

        Raises:
            TypeError: the arrays are not numeric.
            UsageError: the arrays are not images.
        """


def _from_dot(metric: Callable[[similarity.DotMetrics], float]) -> Method:
    """Return a method that computes a metric from norms and angles, all computed in a single
    pass."""

    def measure(self: MetricCompareFunc, value: Side, reference: Side, _setting: str) -> float:
        """Return the metric; TypeError unless the arrays are numeric."""
        dot_metrics = similarity.dot_metrics(value.array, reference.array, threads=self.threads)
        return metric(dot_metrics)

    return measure


class _Perceptual(MetricCompareFunc):
    """Compares images by LPIPS."""

    def __init__(
        self,
        threshold: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the largest tolerable perceptual distance (default: 0.1).

        Raises:
            BackendError: LPIPS is not available.
        """
        super().__init__(threshold, check_shapes, fail_fast, find_output_func)
        try:
            self._distance = resolve(PerceptualDistance)
            self._distance.prepare()
        except UnboundPortError:
            raise BackendError(
                "The comparison function perceptual_metrics is not available: it requires"
                " LPIPS, which is not installed.",
                backend="lpips",
                hint="Choose a different one, such as psnr or cosine_similarity.",
            ) from None

    def measure(self, value: Side, reference: Side, _setting: str) -> float:
        """Return the perceptual distance of two outputs."""
        return self._distance.between(value.array, reference.array)


def _ulp_distances(
    function: MetricCompareFunc, value: Side, reference: Side, _setting: str
) -> Measured:
    """Return the largest distance in ULPs, its 99th percentile, its mean, and the data type."""
    arrays = value.array, reference.array
    precision = coarsest_between(arrays, (value.compute_dtype, reference.compute_dtype))
    if all(is_exact(array.dtype.name) for array in arrays):
        precision = None
    elif precision is None:
        raise TypeError(f"{reference.array.dtype} has no units in the last place")
    summary = ulp_distances(*arrays, precision, threads=function.threads)
    details = {
        "p99_ulp": summary.quantiles[0.99] if summary.size else 0.0,
        "mean_ulp": summary.mean if summary.size else 0.0,
        "computed_in": reference.array.dtype.name if precision is None else precision.name,
    }
    if summary.nan:
        return math.nan, details
    return (float(summary.max) if summary.size else 0.0), details


class _TopK(MetricCompareFunc):
    """Compares the highest entries of lists of scores."""

    def __init__(
        self,
        agreement_threshold: PerOutput[float] | None = None,
        k: PerOutput[int] | None = None,
        margin: PerOutput[float] | None = None,
        check_shapes: bool | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set the required agreement; each setting may be one value, or one per output.

        Args:
            agreement_threshold: the smallest share of lists that agree, from 0 to 1
                (default: 1).
            k: the number of highest entries to compare (default: 1).
            margin: the largest distance of a score below the k-th highest score of the second run,
                in the output's own unit (default: 0: only ties may be in a different order).
            check_shapes: whether outputs of different shapes fail (the default).
            fail_fast: whether to stop at the first output that fails.
            find_output_func: finds the partner of an output.

        Raises:
            UsageError: a value is out of its range.
        """
        self.k = copy_setting(k)
        self.margin = copy_setting(margin)
        super().__init__(agreement_threshold, check_shapes, fail_fast, find_output_func)
        for name in self.named_outputs() | {""}:
            self._k_for(name)
            self._margin_for(name)

    def per_output_settings(self) -> tuple[Any, ...]:
        """Return the threshold, k and the margin."""
        return self.threshold, self.k, self.margin

    def _k_for(self, name: str) -> int:
        """Return the number of top entries for an output.
        Raise UsageError if it is not a whole number.
        """
        k = value_for(self.k, name, 1)
        if isinstance(k, bool) or int(k) != k or k < 1:
            raise UsageError(
                f"The number of top entries must be a whole number of at least 1, not {k!r}."
            )
        return int(k)

    def _margin_for(self, name: str) -> float:
        """Return the margin for an output; raise UsageError if it is negative."""
        margin = float(value_for(self.margin, name, 0.0))
        if not margin >= 0:
            raise UsageError(f"A margin must be a number of at least 0, not {margin!r}.")
        return margin

    def result_of(self, value: Side, reference: Side, setting: str) -> CompareResult:
        """Return the comparison of the top k of two lists.
        Lists of at most k entries fail, because they always agree.
        """
        k, shape = self._k_for(setting), value.array.shape or (1,)
        if shape[-1] <= k:
            return UncomparedResult(
                f"Lists of {shape[-1]} entries have no entries beyond the top {k}, so nothing"
                " would be compared."
            )
        return super().result_of(value, reference, setting)

    def measure(self, value: Side, reference: Side, setting: str) -> Measured:
        """Return the share of lists that agree, and the margin that would make all agree."""
        k, margin = self._k_for(setting), self._margin_for(setting)
        ranking = compare_top_k(value.array, reference.array, k, margin)
        return ranking.agreement, {
            "k": k,
            "margin": margin,
            "needed_margin": ranking.margin,
            "lists": ranking.lists,
            "first_disagreement": None if ranking.first is None else list(ranking.first),
        }


def _bias(function: MetricCompareFunc, value: Side, reference: Side, _setting: str) -> Measured:
    """Return the bias, and the mean signed error in the output's own unit."""
    mean = mean_signed_error(value.array, reference.array, threads=function.threads)
    details = {"mean_signed_error": mean}
    if mean == 0 or math.isnan(mean):
        return mean, details
    magnitude = root_mean_square(reference.array, threads=function.threads)
    return (mean / magnitude if magnitude else math.copysign(math.inf, mean)), details


def _non_finite(
    function: MetricCompareFunc, value: Side, reference: Side, _setting: str
) -> Measured:
    """Return the number of non-finite elements that differ, by kind, and the first position."""
    non_finite = compare_non_finite(value.array, reference.array, threads=function.threads)
    return float(non_finite.count), {
        "nan": non_finite.nan,
        "posinf": non_finite.posinf,
        "neginf": non_finite.neginf,
        "first": None if non_finite.first is None else list(non_finite.first),
    }


def _distribution(
    function: MetricCompareFunc, value: Side, reference: Side, _setting: str
) -> Measured:
    """Return the 99th percentile, and the distribution."""
    if Kind.OTHER in (kind_of(value.array.dtype), kind_of(reference.array.dtype)):
        raise TypeError("errors require numbers")
    difference = Difference(value.array, reference.array, threads=function.threads)
    details = distribution_of(difference)
    p99 = details.pop("p99")
    return (math.nan if details["nan"] else p99), details


MEASURES: dict[str, Method | type[MetricCompareFunc]] = {
    "l2": _from_dot(similarity.l2_norm),
    "normalized_l2": _from_dot(similarity.normalized_l2),
    "cosine_similarity": _from_dot(similarity.cosine_similarity),
    "psnr": _from_dot(similarity.psnr),
    "snr": _from_dot(similarity.snr),
    "sqnr": _from_dot(similarity.sqnr),
    "perceptual_metrics": _Perceptual,
    "ulp": _ulp_distances,
    "top_k": _TopK,
    "bias": _bias,
    "non_finite": _non_finite,
    "error_distribution": _distribution,
}
"""Measures by function name."""
