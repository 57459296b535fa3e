"""Steps: the nodes at which backends begin to differ, or to compute no numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.backend_culprits import (
    culprit_at,
    describe_plain_remedies,
    prove_remedies,
)
from polygraphy.application.diagnose.branches import inline_branches
from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values
from polygraphy.application.diagnose.comparisons.backend_runs import BackendRuns
from polygraphy.application.diagnose.data import data_options
from polygraphy.application.diagnose.outcome import (
    Found,
    StepOutcome,
)
from polygraphy.application.diagnose.precision.limited_numbers import add_limiting_command
from polygraphy.application.diagnose.rounding import diagnose_rounding, relative_error
from polygraphy.application.diagnose.steps.invalid_models import DATA
from polygraphy.application.diagnose.steps.precision.backend_half_precision import (
    is_explained_by_precision,
)
from polygraphy.application.diagnose.tensor_trace import Trace, trace_tensors
from polygraphy.application.diagnose.third_opinion import (
    Vote,
    culprits_without_decision,
    reference_culprits,
    vote,
)
from polygraphy.application.diagnose.wrong_nodes import (
    SMALL,
    WrongNodes,
    describe_first_error,
    first_non_finite,
    wrong_nodes,
    wrong_regions,
)
from polygraphy.domain.diagnosis.closeness import has_nan, is_broken
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    Culprit,
    DiagnosisResult,
)
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.words import evidence, quantization, reasons, steps, titles
from polygraphy.domain.quantization.code_tensors import CodeTensor, StepDifference
from polygraphy.domain.rounding import Deviation
from polygraphy.ports.diagnosing import SuspectedParty

_MOST_VOTES = 8
"""Nodes of one operator for which a third backend is asked; if all votes agree, the others are
taken to be the same."""


def explain_by_first_nan(case: Case, runs: BackendRuns) -> StepOutcome:
    """Return the origin of the first NaN."""
    feeds, third = runs.request.feeds, runs.request.arbiter
    case = evolve(case, model=inline_branches(case, feeds))
    for number, feed in enumerate(feeds):
        for index in runs.outputs:
            if runs.has_nan_on(case, index, number):
                tensors = _trace_tensors(case, runs, feed)
                culprit = None if tensors is None else first_non_finite(case, tensors)
                culprit = culprit or _blame_data(case, feed)
                if culprit is not None:
                    outputs = [sets[number] for sets in runs.outputs.values()]
                    if _fills_with_nan(case, culprit, outputs):
                        reason = reasons.filled_with_nan(culprit.nodes[0])
                        return Found(DiagnosisResult(INCONCLUSIVE, [culprit], reason=reason), case)
                    culprits = add_limiting_command(case, [culprit], feeds, third)
                    return Found(DiagnosisResult(FAULT, culprits), case)
    return Found(DiagnosisResult(INCONCLUSIVE, reason=reasons.NOT_BORN), case, ends=False)


def _fills_with_nan(case: Case, culprit: Culprit, outputs: Sequence[Values]) -> bool:
    """Return whether the node that creates NaN fills a part of the outputs with a constant,
    as models do for missing values, in all backends alike."""
    graph, (first, *others) = case.model.graph, outputs
    node = next((node for node in graph.nodes if node.label == culprit.nodes[0]), None)
    if node is None or any(case.find_deviations(first, values) for values in others):
        return False
    if any(np.isnan(value).all() for value in first.values() if has_nan(value)):
        return False
    fills = [graph.constants[name].values for name in node.inputs if name in graph.constants]
    is_filled = any(np.size(fill) == 1 and has_nan(fill) for fill in fills)
    return node.op == "ConstantOfShape" or (node.op in ("Pad", "Where") and is_filled)


def _blame_data(case: Case, feed: Feed) -> Culprit | None:
    """Return the culprit for data with NaN or infinity: the first node that reads them, or None.
    The result is None if the data are finite."""
    for node in case.model.nodes:
        for name in node.reads:
            if name in case.model.inputs and name in feed and is_broken(value := feed[name]):
                nan, infinite = int(np.isnan(value).sum()), int(np.isinf(value).sum())
                facts = [evidence.not_a_number(name, nan, infinite, value.size)]
                tensor = next(iter(node.makes), None)
                return Culprit([node.label], tensor, DATA, DATA, facts=facts, op=node.operator)
    return None


def explain_by_nodes(case: Case, runs: BackendRuns) -> StepOutcome:
    """Return the nodes that a backend computes incorrectly, or another explanation, which does not
    end the diagnosis because half precision may explain more."""
    case = evolve(case, model=inline_branches(case, runs.request.feeds))
    number, differing = runs.compared.number, runs.compared.differences
    feed = runs.request.feeds[number]
    options = data_options(case.model, runs.request.data_loader, number, feed)
    case = evolve(case, feed=feed, data_options=options)
    tensors = _trace_tensors(case, runs, feed)
    if tensors is None:
        reason = reasons.NO_TENSORS
        return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case, ends=False)
    culprits: list[Culprit] = []
    mistaken: list[Culprit] = []
    unclear: list[Culprit] = []
    one_step: list[WrongNodes] = []
    for party in case.parties:
        if party is tensors.party:
            continue
        findings, votes, stepping = _find_places(case, party, tensors, differing)
        one_step += stepping
        jurors = {
            id(finding): opinion.juror
            for finding, opinion in votes
            if not opinion.is_reference_wrong
        }
        own_culprits: dict[int, Culprit] = {}
        for index in sorted(range(len(findings)), key=lambda index: len(findings[index].region)):
            finding, region = findings[index], set(findings[index].region)
            inner_rewrites = [
                culprit.rewrite
                for earlier, culprit in own_culprits.items()
                if culprit.rewrite and set(findings[earlier].region) < region
            ]
            culprit = culprit_at(case, party, finding, tensors, inner_rewrites)
            if culprit.rewrite in inner_rewrites:
                continue  # An earlier culprit has the same rewrite with fewer nodes.
            if juror := jurors.get(id(finding)):
                fact = evidence.reference_is_right(juror, tensors.party.name)
                culprit = evolve(culprit, facts=[*culprit.facts, fact])
            own_culprits[index] = culprit
        culprits += [own_culprits[index] for index in sorted(own_culprits)]
        wrong = [(finding, opinion) for finding, opinion in votes if opinion.is_reference_wrong]
        if wrong and tensors.party in case.parties:
            mistaken += reference_culprits(case, wrong, party, tensors)
        open_places = [finding for finding, opinion in votes if not opinion.juror]
        unclear += culprits_without_decision(case, open_places, party, tensors)
    result = _conclude(case, runs, tensors, culprits, mistaken, unclear)
    result = _with_steps(case, result, one_step)
    return Found(result, case, ends=result.verdict == FAULT)


def _conclude(
    case: Case,
    runs: BackendRuns,
    trace: Trace,
    culprits: list[Culprit],
    mistaken: Sequence[Culprit],
    unclear: Sequence[Culprit],
) -> DiagnosisResult:
    """Return the verdict on nodes that backends compute differently.

    Args:
        case: the model, the backends and the data to diagnose.
        runs: the outputs of the backends.
        trace: the tensors of the party that is correct.
        culprits: nodes that a backend computes wrongly.
        mistaken: nodes that the arbiter computes wrongly.
        unclear: nodes of which nothing decides who computes them wrongly.
    """
    if culprits or mistaken:
        culprits = prove_remedies(
            case, culprits, [*_right_pairs(case, runs, trace)] if culprits else []
        )
        if unclear and not any(culprit.remedy.proven for culprit in culprits):
            return _inconclusive_result(unclear, [*mistaken, *culprits])
        return DiagnosisResult(FAULT, [*mistaken, *culprits])
    if unclear:
        return _inconclusive_result(unclear)
    if is_explained_by_precision(case, runs, by_steps=True):
        return DiagnosisResult(AGREE, reason=reasons.STEPS_EXPLAIN)
    result = diagnose_rounding(case, runs.compared.differences, trace)
    if result.verdict == INCONCLUSIVE and trace.party is runs.request.arbiter:
        plain = describe_plain_remedies(case, _trace_outputs(case, runs, trace), trace.feed)
        return evolve(result, reason=join_statements(result.reason, plain))
    return result


def _with_steps(
    case: Case, result: DiagnosisResult, one_step: Sequence[WrongNodes]
) -> DiagnosisResult:
    """Return a result with a note on codes that are one quantization step apart;
    "agree" if nothing else explains the differences and there are more such codes than rounding
    explains."""
    if not one_step:
        return result
    reason = quantization.steps_apart([_step_difference(case, finding) for finding in one_step])
    is_more = not all(finding.explained for finding in one_step)
    if result.verdict == INCONCLUSIVE and not result.culprits and is_more:
        return evolve(result, verdict=AGREE, reason=reason)
    return evolve(result, reason=join_statements(result.reason, reason))


def _step_difference(case: Case, finding: WrongNodes) -> StepDifference:
    """Return the difference of codes that are one quantization step apart."""
    node, off = case.model.nodes[finding.region[-1]], finding.deviation
    values = (0, 1) if off.value is None or off.expected is None else (off.expected, off.value)
    codes = int(values[0]), int(values[1])
    tensor = CodeTensor(finding.tensor, node.label, node.op, 0.0, 0.0)
    return StepDifference(tensor, off.share, 1, tuple(off.where or ()), codes)


def _trace_tensors(case: Case, runs: BackendRuns, feed: Feed) -> Trace | None:
    """Return all tensors computed by the arbiter or, if it cannot, by a backend, or None.
    The result is None if none can."""
    with case.record_step(titles.ALL_TENSORS) as notes:
        for party in (runs.request.arbiter, *case.parties):
            try:
                tensors = trace_tensors(case, party, feed)
            except REFUSALS as error:
                notes.append(steps.party_cannot(party.name, error))
                continue
            notes.append(steps.count_of_tensors(len(tensors.values), party.name))
            return tensors
    return None


def _trace_outputs(case: Case, runs: BackendRuns, trace: Trace) -> Values:
    """Return the outputs of the backend that computed all tensors."""
    is_plain = trace.party is not runs.request.arbiter
    return case.load(trace.party, plain=is_plain)(trace.feed)


def _right_pairs(case: Case, runs: BackendRuns, trace: Trace) -> Iterator[tuple[Feed, Values]]:
    """Yield input sets with the correct outputs, those that show the fault first."""
    feeds, is_arbiter = runs.request.feeds, trace.party is runs.request.arbiter
    order = sorted(range(len(feeds)), key=lambda number: feeds[number] is not trace.feed)
    party_outputs = [
        sets for index, sets in runs.outputs.items() if case.parties[index] is trace.party
    ]
    if is_arbiter and party_outputs:
        yield from ((feeds[number], party_outputs[0][number]) for number in order)
        return
    compute = case.load(trace.party, plain=not is_arbiter)
    yield from ((feeds[number], compute(feeds[number])) for number in order)


def _find_places(
    case: Case, party: SuspectedParty, trace: Trace, differing: Mapping[str, Deviation]
) -> tuple[list[WrongNodes], list[tuple[WrongNodes, Vote]], list[WrongNodes]]:
    """Return the nodes that a backend computes differently, votes on them, and one-step nodes.
    It computes them differently than the arbiter. The votes are those of a third backend. The codes
    of the last nodes are at most one quantization step apart.
    """
    is_hidden = any(relative_error(case, name, off) > SMALL for name, off in differing.items())
    with case.record_step(titles.marked_tensors(party.name)) as notes:
        try:
            first = describe_first_error(case, party, trace)
            if first is not None:
                notes.append(steps.first_difference(first))
            elif is_hidden:
                notes.append(steps.MARKING_HIDES)
            else:
                notes.append(steps.AGREE_WITHIN_ROUNDING)
        except REFUSALS as error:
            notes.append(steps.cannot_return_tensors(error))
    single: list[WrongNodes] = []
    stepping: list[WrongNodes] = []
    with case.record_step(titles.node_by_node(party.name)) as notes:
        try:
            single, stepping = _without_steps(wrong_nodes(case, party, trace))
            notes.append(steps.wrong_nodes(len(single), len(case.model.nodes)))
        except REFUSALS as error:
            notes.append(steps.cannot_run_nodes(party.name, error))
    wrong = {index for finding in single for index in finding.region}
    votes = [*zip(single, _ask_jurors(case, single, party, trace))]
    single = [finding for finding, opinion in votes if opinion.is_party_wrong]
    if not party.rewrites:
        return single, votes, stepping
    with case.record_step(titles.rewritten_graph(party.name)) as notes:
        try:
            fused, stepping_regions = _without_steps(wrong_regions(case, party, trace))
            known_nodes = {index for finding in stepping for index in finding.region}
            stepping += [
                finding for finding in stepping_regions if not known_nodes & {*finding.region}
            ]
            notes.append(steps.wrong_regions(len(fused)))
        except REFUSALS as error:
            fused = []
            notes.append(steps.cannot_run_parts(error))
    new = [place for place in fused if not wrong & {*place.region, *place.computed}]
    return [*single, *new], votes, stepping


def _without_steps(findings: Sequence[WrongNodes]) -> tuple[list[WrongNodes], list[WrongNodes]]:
    """Return the nodes with larger differences, and those that are one quantization step off."""
    larger = [finding for finding in findings if not finding.is_step]
    return larger, [finding for finding in findings if finding.is_step]


def _ask_jurors(
    case: Case, findings: Sequence[WrongNodes], party: SuspectedParty, trace: Trace
) -> list[Vote]:
    """Return the votes of a third backend on nodes that two compute differently."""
    if not findings:
        return []
    with case.record_step(titles.THIRD_OPINION) as notes:
        votes: list[Vote] = []
        votes_of: dict[str, list[Vote]] = {}
        for finding in findings:
            known_votes = votes_of.setdefault(case.model.nodes[finding.region[-1]].operator, [])
            if len(known_votes) >= _MOST_VOTES and _blame_same_backend(known_votes):
                opinion = known_votes[-1]
            else:
                opinion = vote(case, finding, party, trace)
                known_votes.append(opinion)
            votes.append(opinion)
        for juror in dict.fromkeys(opinion.juror for opinion in votes if opinion.juror):
            opinions = [opinion for opinion in votes if opinion.juror == juror]
            wrong = {
                party.name: sum(opinion.is_party_wrong for opinion in opinions),
                trace.party.name: sum(opinion.is_reference_wrong for opinion in opinions),
            }
            notes.append(steps.verdicts(juror, len(opinions), wrong))
        if undecided_nodes := sum(not opinion.juror for opinion in votes):
            notes.append(steps.nodes_without_decision(undecided_nodes))
    return votes


def _inconclusive_result(
    candidates: Sequence[Culprit], wrong: Sequence[Culprit] = ()
) -> DiagnosisResult:
    """Return an "inconclusive" result: nothing decides which backend is correct for some nodes, and
    the other faults do not explain the outputs.
    """
    names = [*dict.fromkeys(culprit.nodes[-1] for culprit in candidates[:4])]
    ops = [*dict.fromkeys(culprit.op for culprit in candidates[:4])]
    reason = reasons.disagreement(candidates[0].party, ops, names)
    return DiagnosisResult(INCONCLUSIVE, [*candidates, *wrong], reason=reason)


def _blame_same_backend(votes: Sequence[Vote]) -> bool:
    """Return whether all votes say that the same backend is wrong."""
    return len({(opinion.is_party_wrong, opinion.is_reference_wrong) for opinion in votes}) == 1
