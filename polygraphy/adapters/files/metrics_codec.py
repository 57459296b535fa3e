"""Verdicts about a single metric (L2 norm, PSNR, ...), as accuracy results hold them."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from polygraphy.adapters.files.json_codec import Decoder, Encoder, all_of
from polygraphy.constants import TYPE_MARKER
from polygraphy.domain.compare.result import CompareResult

__all__ = ["MetricThreshold", "SavedMetricResult"]


@frozen
class _Metric:
    """Which comparison function computes a metric, and which types and field hold it in files."""

    function: str
    result_type: str
    field: str
    threshold_type: str
    must_be_small: bool


_METRICS = (
    _Metric("l2", "L2Result", "l2_norm", "L2Threshold", True),
    _Metric(
        "cosine_similarity",
        "CosineSimilarityResult",
        "cosine_similarity",
        "CosineSimilarityThreshold",
        False,
    ),
    _Metric("psnr", "PsnrResult", "psnr", "PsnrThreshold", False),
    _Metric("snr", "SnrResult", "snr", "SnrThreshold", False),
    _Metric("lpips", "PerceptualMetricsResult", "lpips", "LpipsThreshold", True),
)


@frozen
class MetricThreshold:
    """What a metric is held to: the largest value, or where more is better the smallest."""

    kind: str
    threshold: float


class SavedMetricResult(CompareResult):
    """A metric and its threshold, as they were saved; truthy when the metric is good enough.

    NaN never is, nor is a metric that was not computed, or not held to anything.

    Attributes:
        function: name of the comparison function.
        value: the metric; None when it was not computed.
        threshold: what it was held to; None when it was not held to anything.
    """

    def __init__(
        self, metric: _Metric, value: float | None, threshold: MetricThreshold | None
    ) -> None:
        super().__init__()
        self._metric = metric
        self.value = value
        self.threshold = threshold

    @property
    def function(self) -> str:
        """Name of the comparison function."""
        return self._metric.function

    def metric_fields(self) -> tuple[str, ...]:
        """Name the metric."""
        return (self._metric.field,)

    def metric_values(self) -> dict[str, float | None]:
        """Return the metric by its name."""
        return {self._metric.field: self.value}

    def as_fields(self) -> dict[str, Any]:
        """Return what is saved, with the name of the type."""
        fields: dict[str, Any] = {**self.metric_values(), "thresholds": self.threshold}
        return {**fields, TYPE_MARKER: self._metric.result_type}

    def __bool__(self) -> bool:
        if self.value is None or self.threshold is None:
            return False
        allowed = self.threshold.threshold
        return self.value <= allowed if self._metric.must_be_small else self.value >= allowed

    def __repr__(self) -> str:
        metric = f"{self._metric.field}={self.value!r}"
        return f"{self._metric.result_type}({metric}, thresholds={self.threshold!r})"


@Encoder.register(SavedMetricResult)
def _encode_result(result: SavedMetricResult) -> dict[str, Any]:
    return result.as_fields()


@Encoder.register(MetricThreshold)
def _encode_threshold(threshold: MetricThreshold) -> dict[str, Any]:
    return {"threshold": threshold.threshold, TYPE_MARKER: threshold.kind}


def _register_decoders(metric: _Metric) -> None:
    @Decoder.register(metric.result_type)
    def decode_result(fields: dict[str, Any]) -> SavedMetricResult:
        threshold = fields.get("thresholds")
        all_of(MetricThreshold, [] if threshold is None else [threshold])
        return SavedMetricResult(metric, fields[metric.field], threshold)

    @Decoder.register(metric.threshold_type)
    def decode_threshold(fields: dict[str, Any]) -> MetricThreshold:
        return MetricThreshold(metric.threshold_type, fields["threshold"])


for _metric in _METRICS:
    _register_decoders(_metric)
