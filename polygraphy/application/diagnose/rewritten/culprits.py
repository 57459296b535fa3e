"""Who is to blame where a model parts from a reference whose nodes are not those of the model."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.rewritten.explaining import Change, Explanation, grouped
from polygraphy.application.diagnose.rewritten.parting import Parting, partings
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.culprit import MODEL, Culprit, Remedy
from polygraphy.domain.diagnosis.pairing import Pairing, Side
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.tensors.naming import counted
from polygraphy.ports.diagnosing import SuspectedParty, altered
from polygraphy.ports.editing import OpenModel, OpenModels

_FEW = 8
"""So many nodes are named together at most."""
_LEFT = 1e-4
"""What is left of a difference, relative to the size of the outputs."""


def parted(
    case: Case,
    reference: OpenModel,
    pairing: Pairing,
    party: SuspectedParty,
    feeds: tuple[Feed, Feed],
    goal: Values,
    known: Sequence[Culprit],
) -> list[Culprit]:
    """Return the nodes that make something else of right values than the reference.

    Args:
        case: the model.
        reference: the one that is right.
        pairing: nodes of both, by structure.
        party: who runs both.
        feeds: data by the names of the model, and of the reference.
        goal: the outputs that are right.
        known: what the structure of both says, as far as that is proven.

    Returns:
        None of `known` where that could not be found out, or is said by them already.
    """
    with case.attempt("tensors that are the same") as notes:
        found = partings(case, reference, party, *feeds, goal)
        if found is None:
            notes.append("They do not say where the models part.")
            return list(known)
        notes.append(
            f"{len(found.same)} pairs; the models part in {counted(len(found.places), 'place')}."
        )
    made: list[Culprit] = []
    reasons: list[Explanation] = []
    with case.attempt("changed nodes") as notes:
        for group in grouped(found.places):
            change = Change(case, pairing, party, found, feeds[0], group)
            if change.is_right:
                continue
            inside = _within(case, group, known)
            said = len(inside) == 1 and inside[0].cause != "structure"
            reason = change.likely() or (None if said else change.other())
            if reason is None:
                made += inside or [_unexplained(case, group)]
                continue
            reasons.append(reason)
            made.append(_changed(case, reason))
        notes.append(f"{len(reasons)} of {len(made)} explained.")
    is_whole = reasons and len(reasons) == len(made)
    if is_whole and not _proven(case, pairing.model, party, feeds[0], goal, reasons):
        return list(known) or made
    if is_whole:
        remedy = case.undoing(pairing.model, [one.variant for one in reasons])
        made = [evolve(one, remedy=remedy) for one in made]
    # They are the fewest that explain the outputs: fewer of them prove nothing.
    return list(known) if all(one in known for one in made) else made


def _changed(case: Case, reason: Explanation) -> Culprit:
    node, variant = case.model.nodes[reason.node], reason.variant
    said = f"{variant.what[0].upper()}{variant.what[1:]}."
    evidence = [said, "With only that changed, it makes what the reference does."]
    return Culprit(
        [node.name], node.makes[0], MODEL, variant.cause,
        evidence=evidence, remedy=Remedy(None, True, f"Undo that {variant.what}."), op=node.op,
    )  # fmt: skip


def _within(case: Case, group: Sequence[Parting], known: Sequence[Culprit]) -> list[Culprit]:
    """Return what the structure says of nodes."""
    names = {case.model.nodes[index].name for one in group for index in one.border.nodes}
    return [one for one in known if set(one.nodes) <= names]


def _unexplained(case: Case, group: Sequence[Parting]) -> Culprit:
    """Return nodes that no change makes right."""
    nodes = [case.model.nodes[i] for i in sorted({i for one in group for i in one.unproven})]
    names = [node.name for node in nodes if node.op != "Constant"]
    tensors = ", ".join(repr(one.border.tensor) for one in group)
    evidence = [
        f"Of what is the same before, they make another {tensors} than the reference.",
        f"With only {tensors} taken from the reference, all outputs match.",
    ]
    last = group[-1].border.tensor
    op = nodes[-1].op if nodes else ""
    return Culprit(names[-_FEW:], last, MODEL, "structure", evidence=evidence, op=op)


def _proven(
    case: Case,
    side: Side,
    party: SuspectedParty,
    feed: Feed,
    goal: Values,
    reasons: Sequence[Explanation],
) -> bool:
    """Return whether all outputs match with what was changed undone, in the whole model."""
    model = case.model.proto
    known = {"", *feed, *side.weights, *side.producer}
    if any(set(one.variant.node.inputs) - known - one.variant.weights.keys() for one in reasons):
        return True  # What is missing is only in the reference, from where it was taken.
    try:
        for reason in reasons:
            output = next(filter(None, reason.variant.node.outputs))
            model = altered(model, output, reason.variant)
        values = party.load(model)(feed)
    except (PolygraphyException, StopIteration):
        return False
    found = case.differing(values, goal)
    is_right = all(each.relative <= _LEFT for each in found.values())
    if is_right:
        case.mend(lambda: resolve(OpenModels).open(model))
    return is_right
