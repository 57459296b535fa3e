"""The model quantized again by its quantizer, with the line that a diagnosis prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polygraphy.application.diagnose.case import Case
from polygraphy.binding import function_for
from polygraphy.domain.diagnosis.foreign_errors import foreign_errors, original_error
from polygraphy.domain.diagnosis.words import quantization as words
from polygraphy.domain.diagnosis.words import titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.quantization.lines import TOOLS
from polygraphy.domain.quantization.requantization import Requantization
from polygraphy.ports.diagnosing import quantize_again

_AS_BEFORE = 0.03
"""A model counts as quantized alike if the metric differs by less than this share."""


def measure_again(
    case: Case, request: Requantization, measure: Callable[[Any], float], before: float
) -> tuple[float | None, str]:
    """Return the metric of the model that the quantizer creates with some nodes in floating point;
    else None and the reason: it is not installed, or does not reproduce the model.

    Args:
        case: the quantized model.
        request: the model to quantize again: with all nodes, and then without some.
        measure: returns the metric of a model in the backend.
        before: the metric of the quantized model.
    """
    package = TOOLS[request.producer].package
    if not package:
        return None, ""
    with case.record_step(titles.QUANTIZED_AGAIN) as notes:
        value, why = _measure_metric(package, request, measure, before)
        notes.append(words.metric_after_quantizing_again(value, why))
    return value, why


def _measure_metric(
    package: str, request: Requantization, measure: Callable[[Any], float], before: float
) -> tuple[float | None, str]:
    """Return the metric and an empty reason, or None and the reason."""
    try:
        with foreign_errors():  # Of another release, or for options that the model does not show.
            models = function_for(quantize_again, package)(request)
            if models is None:
                return None, words.quantizer_missing(package)
            same, made = models if len(models) == 2 else (None, None)
            if same is None:
                return None, words.not_reproduced(package)
            value = measure(same)
            if abs(value - before) > _AS_BEFORE * before:
                return None, words.reason_of_other_metric(package, value, before)
            return measure(made), ""
    except PolygraphyException as error:
        return None, words.quantizer_fails(package, original_error(error))
