"""Steps: a backend computes in half precision, which is compared with the same in float32."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.lowered_backend import (
    compare_lowering,
    lowering_party,
)
from polygraphy.application.diagnose.comparisons.step_data import data_of_steps
from polygraphy.application.diagnose.data import data_options
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome, take_steps
from polygraphy.application.diagnose.refusals import half_refusal
from polygraphy.application.diagnose.steps.precision.kept_nodes import STEPS
from polygraphy.domain.diagnosis.culprit import AGREE, FAULT, INCONCLUSIVE, DiagnosisResult
from polygraphy.domain.diagnosis.words import reasons
from polygraphy.domain.errors import BackendError, ModelError
from polygraphy.domain.states.loading import StepLoader
from polygraphy.ports.diagnosing import LoweringParty, SuspectedParty


def try_lowering_first(case: Case, request: Request) -> StepOutcome:
    """Return the outcome of half precision in a backend without another oracle:
    its losses, or the float32 diagnosis if it is also incorrect or refused in float32."""
    lowering = lowering_party(case.parties)
    if lowering is None or request.has_oracle or isinstance(request.data_loader, StepLoader):
        return Skip("no backend computes in half precision, or float32 comes first")
    refused = None
    try:
        answer = _diagnose_lowering(case, lowering, request)
        if isinstance(answer, Found):
            return _qualify_result(answer)
    except BackendError as error:
        refused = error
    except ModelError:
        pass  # The float32 diagnosis says why the model is invalid.
    wide = lowering.in_float32()
    case = _replace_backend(case, lowering, wide).without_data_notes()
    lowering_first = request.diagnose(case, request)
    if refused is not None and lowering_first.result.verdict == AGREE:
        return _describe_refusal(lowering_first.case, wide, refused, request.data_loader)
    return lowering_first


def try_lowering_last(case: Case, request: Request) -> StepOutcome:
    """Return the float32 diagnosis or, if it finds no fault, that of half precision;
    both are of the backend."""
    lowering, data_loader = lowering_party(case.parties), request.data_loader
    if lowering is None:
        return Skip("no backend computes in half precision")
    wide = lowering.in_float32()
    lowering_last = request.diagnose(_replace_backend(case, lowering, wide), request)
    if lowering_last.result.verdict == FAULT:
        return lowering_last
    data_loader = data_of_steps(lowering_last.case, data_loader, wide)
    narrow = _replace_backend(lowering_last.case, wide, lowering)
    try:
        answer = _diagnose_lowering(narrow, lowering, evolve(request, data_loader=data_loader))
        lowered = _qualify_result(answer) if isinstance(answer, Found) else None
    except BackendError as error:
        lowered = _describe_refusal(narrow, wide, error, data_loader)
        if lowering_last.result.verdict != AGREE:
            return evolve(lowering_last, case=lowered.case)
    if lowered is None:
        reason = reasons.wrong_in_float32(lowering.name)
        lowered = Found(DiagnosisResult(INCONCLUSIVE, reason=reason), narrow)
    if lowering_last.result.verdict != AGREE and lowered.result.verdict != FAULT:
        return evolve(lowering_last, case=lowered.case)
    return lowered


def _diagnose_lowering(case: Case, party: LoweringParty, request: Request) -> StepOutcome:
    """Return the half-precision losses of a model in a backend;
    a skip if the backend is also incorrect in float32."""
    comparison = compare_lowering(case, party, request)
    return take_steps(STEPS, *comparison) if isinstance(comparison, tuple) else comparison


def _describe_refusal(
    case: Case, wide: SuspectedParty, error: BackendError, data_loader: Any
) -> Found:
    """Return the result if all backends agree in float32, but half precision is refused."""
    if error.backend != wide.name:
        reason = reasons.agree_in_float32(error)
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    case = evolve(case, data_options=data_options(case.model, data_loader, 0, case.feed))
    return Found(DiagnosisResult(FAULT, [half_refusal(case, wide, str(error))]), case)


def _qualify_result(lowered: Found) -> Found:
    """Record the comparison with float32, and return the result;
    "inconclusive" if it finds no fault but not everything was compared."""
    lowered.case.record_comparison("float32")
    return evolve(lowered, result=lowered.case.evidence.qualify_result(lowered.result))


def _replace_backend(case: Case, party: SuspectedParty, replacement: SuspectedParty) -> Case:
    """Return a case with one backend replaced by another."""
    case.unload()
    return evolve(
        case, parties=[replacement if backend is party else backend for backend in case.parties]
    )
