"""Step: nodes or weights of a model differ from its reference, which changes the outputs."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.differences import find_differences, with_copying
from polygraphy.application.diagnose.comparisons.model_pair import ModelComparison
from polygraphy.application.diagnose.locating import first_non_finite, first_wrong, nodes_alone
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.tracing import Trace, renamed, trace
from polygraphy.domain.diagnosis.closeness import introduces_nan
from polygraphy.domain.diagnosis.culprit import (
    FAULT,
    INCONCLUSIVE,
    Culprit,
    DiagnosisResult,
    with_reasons,
)
from polygraphy.domain.diagnosis.pairing import is_quantised
from polygraphy.domain.diagnosis.words import reasons, steps, titles
from polygraphy.domain.errors import PolygraphyException


def explain_by_differences(case: Case, comparison: ModelComparison) -> StepOutcome:
    """Return the differences between the models that explain their outputs, or the node that makes
    NaN of finite values.
    """
    pair, feed, goal = comparison.pair, comparison.feed, comparison.goal
    most = comparison.compared.most
    differences = find_differences(case, pair, feed, goal, most)
    differences = with_copying(case, pair, differences, feed, goal)
    case = evolve(case, repaired=differences.repaired)
    _measure_layers(case, comparison)
    culprits = differences.culprits
    broken = None
    if introduces_nan(comparison.outputs, goal):
        broken = first_non_finite(case, trace(case, pair.party, feed))
    if broken is not None and _is_cause(case, broken, culprits):
        culprits = [with_reasons(broken, culprits)]
    if not culprits:
        return Skip("no difference between the models explains the outputs")
    if is_quantised(pair.pairing) and all(culprit.cause == "structure" for culprit in culprits):
        # What operators lose that compute in integers is no fault of one of them.
        tensor = culprits[0].tensor or culprits[0].nodes[-1]
        reason = reasons.quantization_shows(most, tensor)
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    if differences.is_open and broken is None:
        names = {name for culprit in culprits for name in culprit.nodes}
        reason = reasons.not_narrowed_down(len(names))
        return Found(DiagnosisResult(INCONCLUSIVE, culprits, reason=reason), case)
    return Found(DiagnosisResult(FAULT, culprits), case)


def _measure_layers(case: Case, comparison: ModelComparison) -> None:
    """Measure how far each tensor is off, and what each node computes of right values alone."""
    pair, feed, party = comparison.pair, comparison.feed, comparison.pair.party
    with case.attempt(titles.LAYER_BY_LAYER) as notes:
        try:
            right = trace(case.of(pair.reference), party, pair.feed_reference(feed)).values
            twins = {**{name: name for name in case.model.outputs}, **pair.pairing.tensors}
            computed = {name for node in case.model.nodes for name in node.makes}
            paired = {name: twin for name, twin in twins.items() if name in computed}
            known = Trace(renamed(right, paired), feed, party)
            first = first_wrong(case, party, known)
            compared = nodes_alone(case, case.model, party, known).compared
            case.measured(party.name, "isolated", compared)
        except (PolygraphyException, KeyError) as error:
            notes.append(steps.cannot_compare(error))
            return
        notes.append(steps.ALL_TENSORS_AGREE if first is None else steps.first_difference(first))


def _is_cause(case: Case, broken: Culprit, culprits: Sequence[Culprit]) -> bool:
    """Return whether a node that makes NaN of numbers is what is to be named: not where it, or
    one far before it, differs from the reference.
    """
    if not culprits:
        return True
    differing = {name for culprit in culprits for name in culprit.nodes}
    if differing & set(broken.nodes):
        return False
    read = {name for node in case.model.nodes if node.name in broken.nodes for name in node.reads}
    before = {node.name for node in case.model.nodes if read & set(node.makes)}
    return differing <= before
