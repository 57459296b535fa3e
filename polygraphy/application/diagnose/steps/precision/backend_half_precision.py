"""Steps: half precision explains how backends differ."""

from __future__ import annotations

from attrs import evolve

from polygraphy.application.diagnose.branches import inline_branches
from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.backend_runs import BackendRuns
from polygraphy.application.diagnose.data import choose_feeds_for_parties, with_data_loader
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.precision.half_verdict import (
    HalfModel,
    diagnose_half_model,
    find_half_model,
    is_wrong_in_float32,
)
from polygraphy.application.diagnose.precision.limited_numbers import add_limiting_command
from polygraphy.application.diagnose.rounding import rounding_explains
from polygraphy.domain.diagnosis.culprit import AGREE, DiagnosisResult
from polygraphy.domain.diagnosis.words import reasons
from polygraphy.ports.editing import open_model


def explain_by_half_precision(case: Case, runs: BackendRuns) -> StepOutcome:
    """Return the effect of half precision on a model that mostly computes in it."""
    half = find_half_model(case, runs.request.feeds)
    if half is None or not half.is_whole:
        return Skip("most of the model does not compute in half precision")
    return _explain_half_model(case, runs, half)


def explain_by_some_half_precision(case: Case, runs: BackendRuns) -> StepOutcome:
    """Return the effect of half precision on a model that partly computes in it."""
    case = evolve(case, model=inline_branches(case, runs.request.feeds))
    half = find_half_model(case, runs.request.feeds)
    if half is None or half.is_whole:
        return Skip("the model computes in half precision nowhere, or nearly everywhere")
    return _explain_half_model(case, runs, half)


def _explain_half_model(case: Case, runs: BackendRuns, half: HalfModel) -> StepOutcome:
    """Return the outcome for a half-precision model: of its float32 form if it is already wrong,
    else of the search in half precision.
    """
    request = runs.request
    if is_wrong_in_float32(case, half, request.arbiter):
        wide = with_data_loader(case.with_model(open_model(half.wide)), half.feeds)
        feeds = choose_feeds_for_parties(wide, half.feeds)
        half_model = runs.diagnose(wide, evolve(request, data_loader=half.feeds, feeds=feeds))
        return Found(half_model.result, case)
    if is_explained_by_precision(case, runs):
        reason = reasons.rounding_only(half.dtype.name)
        return Found(DiagnosisResult(AGREE, reason=reason), case)
    outputs = list(runs.outputs.values())
    answer = diagnose_half_model(case, half, outputs, request.arbiter)
    if not isinstance(answer, Found):
        return answer
    is_in_float32 = all(culprit.cause == "nan" for culprit in answer.result.culprits)
    if runs.has_nan and not runs.compared.differs and is_in_float32:
        return Skip("the model computes NaN or infinity in float32 too")
    culprits = add_limiting_command(case, answer.result.culprits, request.feeds, request.arbiter)
    return evolve(answer, result=evolve(answer.result, culprits=culprits))


def is_explained_by_precision(case: Case, runs: BackendRuns, *, by_steps: bool = False) -> bool:
    """Return whether rounding explains the differences of all outputs; see `rounding_explains`."""
    if runs.has_nan or len(runs.outputs) < 2:
        return False
    first, *by_precision = runs.outputs.values()
    feeds = runs.request.feeds
    return all(
        rounding_explains(case, feeds, first, other_outputs, by_steps=by_steps)
        for other_outputs in by_precision
    )
