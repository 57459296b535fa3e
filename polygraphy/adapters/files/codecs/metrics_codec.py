"""How verdicts about a single metric (L2 norm, PSNR, ...) are saved."""

from __future__ import annotations

from typing import Any

from polygraphy.adapters.files.json.json_codec import Decoder, Encoder, all_of, metric_in
from polygraphy.domain import compare
from polygraphy.domain.catalog.metrics import METRICS
from polygraphy.domain.compare.detailed import DetailedResult
from polygraphy.domain.compare.indices import IndicesResult
from polygraphy.domain.compare.metric import MetricResult, MetricThreshold


def _register(result_type: type[MetricResult], threshold_type: type[MetricThreshold]) -> None:
    @Encoder.register(result_type)
    def encode_result(result: MetricResult) -> dict[str, Any]:
        return result.as_fields()

    @Decoder.register(result_type)
    def decode_result(fields: dict[str, Any]) -> MetricResult:
        threshold = fields.get("thresholds")
        all_of(MetricThreshold, [] if threshold is None else [threshold])
        if result_type.metric.field not in fields:
            raise KeyError(result_type.metric.field)
        result = result_type(metric_in(fields, result_type.metric.field), threshold)
        if isinstance(result, DetailedResult):
            known = (result_type.metric.field, "thresholds")
            result.details = {name: fact for name, fact in fields.items() if name not in known}
        return result

    @Encoder.register(threshold_type)
    def encode_threshold(threshold: MetricThreshold) -> dict[str, Any]:
        return {"threshold": threshold.threshold}

    @Decoder.register(threshold_type)
    def decode_threshold(fields: dict[str, Any]) -> MetricThreshold:
        return threshold_type(fields["threshold"], reason="saved with the results")


for _metric in METRICS.values():
    _register(getattr(compare, _metric.result_name), getattr(compare, _metric.threshold_name))


@Encoder.register(IndicesResult)
def _encode_indices(result: IndicesResult) -> bool:
    return bool(result)
