"""How verdicts are saved: of a comparison, and about a single metric (L2 norm, PSNR, ...)."""

from __future__ import annotations

from typing import Any

from polygraphy.adapters.files.json.json_codec import Decoder, Encoder, all_of, metric_in
from polygraphy.domain import compare
from polygraphy.domain.accuracy.accuracy import AccuracyResult, AccuracyResults
from polygraphy.domain.accuracy.output_rows import AccuracyTable, OutputRow
from polygraphy.domain.accuracy.pairs import FirstFailure, first_failure
from polygraphy.domain.catalog.metrics import METRICS
from polygraphy.domain.compare.differences import OutputCompareResult
from polygraphy.domain.compare.indices import IndicesResult
from polygraphy.domain.compare.metric import DetailedResult, MetricResult, MetricThreshold
from polygraphy.domain.compare.result import CompareResult, UncomparedResult
from polygraphy.domain.limits.tolerance import Tolerance

_AGGREGATIONS = ("per_sample", "average")
"""Every iteration is judged by itself, or the average of all."""


@Encoder.register(Tolerance, marker="SimpleThreshold")
def _encode_tolerance(tolerance: Tolerance) -> dict[str, Any]:
    statistics = tolerance.check_error_stat
    return {
        "check_error_stat": statistics[0] if len(statistics) == 1 else statistics,
        "atol": tolerance.atol,
        "rtol": tolerance.rtol,
    }


@Decoder.register("SimpleThreshold")
def _decode_tolerance(fields: dict[str, Any]) -> Tolerance:
    return Tolerance(
        check_error_stat=fields["check_error_stat"],
        atol=fields["atol"],
        rtol=fields["rtol"],
        reason="saved with the results",
    )


@Encoder.register(OutputCompareResult)
def _encode_output(result: OutputCompareResult) -> dict[str, Any]:
    return dict(result.as_fields())


@Decoder.register(OutputCompareResult)
def _decode_output(fields: dict[str, Any]) -> OutputCompareResult:
    metrics = {name: metric_in(fields, name) for name in OutputCompareResult().metric_fields()}
    (thresholds,) = all_of(Tolerance, [fields["thresholds"]])
    passed = fields["passed"]
    if not isinstance(passed, (bool, type(None))):
        raise TypeError(f"'passed' is {passed!r}, not a truth value")
    return OutputCompareResult(**metrics, thresholds=thresholds, passed=passed)


@Encoder.register(UncomparedResult)
def _encode_uncompared(result: UncomparedResult) -> bool:
    return False


@Encoder.register(AccuracyResult)
def _encode_result(result: AccuracyResult) -> dict[str, Any]:
    entries = [(pair, list(iterations)) for pair, iterations in result.read()]
    fields: dict[str, Any] = {"lst": entries, "aggregation": result.aggregation}
    outputs = [table.rows() for table in AccuracyTable.of(result)]
    # Of verdicts that were loaded no more is known than their file says, and it stays as it was.
    if any(output.dtypes for of_pair in outputs for output in of_pair):
        fields["summary"] = [
            _summary(pair, first_failure(result.judged(position)), of_pair, result)
            for position, ((pair, _), of_pair) in enumerate(zip(entries, outputs))
        ]
    return fields


def _summary(
    pair: tuple[str, str],
    failed: FirstFailure | None,
    outputs: list[OutputRow],
    result: AccuracyResult,
) -> dict[str, Any]:
    """Return in plain values, for other readers, how each output fared in the order of the model,
    and which one is the first that failed; in no iteration where averages are judged.
    """
    return {
        "runners": list(pair),
        "first_failure": failed
        and {
            "iteration": None if result.is_average else failed.iteration,
            "output": failed.output,
        },
        "outputs": [
            {
                "name": output.name,
                "dtypes": list(output.dtypes),
                "shapes": [list(shape) for shape in output.shapes],
                "max_absdiff": output.absolute,
                "max_reldiff": output.relative,
                "passed": output.passed,
            }
            for output in outputs
        ],
    }


@Decoder.register(AccuracyResult)
def _decode_result(fields: dict[str, Any]) -> AccuracyResult:
    aggregation = fields.get("aggregation", _AGGREGATIONS[0])
    if aggregation not in _AGGREGATIONS:
        raise ValueError(
            f"its verdicts are by {aggregation!r}, not by {' or '.join(_AGGREGATIONS)}"
        )
    result = AccuracyResult(
        ((str(first), str(second)), all_of(dict, iterations))
        for (first, second), iterations in fields["lst"]
    )
    for _, _, name, answer in result.outputs():  # All are of one function. Files do not name it.
        if not isinstance(answer, (CompareResult, bool, type(None))):
            raise TypeError(f"it holds no verdict about {name!r}, but a {type(answer).__name__}")
        if isinstance(answer, MetricResult):
            result.label = answer.metric.function
    result.aggregation = aggregation
    return result


@Encoder.register(AccuracyResults)
def _encode_results(results: AccuracyResults) -> dict[str, Any]:
    return {"lst": list(results)}


@Decoder.register(AccuracyResults)
def _decode_results(fields: dict[str, Any]) -> AccuracyResults:
    return AccuracyResults(all_of(AccuracyResult, fields["lst"]))


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
