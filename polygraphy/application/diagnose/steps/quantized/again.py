"""The model quantized again by its quantizer, with the line that a diagnosis prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from polygraphy.application.diagnose.case import Case
from polygraphy.binding import function_for
from polygraphy.domain.diagnosis.foreign_errors import foreign_errors, original_error
from polygraphy.domain.diagnosis.words import quantization as words
from polygraphy.domain.diagnosis.words import titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.quantization.lines import TOOLS
from polygraphy.domain.quantization.requantization import Requantization
from polygraphy.ports.diagnosing import open_quantized, quantize_again

_AS_BEFORE = 0.03
"""A model counts as quantized alike if the metric differs by less than this share."""


@frozen
class RepeatedQuantization:
    """A model that its quantizer quantized again.

    Attributes:
        value: its metric; None if there is none.
        reason: the reason why there is none; may be empty.
        added: number of activations that are only quantized without the excluded nodes: their
            ranges are not those of the model, but of the data of the diagnosis.
    """

    value: float | None
    reason: str = ""
    added: int = 0


def measure_again(
    case: Case, request: Requantization, measure: Callable[[Any], float], before: float
) -> RepeatedQuantization:
    """Return the metric of the model that the quantizer creates with some nodes in floating point,
    or why there is none: it is not installed, or does not reproduce the model.

    Args:
        case: the quantized model.
        request: the model to quantize again: with all nodes, and then without some.
        measure: returns the metric of a model in the backend.
        before: the metric of the quantized model.
    """
    package = TOOLS[request.producer].package
    if not package:
        return RepeatedQuantization(None)
    with case.record_step(titles.QUANTIZED_AGAIN) as notes:
        again = _quantize_and_measure(package, request, measure, before)
        notes.append(words.metric_after_quantizing_again(again.value, again.reason))
    return again


def _quantize_and_measure(
    package: str, request: Requantization, measure: Callable[[Any], float], before: float
) -> RepeatedQuantization:
    """Return the metric, or the reason why there is none."""
    try:
        # The model comes from another release, or from options that it does not show.
        with foreign_errors():
            models = function_for(quantize_again, package)(request)
            if models is None:
                return RepeatedQuantization(None, words.quantizer_missing(package))
            same, new_model = models if len(models) == 2 else (None, None)
            if same is None:
                return RepeatedQuantization(None, words.not_reproduced(package))
            value = measure(same)
            if abs(value - before) > _AS_BEFORE * before:
                reason = words.reason_of_other_metric(package, value, before)
                return RepeatedQuantization(None, reason)
            value = measure(new_model)
            added = _quantized_tensors(new_model) - _quantized_tensors(same)
            return RepeatedQuantization(value, added=len(added))
    except PolygraphyException as error:
        return RepeatedQuantization(None, words.quantizer_fails(package, original_error(error)))


def _quantized_tensors(model: Any) -> set[str]:
    """Return the names of the activations that a model quantizes, as they are in floating point."""
    sites = open_quantized(model, []).sites
    return {site.name for site in sites if site.kind == "activation"}
