"""Step: a quantized model differs from the model that it was made of."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from attrs import evolve

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.model_pair import (
    FEW_DIFFERENCES,
    ModelComparison,
    pair_models,
)
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.precision.quantized import QuantizedPair
from polygraphy.application.diagnose.steps.quantized.goal import reach_quantized_goal
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.quantizing import USUAL_LOSS, find_other_selection
from polygraphy.domain.diagnosis.two_models import suspects
from polygraphy.domain.diagnosis.words import quantization, reasons, remedies, steps, titles
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.quantization.causes import CALIBRATION, PARAMETER_CAUSES, WEIGHT
from polygraphy.domain.quantization.goal import QuantizedGoal
from polygraphy.domain.quantization.metrics import Outputs, RmsRatio
from polygraphy.domain.quantization.sites import is_coarse
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.editing import open_model

_LEFT, _HEALTHY = 0.25, 0.1
"""Largest share of the loss that may remain without the named nodes, or RMS ratio of a healthy
model. Losses below twice that ratio are not searched. Chosen, not measured."""
_HELPS = 0.75
"""Correct parameters reduce the loss at least to this share. Chosen: quantizers give some operators
fixed ranges, such as 0 to 1 for Softmax, which often cost a little more than needed."""
_LEAST_LOSS, _LEAST_AT_SITE = 0.02, 0.2
"""Least loss of the outputs, and least loss at the site of a parameter, for a usual loss to be
caused by a wrong parameter; quantizers cut off outliers on purpose. Chosen, not measured."""
_WRONG = 2
"""Most parameters that are called wrong, unless data exceed their ranges: more of them are how the
quantizer was set."""
_REMAINS = 0.5
"""Largest share of the loss that remains with ranges that fit if the calibration data explain it.
Chosen, not measured."""
_FEW = 4
"""Most operators that are named, and at most half of all."""
_AFTER_INTEGERS = frozenset({"Cast", "Mul", "Add", "DequantizeLinear", "Reshape"})
"""Operators that turn the result of an operator that computes in integers into numbers."""
_RUNS = 60
"""Runs of the model with switches that may be spent on operators that compute in integers."""


def explain_by_quantization(case: Case, comparison: ModelComparison) -> StepOutcome:
    """Return the effect of quantization, if it explains the error; else a skip."""
    pair, feeds, compared = comparison.pair, comparison.feeds, comparison.compared
    pairs = zip(comparison.values, comparison.expected)
    is_lost = any(case.find_lost_outputs(*values) for values in pairs)
    if compared.largest_error <= USUAL_LOSS and not is_lost:
        return explain_shared_loss(case, comparison)

    def rename(values: object) -> dict[str, object]:
        """Return values by the model's output names."""
        return pair.rename_outputs(case, values)  # type: ignore[arg-type]

    quantized = QuantizedPair(case, pair.reference, pair.party, rename)
    if not quantized.places:
        return Skip("no input of a node has a counterpart in the reference")
    reference_feeds = [*map(pair.feed_reference, feeds)]
    try:
        answer = quantized.result(
            reference_feeds, comparison.expected, comparison.values, compared.number
        )
    except BackendError as error:
        with case.record_step(titles.QUANTIZED_REFERENCE) as notes:
            notes.append(steps.cannot_run(error))
        return Skip(str(error))
    if isinstance(answer, Found):
        answer = _name_wrong_parameters(case, comparison, answer)
        return _advise_real_data(answer) if _is_generated(case, comparison) else answer
    if not quantized.is_whole:
        return answer
    reference = open_model(quantized.quantize_reference())
    besides = pair_models(case, reference, pair.path, pair.arbiter, pair.diagnose)
    if len(suspects(besides.pairing)) <= FEW_DIFFERENCES:
        outcome = pair.diagnose(case, besides, feeds)
        # If the models are quantized alike, the loss by quantization remains to be explained.
        if not isinstance(outcome, Found) or outcome.result.verdict != AGREE:
            return outcome
    return explain_shared_loss(case, comparison)


def explain_shared_loss(case: Case, comparison: ModelComparison) -> Found:
    """Return the few nodes, or the wrong parameters, that cause most of the loss, found by running
    the model with some sites in floating point; inconclusive if many nodes share the loss."""
    before, largest = _loss(case, comparison), comparison.compared.largest_error
    if before <= _HEALTHY:
        culprits = _wrong_parameters(case, comparison)
        reason = reasons.usual_quantization(largest)
    else:
        culprits = _culprits_of_goal(case, comparison, _share_of(_LEFT, before))
        reason = reasons.loss_of_many_nodes(largest)
    if not _are_few(culprits):
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    answer = Found(DiagnosisResult(FAULT, culprits), case)
    return _advise_real_data(answer) if _is_generated(case, comparison) else answer


def _are_few(culprits: Sequence[Culprit]) -> bool:
    """Return whether culprits are found, with so few nodes that they can be named."""
    return 0 < sum(len(culprit.nodes) for culprit in culprits) <= _FEW


def _wrong_parameters(case: Case, comparison: ModelComparison) -> list[Culprit]:
    """Return the few wrong parameters of a model that loses no more than quantized models usually
    do; empty if it has none."""
    before = _loss(case, comparison)
    if before < _LEAST_LOSS:
        return []
    culprits = _culprits_of_goal(case, comparison, _HELPS * before)
    causes = {culprit.cause for culprit in culprits}
    losses = [
        fact.values["loss"].loss
        for culprit in culprits
        for fact in culprit.facts
        if fact.kind == "wrong_parameter"
    ]
    is_wrong = causes <= PARAMETER_CAUSES - {CALIBRATION} and len(culprits) <= _WRONG
    return culprits if is_wrong and min(losses, default=0.0) >= _LEAST_AT_SITE else []


def find_costly_operators(case: Case, comparison: ModelComparison) -> list[Culprit]:
    """Return the few operators computing in integers that cause most of the loss, or that have
    wrong parameters; empty if many operators share it, or something else causes it.
    """
    operators = {
        node.label: node for node in case.model.nodes if _computes_in_integers(node.operator)
    }
    if not operators:
        return []
    before = _loss(case, comparison)
    if before < 2 * _HEALTHY:
        return []
    culprits = _culprits_of_goal(case, comparison, max(_share_of(_LEFT, before), _HEALTHY))
    if sum(len(culprit.nodes) for culprit in culprits) > min(_FEW, max(1, len(operators) // 2)):
        return []
    named = []
    for culprit in culprits:
        names = [_integer_operator(case, comparison, name) for name in culprit.nodes]
        op = operators[names[-1]].operator if names[-1] in operators else culprit.op
        note = culprit.remedy.note
        if culprit.cause == "quantization":
            note = remedies.quantize_without(culprit.nodes)
        if _is_generated(case, comparison):
            note = join_statements(note, remedies.USE_REAL_DATA)
        named.append(evolve(culprit, nodes=names, op=op, remedy=Remedy(None, True, note)))
    return named


def _loss(case: Case, comparison: ModelComparison) -> float:
    """Return the RMS of the error of all input sets, relative to that of the expected outputs."""
    metric = RmsRatio(case.layout)
    return metric(Outputs(comparison.values), Outputs(comparison.expected))


def _share_of(share: float, loss: float) -> float:
    """Return a share of a loss; if the loss is infinite, a usual loss."""
    return USUAL_LOSS if loss == inf else share * loss


def _culprits_of_goal(case: Case, comparison: ModelComparison, within: float) -> list[Culprit]:
    """Return the wrong parameters, and the fewest nodes to keep in float,
    with which the loss is within a limit; empty if nothing is found."""
    goal = QuantizedGoal(within, runs=_RUNS, is_asked=False)
    pair = evolve(comparison.pair, goal=goal)
    try:
        answer = reach_quantized_goal(case, evolve(comparison, pair=pair))
    except PolygraphyException:
        return []
    if not isinstance(answer, Found) or answer.result.verdict != FAULT:
        return []
    return [*answer.result.culprits]


def _name_wrong_parameters(case: Case, comparison: ModelComparison, answer: Found) -> Found:
    """Return an answer that names wrong parameters instead of the nodes that they make costly, or
    the few nodes that make outputs infinite."""
    if find_other_selection(comparison.outputs, comparison.goal) is not None:
        return answer
    # Generated floats may exceed correct ranges, so for them a wrong range causes most of the loss.
    is_generated = _is_generated(case, comparison)
    share = _LEFT if is_generated else _HELPS
    before = _loss(case, comparison)
    culprits = _culprits_of_goal(case, comparison, _share_of(share, before))
    wanted = PARAMETER_CAUSES - {CALIBRATION} if is_generated else PARAMETER_CAUSES
    # Some quantizers choose codes by their effect on outputs, but not codes that cost most of it.
    wanted |= {WEIGHT} if _can_repair(culprits, _LEFT) else set()
    are_narrow = _have_narrow_ranges(culprits)
    if is_generated and are_narrow:
        reason = quantization.generated_data_exceed_ranges(_largest_cut(culprits))
        return evolve(answer, result=DiagnosisResult(INCONCLUSIVE, reason=reason))
    if before == inf and answer.result.verdict == INCONCLUSIVE and _are_few(culprits):
        return evolve(answer, result=DiagnosisResult(FAULT, culprits))
    if not culprits or not all(each.cause in wanted for each in culprits):
        return answer
    if len(culprits) > _WRONG and not are_narrow:
        return answer
    costly = answer.result.culprits
    if len(culprits) == len(costly) == 1 and len(costly[0].nodes) == 1:
        culprits = [evolve(culprits[0], nodes=costly[0].nodes, op=costly[0].op)]
    return evolve(answer, result=evolve(answer.result, verdict=FAULT, culprits=culprits, reason=""))


def _is_generated(case: Case, comparison: ModelComparison) -> bool:
    """Return whether the inputs contain generated floats, which no range was calibrated for."""
    return case.is_made_up and any(map(is_float, comparison.feed.values()))


def _advise_real_data(answer: Found) -> Found:
    """Return an answer that says of each culprit that the inputs were generated."""
    culprits = [
        evolve(
            culprit,
            remedy=evolve(
                culprit.remedy, note=join_statements(culprit.remedy.note, remedies.USE_REAL_DATA)
            ),
        )
        for culprit in answer.result.culprits
    ]
    return evolve(answer, result=evolve(answer.result, culprits=culprits))


def _have_narrow_ranges(culprits: Sequence[Culprit]) -> bool:
    """Return whether the calibration data explain most of the loss:
    with ranges that fit, less than half of it remains."""
    return _can_repair([each for each in culprits if each.cause == CALIBRATION], _REMAINS)


def _can_repair(culprits: Sequence[Culprit], share: float) -> bool:
    """Return whether correct parameters leave at most a share of the loss."""
    facts = [fact for culprit in culprits for fact in culprit.facts]
    effects = [fact.values for fact in facts if fact.kind == "repair_effect"]
    return any(effect["after"] <= share * effect["before"] for effect in effects)


def _largest_cut(culprits: Sequence[Culprit]) -> float:
    """Return the largest share of elements that the range of an activation cuts off."""
    facts = [fact for culprit in culprits for fact in culprit.facts]
    cuts = [fact.values["loss"].cut for fact in facts if fact.kind == "wrong_parameter"]
    return float(max(cuts))


def _computes_in_integers(op: str) -> bool:
    """Return whether an operator itself computes with quantized operands."""
    return is_coarse(op) and not op.lower().endswith("quantizelinear")


def _integer_operator(case: Case, comparison: ModelComparison, name: str) -> str:
    """Return the name of the node that computes in integers for a reference node,
    or that precedes a model node."""
    pair = comparison.pair
    makers = {tensor: node for node in case.model.nodes for tensor in node.makes}
    twins = {twin: tensor for tensor, twin in pair.pairing.tensors.items()}
    tensors = [
        twins.get(tensor, tensor)
        for node in [*pair.reference.nodes, *case.model.nodes]
        if node.label == name
        for tensor in node.makes
    ]
    while tensors:
        node = makers.get(tensors.pop(0))
        if node is None:
            continue
        if _computes_in_integers(node.operator):
            return node.label
        if node.operator in _AFTER_INTEGERS:
            tensors += node.reads
    return name
