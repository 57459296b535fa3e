"""Steps: what explains that outputs are not those that were saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve

from polygraphy.application.diagnose.branches import take_branches
from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.changes.outputs_alone import add_change, explain_outputs
from polygraphy.application.diagnose.comparisons.saved_comparison import SavedComparison
from polygraphy.application.diagnose.comparisons.saved_precision import tf32_losses
from polygraphy.application.diagnose.outcome import Found, Skip, Step, StepOutcome
from polygraphy.application.diagnose.precision.half_verdict import (
    diagnose_saved_outputs,
    find_half_model,
)
from polygraphy.application.diagnose.rounding import (
    accepted_dtype,
    describe_tied_labels,
    rounding_explains,
)
from polygraphy.application.diagnose.tensor_trace import Trace, trace_tensors
from polygraphy.application.diagnose.wrong_nodes import first_non_finite
from polygraphy.domain.catalog.compute import TF32
from polygraphy.domain.checks.undefined_rules import SCATTERS, count_explained_by_order
from polygraphy.domain.diagnosis.closeness import introduces_nan
from polygraphy.domain.diagnosis.culprit import AGREE, FAULT, INCONCLUSIVE, Culprit, DiagnosisResult
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.solving.ties import find_ties
from polygraphy.domain.diagnosis.words import evidence, reasons, steps, tf32
from polygraphy.domain.model.graph import Graph
from polygraphy.domain.model.regions import nodes_after_inputs
from polygraphy.domain.rounding import Deviation

_SETS = 8
"""The most input sets besides the worst that are examined. Chosen, not measured."""
_COINCIDENCES = 8
"""If a scatter writes fewer elements, largest or smallest of several updates can be those of
another order by coincidence: the chance is at most one half per element. Chosen, not measured."""


def explain_by_precision(case: Case, comparison: SavedComparison) -> StepOutcome:
    """Return the outcome: whether rounding explains all outputs that differ."""
    if not rounding_explains(case, comparison.feeds, comparison.values, comparison.matched.sets):
        return Skip("rounding does not explain the differences")
    return Found(DiagnosisResult(AGREE, reason=reasons.ROUNDED), case)


def explain_by_tied_labels(case: Case, comparison: SavedComparison) -> StepOutcome:
    """Return the outcome: whether only labels differ, where scores are equal except for
    rounding."""
    reason = describe_tied_labels(
        case, comparison.compared, comparison.values, comparison.matched.sets, is_defined=False
    )
    if not reason:
        return Skip("not only labels of equal scores differ")
    return Found(DiagnosisResult(AGREE, reason=reason), case)


def explain_by_tf32(case: Case, comparison: SavedComparison) -> StepOutcome:
    """Return the outcome: whether the outputs were computed in TF32, and differ by no more than its
    effect; only noted if the file does not say how they were computed.
    """
    losses = tf32_losses(case, comparison)
    if losses is None:
        return Skip("TF32 does not explain the differences")
    loss = max(losses, key=lambda loss: loss.difference)
    with case.record_step(TF32.upper()) as notes:
        notes.append(steps.tf32_effect(loss.difference, loss.effect))
    if not all(loss.is_known for loss in losses):
        return Skip("the file does not say how the outputs were computed")
    reason = tf32.outputs_in_tf32(loss.difference, loss.effect)
    return Found(DiagnosisResult(AGREE, reason=reason), case)


def explain_outputs_by_precision(case: Case, comparison: SavedComparison) -> StepOutcome:
    """Return the outcome: whether rounding explains the outputs,
    if no intermediate tensors are known.
    """
    if comparison.matched.inner:
        return Skip("tensors before the outputs are checked first")
    return explain_by_precision(case, comparison)


def explain_by_nan(case: Case, comparison: SavedComparison) -> StepOutcome:
    """Return the node that creates NaN absent from the saved results, and its possible changes."""
    broken = find_first_nan(case, comparison)
    if broken is None:
        return Skip("no node creates NaN that is not in the saved results")
    run = (comparison.feed, comparison.saved_values, comparison.outputs)
    culprit = add_change(case, run, broken, comparison.arbiter)
    return Found(DiagnosisResult(FAULT, [culprit]), case)


def find_first_nan(case: Case, comparison: SavedComparison) -> Culprit | None:
    """Return the first node that creates NaN absent from the saved results, or None.
    The result is None if there is none, or if a program gives expected tensors.
    """
    if comparison.run.is_traced or not introduces_nan(comparison.outputs, comparison.saved_values):
        return None
    return first_non_finite(case, trace_tensors(case, comparison.arbiter, comparison.feed))


def explain_by_half_precision(case: Case, comparison: SavedComparison) -> StepOutcome:
    """Return the effect of half precision on a model that computes in it,
    if that explains the difference.
    """
    half = find_half_model(case, [comparison.feed])
    if half is None or not half.is_whole:
        return Skip("the model does not compute in half precision")
    saved, outputs = comparison.saved_values, comparison.outputs
    return diagnose_saved_outputs(case, half, saved, outputs, comparison.arbiter)


def explain_by_outputs_alone(case: Case, comparison: SavedComparison) -> StepOutcome:
    """Return the outcome of explaining outputs without saved intermediate tensors."""
    case = take_branches(case, comparison.feed, comparison.saved_values)
    run = (comparison.feed, comparison.saved_values, comparison.outputs)
    answer = explain_outputs(
        case, run, comparison.compared.differences, comparison.arbiter,
        (comparison.number, comparison.other_sets),
    )  # fmt: skip
    fitted = comparison.matched
    if not isinstance(answer, Found) or answer.result.verdict != INCONCLUSIVE:
        return answer
    if fitted.lost:
        return evolve(answer, result=evolve(answer.result, reason=fitted.doubt(differs=True)))
    pair = comparison.values, fitted.sets
    if not answer.result.culprits and rounding_explains(
        case, comparison.feeds, *pair, is_amplified=True
    ):
        return evolve(answer, result=evolve(answer.result, reason=reasons.AMPLIFIED))
    is_open = not answer.result.culprits
    dtype = accepted_dtype(case, comparison.feeds, [pair]) if is_open else None
    if dtype is not None:
        reason = reasons.accepted_by_run(dtype)
        return evolve(answer, result=evolve(answer.result, reason=reason))
    return evolve(answer, ends=not fitted.is_whole)


def explain_all_sets(
    case: Case, comparison: SavedComparison, explain: Step[SavedComparison]
) -> StepOutcome:
    """Return the culprits of the worst input set, and those of others that they do not explain."""
    answer = explain(take_branches(case, comparison.feed, comparison.saved_values), comparison)
    if not isinstance(answer, Found) or answer.result.verdict != FAULT:
        return answer
    culprits = [*answer.result.culprits]
    others = [at for at, _ in enumerate(comparison.compared.sets) if at != comparison.number]
    for number in others[:_SETS]:
        nodes = {name for culprit in culprits for name in culprit.nodes}
        if comparison.is_explained_by(nodes, case.model.graph, number):
            continue
        other = comparison.limit_to(number)
        other_case = take_branches(case, other.feed, other.saved_values)
        more = explain(evolve(other_case, feed=other.feed), other)
        if isinstance(more, Found) and more.result.verdict == FAULT:
            culprits += [one for one in more.result.culprits if nodes.isdisjoint(one.nodes)]
    return evolve(answer, result=evolve(answer.result, culprits=culprits))


def settle_differences(
    case: Case,
    comparison: SavedComparison,
    differing: Mapping[str, tuple[Deviation, Any]],
    trace: Trace,
) -> tuple[dict[str, tuple[Deviation, Any]], dict[str, str]]:
    """Return wrong tensors, and the selecting node of each tensor that differs only by it.

    The first are tensors that nodes compute incorrectly, by name, with the deviation and the
    value. The others differ only because a node selects another of equal elements.

    Args:
        case: the model.
        comparison: the saved results.
        differing: the tensors that nodes do not reproduce, with deviation and value.
        trace: the saved tensors.
    """
    graph, outputs = case.model.graph, comparison.outputs
    computed = {name: value for name, (_, value) in differing.items()}
    tied = find_ties(graph, computed, trace.all_values)
    settled = {name: pair for name, pair in differing.items() if name not in tied}
    # No node computes an output from saved tensors if constants alone determine it.
    fed = nodes_after_inputs(graph, comparison.feed.keys() | trace.values.keys())
    for name, deviation in comparison.compared.sets[comparison.number].items():
        if name in outputs and graph.producers.get(name, -1) not in {*fed, -1}:
            settled[name] = deviation, outputs[name]
    return settled, tied


def describe_order(
    graph: Graph, index: int, trace: Trace, name: str, output: Any, proven: bool
) -> Iterator[Fact]:
    """Yield the fact that an order of updates explains the saved result of a scatter,
    or that none does; the scatter writes several updates to one element.

    Args:
        graph: the model.
        index: the node.
        trace: the saved tensors.
        name: the result.
        output: its computed value.
        proven: whether a change of the node explains the result too.
    """
    node, values = graph.nodes[index], trace.all_values
    if node.op not in SCATTERS or node.attribute("reduction", "none") != "none":
        return
    weights = {
        name: graph.constants[name].values for name in node.inputs if name in graph.constants
    }
    inputs = [weights.get(name, values.get(name)) for name in node.inputs]
    if any(value is None for value in inputs):
        return
    axis = int(node.attribute("axis", 0))
    try:
        count = count_explained_by_order(axis, inputs, output, trace.values[name], node.op)
    except (IndexError, ValueError):  # The indices are not valid, or do not fit the updates.
        return
    if count == 0 and not proven:
        yield evidence.no_order_explains(node.op)
    if count and proven and count < _COINCIDENCES:
        yield evidence.order_explains(node.op)
