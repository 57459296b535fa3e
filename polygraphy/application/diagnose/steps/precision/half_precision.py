"""Step: a model in half precision differs from its float32 reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.model_pair import ModelComparison, pair_models
from polygraphy.application.diagnose.oracle import Oracle
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.precision.half import Tolerance
from polygraphy.application.diagnose.precision.half_verdict import (
    OBSERVED,
    cast_model,
    diagnose_precision_loss,
    find_cast,
    is_observed,
    widen_models,
)
from polygraphy.application.diagnose.precision.limited_numbers import add_limiting_command
from polygraphy.application.diagnose.rounding import part_rounding
from polygraphy.application.diagnose.steps.precision.wide_numbers import keep_wide_numbers
from polygraphy.application.diagnose.subprocesses import CarefulParty
from polygraphy.application.diagnose.tensor_trace import trace_tensors
from polygraphy.application.diagnose.wrong_nodes import first_non_finite
from polygraphy.binding import resolve
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.diagnosis.closeness import introduces_nan
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    ILL_CONDITIONED,
    INCONCLUSIVE,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.headroom import Range
from polygraphy.domain.diagnosis.quantizing import rms_ratio
from polygraphy.domain.diagnosis.words import reasons, remedies, steps, titles
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.rounding import GROWTH, deviation, deviation_sentence
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.precision import epsilon_of, is_float, widen_array
from polygraphy.ports.diagnosing import NarrowModels
from polygraphy.ports.editing import OpenModel, open_model

_AS_MUCH = 2
"""Rounding at every operator explains an error of at most this multiple of its own. Chosen, not
measured."""
_MUCH = 0.1
"""An error of this share of an output's size is reported as a loss. Chosen, not measured."""


def explain_by_half_precision(case: Case, comparison: ModelComparison) -> StepOutcome:
    """Return the half-precision losses of the reference, or else the other differences."""
    pair = comparison.pair
    narrow = pair.pairing.model.narrow
    feed = pair.feed_reference(comparison.feed)
    half_precision, loss, tolerance = diagnose_precision_loss(
        case, pair.reference, pair.pairing, feed, pair.path
    )
    is_explained = bool(half_precision.culprits) or half_precision.verdict == ILL_CONDITIONED
    [name] = pair.rename_outputs(case, {loss.part: None})
    outputs = [[comparison.goal], [comparison.outputs]]
    is_much = comparison.compared.largest_error > _MUCH
    is_shown = is_explained and (is_much or is_observed(outputs, evolve(loss, part=name)))
    if is_shown and not _is_cast_correct(case, comparison, str(narrow)):
        return Found(half_precision, case)
    beside = _diagnose_in_float32(case, comparison, tolerance)
    if isinstance(beside, Found) and beside.result.verdict == FAULT:
        return _convert_reference(case, comparison, beside, HALF[str(narrow)], tolerance)
    if is_explained:
        return Found(half_precision, case)
    twins = pair.pairing.tensors
    expected, computed = (
        {twins.get(name, name): widen_array(values[name]) for name in comparison.goal}
        for values in (comparison.goal, comparison.outputs)
    )
    error = tolerance.error(expected, computed)
    if isinstance(beside, Found) and beside.result.verdict == AGREE and error.is_tolerable:
        reason = reasons.rounding_only(str(narrow), error)
        return Found(DiagnosisResult(AGREE, reason=reason), case)
    if error.off <= _AS_MUCH * loss.off and half_precision.verdict == INCONCLUSIVE:
        return Found(half_precision, case)
    if isinstance(beside, Found) and beside.result.culprits:
        return beside
    if introduces_nan(comparison.outputs, comparison.goal):
        return _explain_by_infinity(case, comparison)
    reason = reasons.more_than_rounding(str(narrow))
    return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)


def _convert_reference(
    case: Case, comparison: ModelComparison, answer: Found, dtype: str, tolerance: Tolerance
) -> Found:
    """Return an answer, with the command that converts the reference if half precision does not
    have the weights of the reference, so that they cannot be copied."""
    if not introduces_nan(comparison.outputs, comparison.goal):
        culprits = keep_wide_numbers(comparison, answer.result.culprits, dtype, tolerance)
        return evolve(answer, result=evolve(answer.result, culprits=culprits))
    pair = comparison.pair
    feeds = [pair.feed_reference(feed) for feed in comparison.feeds]
    remedy = find_cast(case, pair.reference, feeds, pair.path, dtype)
    if remedy is None or remedy.command is None:
        return answer
    culprits = [evolve(culprit, remedy=remedy) for culprit in answer.result.culprits]
    return evolve(answer, result=evolve(answer.result, culprits=culprits))


def _explain_by_infinity(case: Case, comparison: ModelComparison) -> StepOutcome:
    """Return the node of the model that first computes infinity or NaN, if its reference, converted
    to half precision, does not."""
    trace = trace_tensors(case, comparison.pair.party, comparison.feed)
    culprit = first_non_finite(case, trace)
    if culprit is None:
        return Skip("no node turns finite inputs into infinity or NaN")
    arbiter, expected = comparison.pair.arbiter, comparison.expected
    culprits = add_limiting_command(case, [culprit], comparison.feeds, arbiter, expected)
    return Found(DiagnosisResult(FAULT, culprits), case)


def _is_cast_correct(case: Case, comparison: ModelComparison, dtype: str) -> bool:
    """Return whether the backend computes the reference in half precision correctly:
    much more precisely than the model, which differs for another reason.
    """
    pair = comparison.pair
    with case.record_step(titles.CAST_REFERENCE) as notes:
        try:
            compute = CarefulParty(pair.party).load(cast_model(pair.reference.proto, HALF[dtype]))
            values = pair.rename_outputs(case, compute(pair.feed_reference(comparison.feed)))
        except PolygraphyException as error:
            notes.append(steps.cannot_run(error))
            return False
        compared = Oracle(titles.REFERENCE, [comparison.goal], []).compare(case, [values])
        outputs = len(comparison.goal)
        notes.append(deviation_sentence(compared.differences, outputs))
    return compared.largest_error <= OBSERVED * comparison.compared.largest_error


def explain_by_half_storage(case: Case, comparison: ModelComparison) -> StepOutcome:
    """Return the loss of a float32 model that keeps some tensors, such as a cache, in half
    precision, unlike its reference; or the other differences.
    """
    pair = comparison.pair
    models = resolve(NarrowModels)
    nodes = models.narrow_nodes(case.model.proto)
    ends = [case.model.inputs[name].dtype for name in case.model.inputs]
    is_declared = any(dtype in HALF for dtype in ends)
    names = [*filter(HALF.__contains__, ends), *([] if nodes is None else [nodes[0].name])]
    dtype = str(names[0])
    if nodes is None:
        wide = open_model(models.widen_model(case.model.proto, drops_casts=True))
        outcome = _diagnose_widened(case, comparison, wide, pair.reference)
    else:
        outcome = _diagnose_in_float32(case, comparison)
    if not isinstance(outcome, Found) or outcome.result.culprits:
        return outcome
    loss = max(
        rms_ratio(own_value[name], value)
        for own_value, expected in zip(comparison.values, comparison.expected)
        for name, value in expected.items()
        if name in own_value and is_float(value)
    )
    limit = _MUCH if is_declared else GROWTH * epsilon_of(dtype)
    is_much = loss > limit or _is_part_lost(case, comparison, dtype, limit)
    if outcome.result.verdict != AGREE or is_much or len(case.parties) > 1:
        return Skip("float32 explains it, but half precision loses too much")
    reason = reasons.half_storage(dtype, loss)
    return Found(DiagnosisResult(AGREE, reason=reason), case)


def _is_part_lost(case: Case, comparison: ModelComparison, dtype: str, limit: float) -> bool:
    """Return whether the error of some part of an output exceeds a limit,
    relative to the size of that part."""
    share = limit / (GROWTH * epsilon_of(dtype))
    for own_value, expected in zip(comparison.values, comparison.expected):
        for name, value in expected.items():
            rounding = part_rounding(case, name, dtype, own_value.get(name), value)
            if rounding is None or not rounding.parts:
                continue
            if deviation(own_value[name], value, rounding=rounding.scale(share)).is_wrong:
                return True
    return False


def _diagnose_in_float32(
    case: Case, comparison: ModelComparison, tolerance: Tolerance | None = None
) -> StepOutcome:
    """Return the differences of the models in float32, with weights that are rounded alike.

    Args:
        case: the case of the models as they are.
        comparison: the models, and how their outputs differ.
        tolerance: the tolerance of half precision. Numbers in weights that half precision cannot
            hold, such as tiny variances, are a fault only if their loss changes the outputs by
            more; None: any loss is tolerated.
    """
    pair = comparison.pair
    models = widen_models(case.model.proto, pair.reference.proto)
    with case.record_step(titles.IN_FLOAT32) as notes:
        clipped = widen_models(case.model.proto, pair.reference.proto, keeps_range=False)
        if models is None or clipped is None:
            notes.append(steps.NOT_IN_HALF_PRECISION)
            return Skip(steps.NOT_IN_HALF_PRECISION)
        if clipped != models and _is_range_harmless(comparison, (models, clipped), tolerance):
            models = clipped
        wide, reference = map(open_model, models)
    return _diagnose_widened(case, comparison, wide, reference)


def _is_range_harmless(
    comparison: ModelComparison,
    pairs: Sequence[tuple[Any, Any]],
    tolerance: Tolerance | None,
) -> bool:
    """Return whether outputs stay within tolerance if weights lose the numbers that half precision
    cannot hold.

    Args:
        comparison: the backend, and the data.
        pairs: the model and its reference in float32, with all numbers, and without those.
        tolerance: the tolerance of half precision; None: no limit.
    """
    if tolerance is None:
        return True
    changed = next(at for at in (0, 1) if pairs[0][at] != pairs[1][at])
    feed = {name: widen_array(array) for name, array in comparison.feed.items()}
    if changed:
        feed = {**comparison.pair.feed_reference(feed)}
    try:
        exact, clipped = (comparison.pair.party.load(pair[changed])(feed) for pair in pairs)
    except BackendError:
        return False
    return tolerance.error(exact, clipped).is_tolerable


def _diagnose_widened(
    case: Case, comparison: ModelComparison, wide: OpenModel, reference: OpenModel
) -> StepOutcome:
    """Return the differences of two models that were converted to float32."""
    pair = comparison.pair
    with case.record_step(titles.IN_FLOAT32) as notes:
        wide_case = evolve(case.with_model(wide), parties=[pair.party])
        wide_pair = pair_models(wide_case, reference, pair.path, pair.arbiter, pair.diagnose)
        feeds = [{name: widen_array(array) for name, array in comparison.feed.items()}]
        try:
            answer = pair.diagnose(wide_case, wide_pair, feeds)
        except PolygraphyException as error:
            notes.append(steps.cannot_compare(error))
            return Skip(str(error))
        is_same = isinstance(answer, Found) and bool(answer.result)
        notes.append(steps.MODELS_AGREE if is_same else steps.MODELS_DIFFER)
    if isinstance(answer, Found) and (answer.result.verdict == AGREE or answer.result.culprits):
        narrow = str(pair.pairing.model.narrow)
        culprits = [_with_possible_epsilon(one, narrow) for one in answer.result.culprits]
        return Found(evolve(answer.result, culprits=culprits), case)
    return Skip("no fault in float32")


def _with_possible_epsilon(culprit: Culprit, narrow: str) -> Culprit:
    """Return a culprit that does not advise an epsilon which the narrow type rounds to zero."""
    if narrow not in HALF:
        return culprit
    limits = Range.of(DataType[narrow.upper()])
    for fact in culprit.facts:
        change = fact.values.get("change")
        values = getattr(change, "values", fact.values)
        is_known = {"name", "expected"} <= values.keys() and culprit.cause == "epsilon"
        if is_known and 0 < abs(float(values["expected"])) < limits.smallest:
            note = remedies.raise_epsilon(str(values["name"]), limits.normal)
            return evolve(culprit, remedy=Remedy(note=note))
    return culprit
