"""Step: a model in half precision differs from its float32 reference."""

from __future__ import annotations

from attrs import evolve

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.model_pair import ModelComparison, pair_models
from polygraphy.application.diagnose.lowered.half_verdict import (
    diagnose_precision_loss,
    is_observed,
    widen_models,
)
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.diagnosis.culprit import (
    FAULT,
    ILL_CONDITIONED,
    INCONCLUSIVE,
    DiagnosisResult,
)
from polygraphy.domain.diagnosis.words import reasons, steps, titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.tensors.precision import in_float
from polygraphy.ports.editing import open_model

_MUCH = 0.1
"""So much of the size of an output is lost where it shows."""


def explain_by_half_precision(case: Case, comparison: ModelComparison) -> StepOutcome:
    """Return the half-precision losses of the reference, or else the other differences."""
    pair = comparison.pair
    narrow = pair.pairing.model.narrow
    if narrow not in HALF:
        return Skip("the model does not compute in half precision")
    feed = pair.feed_reference(comparison.feed)
    lost, loss = diagnose_precision_loss(case, pair.reference, pair.pairing, feed, pair.path)
    is_explained = bool(lost.culprits) or lost.verdict == ILL_CONDITIONED
    [name] = pair.rename_outputs(case, {loss.name: None})
    outputs = [[comparison.goal], [comparison.outputs]]
    is_much = comparison.compared.most > _MUCH
    if is_explained and (is_much or is_observed(outputs, evolve(loss, name=name))):
        return Found(lost, case)
    beside = _diagnose_in_float32(case, comparison)
    if isinstance(beside, Found):
        return beside
    if is_explained:
        return Found(lost, case)
    reason = reasons.more_than_rounding(str(narrow))
    return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)


def _diagnose_in_float32(case: Case, comparison: ModelComparison) -> StepOutcome:
    """Return the differences of the models in float32, with weights rounded alike."""
    pair, feed = comparison.pair, comparison.feed
    models = widen_models(case.model.proto, pair.reference.proto)
    with case.attempt(titles.IN_FLOAT32) as notes:
        if models is None:
            notes.append(steps.NOT_IN_HALF_PRECISION)
            return Skip(steps.NOT_IN_HALF_PRECISION)
        wide, reference = map(open_model, models)
        wide_case = evolve(case.of(wide), parties=[pair.party])
        wide_pair = pair_models(wide_case, reference, pair.path, pair.arbiter, pair.diagnose)
        feeds = [{name: in_float(array) for name, array in feed.items()}]
        try:
            answer = pair.diagnose(wide_case, wide_pair, feeds)
        except PolygraphyException as error:
            notes.append(steps.cannot_compare(error))
            return Skip(str(error))
        is_same = isinstance(answer, Found) and bool(answer.result)
        notes.append(steps.MODELS_AGREE if is_same else steps.MODELS_DIFFER)
    if isinstance(answer, Found) and answer.result.verdict == FAULT:
        return Found(answer.result, case)
    return Skip("no fault in float32")
