"""Step: a fault that is smaller than what states in half precision explain."""

from __future__ import annotations

from collections.abc import Collection

from polygraphy.application.diagnose.case import REFUSALS, Case
from polygraphy.application.diagnose.comparisons.state_steps import ModelWithStates
from polygraphy.application.diagnose.comparisons.step_runs import (
    Judge,
    Party,
    reference_party,
    run_side_by_side,
)
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.culprit import (
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.pairing import pair_graphs
from polygraphy.domain.diagnosis.two_models import plan_copies, suspect_names, suspects
from polygraphy.domain.diagnosis.words import evidence, remedies, state_evidence, state_reasons
from polygraphy.domain.model.graph import Graph, Node, is_float_cast
from polygraphy.domain.model.regions import MOVES
from polygraphy.ports.diagnosing import NarrowModels, apply_copies
from polygraphy.ports.editing import open_model

_COARSE = ("float16", "bfloat16")
_HAND_ON = MOVES | {"Concat", "Expand", "Gather", "ScatterElements", "ScatterND", "Shape", "Size",
                    "Split", "TensorScatter"}  # fmt: skip
"""Operators that hand on elements of a state, or read only its shape."""
_FEW = 8
"""The most differences between the models of which each is tried. Chosen, not measured."""


def explain_in_wide_states(case: Case, states: ModelWithStates) -> StepOutcome:
    """Return the difference between a model and its reference that is left if the model keeps its
    states in float32; a skip if none is, or if something else is coarser than float32."""
    own, right = states.own, states.right
    if right is None or not _rounds_only_states(own, right):
        return Skip("not only the states of the model are in half precision")
    try:
        model, reference = (
            open_model(resolve(NarrowModels).widen_model(side.model.proto, drops_casts=True))
            for side in (own, right)
        )
        wide = reference_party(case, own, states.loader, model)
        judge = Judge.between(case, wide, right)
        wrong = run_side_by_side(judge).first
    except REFUSALS:
        return Skip("the model does not run with states in float32")
    if wrong is None:
        return Skip("with states in float32, all steps agree")
    step, output = own.feeds[wrong.at].step.index, wrong.output
    pairing = pair_graphs(model.graph, reference.graph)
    for suspect in [one for one in suspects(pairing) if one.cause != "structure"][:_FEW]:
        try:
            plan = plan_copies(pairing, [suspect])
            repaired = apply_copies(model.proto, reference.proto, plan)
            is_left = run_side_by_side(judge, repaired).first is not None
        except REFUSALS:
            continue
        if is_left:
            continue
        facts = [
            state_evidence.differs_in_wide_states(step, output),
            evidence.change_of_node(suspect.change),
            evidence.undone_matches_outputs(),
        ]
        note = remedies.take(suspect.change, [name for name, _ in suspect.weights])
        remedy = Remedy(None, True, note)
        nodes = suspect_names(model.graph, suspect)
        cause, op = suspect.cause, suspect.op
        culprit = Culprit(nodes, output, MODEL, cause, facts=facts, remedy=remedy, op=op)
        return Found(DiagnosisResult(FAULT, [culprit]), case)
    reason = state_reasons.beyond_half_states(step, output)
    return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)


def _rounds_only_states(own: Party, right: Party) -> bool:
    """Return whether a model keeps states in half precision but both parties compute
    in float32."""
    kinds = {own.plan.inputs[pair.input].dtype for pair in own.plan.pairs}
    if kinds.isdisjoint(_COARSE) or own.first is not None or not right.has_weights:
        return False
    sides = (own, right)
    if any(side.stored_precision() or 4 in side.plan.accuracy_levels() for side in sides):
        return False
    return all(map(_computes_in_float32, sides))


def _computes_in_float32(party: Party) -> bool:
    """Return whether only nodes that hand on elements read or compute tensors in half precision."""
    return _is_wide(party.model.graph, set())


def _is_wide(graph: Graph, outer: Collection[str]) -> bool:
    """Return whether only nodes that hand on elements read or compute coarse tensors in a graph and
    its subgraphs; `outer` are the coarse tensors of surrounding graphs."""
    known = {**graph.tensors, **{tensor.name: tensor for tensor in graph.outputs}}
    known |= {tensor.name: tensor for tensor in graph.inputs}
    coarse = {name for name, tensor in known.items() if tensor.dtype in _COARSE}
    coarse |= {name for name, weight in graph.constants.items() if weight.dtype in _COARSE}
    coarse |= {name for name in outer if name not in known}
    for node in graph.nodes:
        inner = [*node.graphs]
        if not all(_is_wide(body, coarse) for body in inner):
            return False
        if inner or (coarse.isdisjoint((*node.reads, *node.makes)) and not is_float_cast(node)):
            continue
        if node.operator not in _HAND_ON:
            return False
        if _hands_on_type(node):  # Files declare few types of tensors inside subgraphs.
            coarse |= {name for name in node.makes if name not in known}
    return True


def _hands_on_type(node: Node) -> bool:
    """Return whether the outputs of a node that reads or makes coarse tensors are coarse."""
    if node.op == "Cast":
        return str(node.attribute("to", "")).lower() in _COARSE
    return node.op not in ("Shape", "Size")
