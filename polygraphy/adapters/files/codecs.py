"""Conversion of saved objects to and from JSON: arrays, runs, verdicts, tactics.

How arrays are saved: as the base64 text of an ``.npy`` file.

NumPy's own data types are part of that format. Those of `ml_dtypes` (bfloat16, float8, int4, ...)
are not: their bytes are saved as unsigned integers, and their name in an additional field,
``dtype``, which other readers ignore. NumPy's strings lose NULs at the end: the field
``trailing_nuls`` records them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from attrs import fields_dict, frozen

from polygraphy.adapters.files.formats.lazy import StoredArrays, StoredIteration, is_unread
from polygraphy.adapters.files.formats.npy import (
    SHORT,
    array_from_bytes,
    array_from_npy,
    npy_pieces,
    trailing_nuls,
    with_narrow_type,
    with_trailing_nuls,
)
from polygraphy.adapters.files.formats.torch_codec import is_tensor
from polygraphy.adapters.files.json.json_codec import (
    ContentError,
    Decoder,
    Encoder,
    check_kinds,
    metric_in,
)
from polygraphy.adapters.files.json.json_writer import Base64Text, SlicedText, decode_pieces
from polygraphy.domain import compare
from polygraphy.domain.accuracy.accuracy import (
    AccuracyResult,
    AccuracyResults,
    FirstFailure,
    first_failure,
)
from polygraphy.domain.accuracy.output_rows import AccuracyTable, OutputRow
from polygraphy.domain.catalog.metrics import METRICS
from polygraphy.domain.compare.indices import IndicesResult
from polygraphy.domain.compare.metric import DetailedResult, MetricResult, MetricThreshold
from polygraphy.domain.compare.result import CompareResult, OutputCompareResult, UncomparedResult
from polygraphy.domain.limits import Tolerance
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.tactics import Algorithm, TacticReplay, TensorInfo
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.facts import ModelFacts
from polygraphy.domain.tensors.formatted import FormattedArray
from polygraphy.domain.tensors.maps import common_keys, numbers_of_maps
from polygraphy.domain.tensors.naming import with_article
from polygraphy.domain.tensors.parts import Layout

_AGGREGATIONS = ("per_sample", "average")
"""Whether each iteration is judged, or the average of all iterations."""


@Encoder.register(Tolerance, marker="SimpleThreshold")
def _encode_tolerance(tolerance: Tolerance) -> dict[str, Any]:
    """Return the JSON fields of a tolerance."""
    statistics = tolerance.check_error_stat
    return {
        "check_error_stat": statistics[0] if len(statistics) == 1 else statistics,
        "atol": tolerance.atol,
        "rtol": tolerance.rtol,
    }


@Decoder.register("SimpleThreshold")
def _decode_tolerance(fields: dict[str, Any]) -> Tolerance:
    """Return the tolerance of JSON fields."""
    return Tolerance(
        check_error_stat=fields["check_error_stat"],
        atol=fields["atol"],
        rtol=fields["rtol"],
        reason="saved with the results",
    )


@Encoder.register(OutputCompareResult)
def _encode_output(result: OutputCompareResult) -> dict[str, Any]:
    """Return the JSON fields of the comparison of an output."""
    return dict(result.as_fields())


@Decoder.register(OutputCompareResult)
def _decode_output(fields: dict[str, Any]) -> OutputCompareResult:
    """Return the comparison of an output from JSON fields."""
    metrics = {name: metric_in(fields, name) for name in OutputCompareResult().metric_fields()}
    (thresholds,) = check_kinds(Tolerance, [fields["thresholds"]])
    passed = fields["passed"]
    if not isinstance(passed, (bool, type(None))):
        raise TypeError(f"'passed' is {passed!r}, not true or false")
    return OutputCompareResult(**metrics, thresholds=thresholds, passed=passed)


@Encoder.register(UncomparedResult)
def _encode_uncompared(result: UncomparedResult) -> bool:
    """Return False, which stands for an output that was not compared."""
    return False


@Encoder.register(AccuracyResult)
def _encode_result(result: AccuracyResult) -> dict[str, Any]:
    """Return the JSON fields of the comparisons of two or more runners."""
    entries = [(pair, list(iterations)) for pair, iterations in result.read()]
    fields: dict[str, Any] = {"lst": entries, "aggregation": result.aggregation}
    outputs = [table.rows() for table in AccuracyTable.of(result)]
    # The contents of loaded verdicts are saved unchanged.
    if any(output.dtypes for of_pair in outputs for output in of_pair):
        fields["summary"] = [
            _summary(pair, first_failure(result.deciding_results(position)), of_pair, result)
            for position, ((pair, _), of_pair) in enumerate(zip(entries, outputs))
        ]
    return fields


def _summary(
    pair: tuple[str, str],
    failed: FirstFailure | None,
    outputs: list[OutputRow],
    result: AccuracyResult,
) -> dict[str, Any]:
    """Return, for other readers, the result of each output and the first failure."""
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
    """Return the comparisons of runners from JSON fields."""
    aggregation = fields.get("aggregation", _AGGREGATIONS[0])
    if aggregation not in _AGGREGATIONS:
        raise ValueError(
            f"its verdicts are aggregated by {aggregation!r}, not by {' or '.join(_AGGREGATIONS)}"
        )
    result = AccuracyResult(
        ((str(first), str(second)), check_kinds(dict, iterations))
        for (first, second), iterations in fields["lst"]
    )
    # Files do not name the comparison function, so all results must be of one kind.
    for _, _, name, answer in result.outputs():
        if not isinstance(answer, (CompareResult, bool, type(None))):
            raise TypeError(
                f"it contains {with_article(type(answer).__name__)} instead of a verdict for"
                f" {name!r}"
            )
        if isinstance(answer, MetricResult):
            result.label = answer.metric.function
    result.aggregation = aggregation
    return result


@Encoder.register(AccuracyResults)
def _encode_results(results: AccuracyResults) -> dict[str, Any]:
    """Return the JSON fields of a list of accuracy results."""
    return {"lst": list(results)}


@Decoder.register(AccuracyResults)
def _decode_results(fields: dict[str, Any]) -> AccuracyResults:
    """Return the list of accuracy results from JSON fields."""
    return AccuracyResults(check_kinds(AccuracyResult, fields["lst"]))


def _register_metric(
    result_type: type[MetricResult], threshold_type: type[MetricThreshold]
) -> None:
    """Register the encoders and decoders of a metric."""

    @Encoder.register(result_type)
    def encode_result(result: MetricResult) -> dict[str, Any]:
        """Return the JSON fields of a result of the metric."""
        return result.as_fields()

    @Decoder.register(result_type)
    def decode_result(fields: dict[str, Any]) -> MetricResult:
        """Return the result of the metric from JSON fields."""
        threshold = fields.get("thresholds")
        check_kinds(MetricThreshold, [] if threshold is None else [threshold])
        if result_type.metric.field not in fields:
            raise KeyError(result_type.metric.field)
        result = result_type(metric_in(fields, result_type.metric.field), threshold)
        if isinstance(result, DetailedResult):
            known_names = (result_type.metric.field, "thresholds")
            result.details = {
                name: fact for name, fact in fields.items() if name not in known_names
            }
        return result

    @Encoder.register(threshold_type)
    def encode_threshold(threshold: MetricThreshold) -> dict[str, Any]:
        """Return the JSON fields of a threshold of the metric."""
        return {"threshold": threshold.threshold}

    @Decoder.register(threshold_type)
    def decode_threshold(fields: dict[str, Any]) -> MetricThreshold:
        """Return the threshold of the metric from JSON fields."""
        return threshold_type(fields["threshold"], reason="saved with the results")


for _metric in METRICS.values():
    _register_metric(
        getattr(compare, _metric.result_name), getattr(compare, _metric.threshold_name)
    )


@Encoder.register(IndicesResult)
def _encode_indices(result: IndicesResult) -> bool:
    """Return whether the indices match, which is all that is saved."""
    return bool(result)


__all__ = ["FormattedArray", "LazyArray"]


_ARCHIVE_START = "UEsDB"
"""Base64 of what an .npz archive starts with."""

_UNENCODED_STARTS = ("\x93NUMPY", "PK\x03\x04")
"""Old versions put the bytes themselves into the text, each as the character of the same number."""


@frozen(eq=False)
class LazyArray:
    """A saved output of an iteration; its `values`, an array or tensor, are read on access."""

    values: Any


@frozen(eq=False)
class FloatMaps:
    """A saved output that is a sequence of maps with the same keys.

    Attributes:
        keys: the keys, integers or strings.
        numbers: an array [maps, keys].
    """

    keys: list[Any]
    numbers: Array


@Encoder.register(FloatMaps)
def _encode_maps(maps: FloatMaps) -> dict[str, Any]:
    """Return the JSON fields of a sequence of maps."""
    return {"keys": maps.keys, "numbers": maps.numbers}


@Decoder.register(FloatMaps)
def _decode_maps(fields: dict[str, Any]) -> list[dict[Any, float]]:
    """Return the sequence of maps from JSON fields."""
    keys, rows = list(fields["keys"]), np.asarray(fields["numbers"]).tolist()
    return [dict(zip(keys, row, strict=True)) for row in rows]


@Encoder.register(np.ndarray)
def _encode_array(array: Array) -> dict[str, Any]:
    """Return the JSON fields of an array, with its bytes in base64."""
    if _is_in_npy_format(array.dtype):
        fields: dict[str, Any] = {"array": Base64Text(npy_pieces(array))}
        nuls = trailing_nuls(array)
        return {**fields, "trailing_nuls": nuls} if nuls else fields
    if _narrow_dtype(array.dtype.name) is None:
        raise ContentError(f"an array of type {array.dtype} cannot be saved")
    raw = np.asarray(array).view(f"u{array.dtype.itemsize}")
    return {"array": Base64Text(npy_pieces(raw)), "dtype": array.dtype.name}


@Decoder.register("ndarray", takes_deferred_text=True)
def _decode_array(fields: dict[str, Any]) -> Array:
    """Return the array of JSON fields."""
    array = with_trailing_nuls(_decode_payload(fields["array"]), fields.get("trailing_nuls"))
    if "dtype" not in fields:
        return with_narrow_type(array)
    dtype = _narrow_dtype(fields["dtype"])
    if dtype is None:
        raise ContentError(f"the array type {fields['dtype']!r} is unknown")
    return array.view(dtype)


@cache
def _is_in_npy_format(dtype: np.dtype[Any]) -> bool:
    """Return whether the ``.npy`` format has a data type."""
    if dtype.hasobject:
        return True  # A later step rejects invalid types.
    try:
        return bool(np.lib.format.descr_to_dtype(np.lib.format.dtype_to_descr(dtype)) == dtype)
    except TypeError:  # float8_e5m2 calls itself "<f1", which NumPy does not know.
        return False


def _narrow_dtype(name: str) -> np.dtype[Any] | None:
    """Return the data type of `ml_dtypes` with a name; None if there is none."""
    scalar = getattr(ml_dtypes, name, None)
    is_type = isinstance(scalar, type) and issubclass(scalar, np.generic)
    return np.dtype(scalar) if is_type else None


def _decode_payload(text: SlicedText) -> Array:
    """Return the array of a text: base64 of an .npy file, in one of the forms that files
    contain."""
    if len(text) <= SHORT:  # Reading a file takes longer than decoding it.
        text = text[:]
    start = text[:8]
    start = start if isinstance(start, str) else start.decode("latin-1")
    if start.startswith(_UNENCODED_STARTS):
        return array_from_bytes(str(text).encode("latin-1"))
    if start.startswith(_ARCHIVE_START):
        return array_from_bytes(b"".join(decode_pieces(text)))
    return array_from_npy(text)


@Encoder.register(np.generic)
def _encode_scalar(scalar: np.generic) -> Any:
    """Return a scalar as a number, or as an array without dimensions if JSON has no such number."""
    is_number = isinstance(scalar, (np.bool_, np.integer, np.floating)) and scalar.itemsize <= 8
    return scalar.item() if is_number or isinstance(scalar, np.str_) else np.asarray(scalar)


@Encoder.register(LazyArray)
def _encode_lazy(lazy: LazyArray) -> dict[str, Any]:
    """Return the JSON fields of a lazy array."""
    return {"values": lazy.values}


@Decoder.register(LazyArray, alias="LazyNumpyArray")
def _decode_lazy(fields: dict[str, Any]) -> Any:
    """Return the values of a lazy array from JSON fields."""
    return fields["values"]


@Encoder.register(FormattedArray)
def _encode_formatted(formatted: FormattedArray) -> dict[str, Any]:
    """Return the JSON fields of an array in a TensorRT format."""
    return {"array": formatted.array, "shape": formatted.shape}


@Decoder.register(FormattedArray)
def _decode_formatted(fields: dict[str, Any]) -> FormattedArray:
    """Return the array in a TensorRT format from JSON fields."""
    return FormattedArray(fields["array"], tuple(fields["shape"]))


@Encoder.register(IterationResult)
def _encode_iteration(iteration: IterationResult) -> dict[str, Any]:
    """Return the JSON fields of the outputs of an iteration."""
    facts = iteration.facts
    known_values = {
        "compute_dtypes": dict(facts.compute_dtypes),
        "bounded": sorted(getattr(facts, "bounded", ())),  # A user's runner can have other facts.
        "ordered": sorted(getattr(facts, "ordered", ())),
        "layouts": {
            name: (Layout(is_pure=layout.is_pure) if layout.is_plain else layout).as_fields()
            for name, layout in getattr(facts, "layouts", {}).items()
        },
        "marked_outputs": {
            name: LazyArray(output) for name, output in iteration.marked_outputs.items()
        },
    }
    return {
        "outputs": {name: LazyArray(_as_array(output)) for name, output in iteration.items()},
        "runtime": iteration.runtime,
        "runner_name": iteration.runner_name,
        **{name: value for name, value in known_values.items() if value},
    }


def _as_array(output: Any) -> Any:
    """Return an output as an array, tensor or `FloatMaps`.
    Raise ContentError if it is a sequence of different shapes.
    """
    if is_tensor(output):
        return output
    if keys := common_keys(output):
        return FloatMaps(keys, numbers_of_maps(output, keys))
    try:
        return np.asarray(output)
    except ValueError as error:
        raise ContentError(
            "an output is a sequence of tensors of different shapes, not a tensor",
            hint="Sequences cannot be saved. Remove it from the outputs of the model.",
        ) from error


@Decoder.register(IterationResult)
def _decode_iteration(fields: dict[str, Any]) -> IterationResult:
    """Return the outputs of an iteration from JSON fields."""
    dtypes = fields.get("compute_dtypes") or {}
    facts = ModelFacts(
        {str(name): str(dtype) for name, dtype in dict(dtypes).items()},
        bounded=_names(fields, "bounded"),
        ordered=_names(fields, "ordered"),
        layouts=_layouts(fields.get("layouts")),
    )
    outputs = fields["outputs"]
    kind = StoredIteration if is_unread(outputs) else IterationResult
    iteration = kind(outputs, fields["runtime"], fields["runner_name"], facts=facts)
    if isinstance(marked := fields.get("marked_outputs"), dict):
        iteration.marked_outputs = StoredArrays(marked) if is_unread(marked) else marked
    return iteration


def _layouts(saved: Any) -> dict[str, Layout]:
    """Return the saved layouts of outputs."""
    try:
        return {str(name): Layout.from_fields(layout) for name, layout in dict(saved or {}).items()}
    except (ValueError, TypeError):
        return {}


def _names(fields: dict[str, Any], key: str) -> frozenset[str]:
    """Return the set of names in a field; empty if it is missing."""
    return frozenset(str(name) for name in fields.get(key) or ())


@Encoder.register(RunResults)
def _encode_runs(results: RunResults) -> dict[str, Any]:
    """Return the JSON fields of the results of several runners."""
    # Users can put other values into the lists of the results, so check them.
    return {"lst": list(RunResults(results))}


@Decoder.register(RunResults)
def _decode_runs(fields: dict[str, Any]) -> RunResults:
    """Return the results of several runners from JSON fields."""
    return RunResults((name, check_kinds(IterationResult, its)) for name, its in fields["lst"])


@Encoder.register(TensorInfo)
@Encoder.register(Algorithm)
def _encode_attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object as JSON fields."""
    return {name: getattr(value, name) for name in fields_dict(type(value))}


@Decoder.register(TensorInfo)
def _decode_tensor_info(fields: dict[str, Any]) -> TensorInfo:
    """Return the tensor info from JSON fields; unknown fields are ignored."""
    info = TensorInfo(**_select_known_fields(TensorInfo, fields))
    check_kinds(int, info.strides)
    known_numbers = (info.vectorized_dim, info.components_per_element)
    check_kinds(int, (number for number in known_numbers if number is not None))
    return info


@Decoder.register(Algorithm)
def _decode_algorithm(fields: dict[str, Any]) -> Algorithm:
    """Return the algorithm from JSON fields; unknown fields are ignored."""
    algorithm = Algorithm(**_select_known_fields(Algorithm, fields))
    check_kinds(int, (algorithm.implementation, algorithm.tactic))
    check_kinds(TensorInfo, (*algorithm.inputs, *algorithm.outputs))
    return algorithm


@Encoder.register(TacticReplay, marker="TacticReplayData")
def _encode_replay(replay: TacticReplay) -> dict[str, Any]:
    """Return the JSON fields of a tactic replay."""
    return {"replay": dict(replay)}


@Decoder.register("TacticReplayData", alias="TacticReplay")
def _decode_replay(fields: dict[str, Any]) -> TacticReplay:
    """Return the tactic replay from JSON fields."""
    replay = TacticReplay(fields["replay"])
    check_kinds(Algorithm, replay.values())
    return replay


def _select_known_fields(kind: type, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that this version knows; another version may have saved more."""
    return {name: fields[name] for name in fields_dict(kind)}
