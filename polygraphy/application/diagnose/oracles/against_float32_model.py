"""Expected results from the float32 model, for the same model in half precision."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Found, Step, take_steps
from polygraphy.application.diagnose.precision.half import Trial
from polygraphy.application.diagnose.precision.half_verdict import cast_model, diagnose_cast
from polygraphy.application.diagnose.steps.precision.half_cast import (
    HalfCast,
    accept_quantization_steps,
    cast_path,
    explain_by_backends,
    explain_by_rounding_nodes,
    report_working_cast,
)
from polygraphy.domain.diagnosis.culprit import AGREE
from polygraphy.ports.editing import open_model

STEPS: Sequence[Step[HalfCast]] = (
    explain_by_rounding_nodes,
    explain_by_backends,
    report_working_cast,
)
"""The steps that find out whether a model works in half precision, in order."""


def against_float32_model(case: Case, request: Request, trial: Trial, dtype: str) -> Found:
    """Return the outcome: whether a float32 model works in half precision.

    Args:
        case: the model in float32.
        request: asks about the cast model.
        trial: the model with rounding at every operator.
        dtype: ``fp16`` or ``bf16``.
    """
    case.record_comparison("float32")
    simulated = diagnose_cast(trial.result(), case.path, dtype)
    cast = HalfCast(case.model.proto, case.path, dtype, trial, simulated, request)
    cast = accept_quantization_steps(case, cast)
    if case.parties and (cast.simulated.verdict == AGREE or request.versions is not None):
        case = case.with_model(open_model(cast_model(case.model.proto, dtype)))
        case = evolve(case, feed=trial.feeds[0], path=cast_path(cast.path, dtype))
    answer = take_steps(STEPS, case, cast)
    assert isinstance(answer, Found)  # The last step always answers.
    return answer
