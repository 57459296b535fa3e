"""Metrics that come with further facts about the difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import frozen

from polygraphy.domain.compare.metric import Metric, MetricResult, MetricThreshold


class DetailedResult(MetricResult):
    """A metric that is held to a threshold, and facts that are only told and saved.

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
        """Return what is saved."""
        return {**self.metric_values(), **self.details, "thresholds": self.thresholds}


@frozen
class UlpThreshold(MetricThreshold):
    """The largest tolerable distance, in units in the last place."""

    metric = Metric("ulp", "max_ulp", "Largest ULP Distance", "error")


class UlpResult(DetailedResult):
    """The largest distance in units in the last place of the data type in which the output was
    computed.

    Details: ``p99_ulp``, ``mean_ulp``, and the data type as ``computed_in``.
    """

    metric = UlpThreshold.metric
    shown = ("p99_ulp", "mean_ulp", "computed_in")


@frozen
class TopKThreshold(MetricThreshold):
    """The smallest tolerable share of lists that agree, from 0 to 1."""

    metric = Metric("top_k", "top_k_agreement", "Top-K Agreement", "likeness")


class TopKResult(DetailedResult):
    """The share of lists of scores whose highest entries are the same, or as good.

    Details: ``k``, the ``margin`` that was allowed, the ``needed_margin`` with which all would
    agree, ``lists``, and ``first_disagreement``, the position of a list.
    """

    metric = TopKThreshold.metric
    shown = ("k", "margin", "needed_margin", "lists", "first_disagreement")


@frozen
class BiasThreshold(MetricThreshold):
    """The largest tolerable bias in either direction."""

    metric = Metric("bias", "bias", "Bias", "signed")


class BiasResult(DetailedResult):
    """The mean signed error by the root of the mean square of the second run's output.

    Details: ``mean_signed_error`` in the output's own unit.
    """

    metric = BiasThreshold.metric
    shown = ("mean_signed_error",)


@frozen
class NonFiniteThreshold(MetricThreshold):
    """How many elements may be NaN or infinite on one side only."""

    metric = Metric("non_finite", "non_finite_mismatches", "Non-Finite Mismatches", "error")


class NonFiniteResult(DetailedResult):
    """How many elements are NaN, +inf or -inf on one side and something else on the other.

    Details: how many of each kind (``nan``, ``posinf``, ``neginf``), and the index of the
    ``first``.
    """

    metric = NonFiniteThreshold.metric
    shown = ("nan", "posinf", "neginf", "first")


@frozen
class ErrorDistributionThreshold(MetricThreshold):
    """The largest tolerable 99th percentile of the absolute error, in the output's own unit."""

    metric = Metric("error_distribution", "p99", "99th Percentile of the Error", "error")


class ErrorDistributionResult(DetailedResult):
    """The 99th percentile of the absolute error.

    Details: ``min``, ``max``, ``mean``, ``std``, ``median``, ``p90`` and ``p95`` of the absolute
    error, how many errors are ``nan``, and their ``histogram`` (``bin_edges`` and ``counts``).
    """

    metric = ErrorDistributionThreshold.metric
    shown = ("min", "max", "mean", "std", "median", "p90", "p95", "nan")
