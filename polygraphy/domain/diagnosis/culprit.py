"""Results of a diagnosis: culprits with party, cause, evidence and remedy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

from attrs import Factory, evolve, field, frozen

from polygraphy.binding import port
from polygraphy.domain.diagnosis.facts import Fact, facts_of, texts_of_facts
from polygraphy.domain.diagnosis.words import evidence

if TYPE_CHECKING:
    from polygraphy.domain.rounding import Deviation

AGREE, FAULT = "agree", "fault"
ILL_CONDITIONED, INCONCLUSIVE = "ill-conditioned", "inconclusive"
MODEL = "model"
"""The party at fault if the model itself differs from its reference."""
MODEL_FILE = "model file"
"""The party at fault if the exporter translates the program correctly, but the file differs from
that export: another program or checkpoint was exported, or the file was changed afterwards."""
NO_FAULT = frozenset({"data", "nondeterminism", ILL_CONDITIONED})
"""Causes for which no party is at fault."""


@frozen
class Remedy:
    """An action that corrects the outputs, and its command.

    Attributes:
        command: a command line as it can be typed; None where there is none.
        proven: whether it was tried on the whole model, and all outputs matched.
        note: the advice in words; empty if there is a command or no advice.
    """

    command: str | None = None
    proven: bool = False
    note: str = ""


@frozen
class Culprit:
    """Nodes at fault, with the cause and the evidence.

    Attributes:
        nodes: their names in the model; one without a name goes by its first output.
        tensor: the first tensor that shows the fault.
        party: the party at fault: the flag of a backend without its dashes, `MODEL` or
            `MODEL_FILE`.
        cause: a word, such as ``rewrite``, ``kernel``, ``weight`` or ``nan``.
        rewrite: the name of the pass that is at fault, if one is; several are joined by ``+``.
        facts: the facts that were measured, tried and proved.
        remedy: the remedy.
        op: the operator of the last node.
        origin: the line of the program that the last node was exported from; None where the model
            does not say.
    """

    nodes: Sequence[str]
    tensor: str | None
    party: str
    cause: str
    rewrite: str | None = None
    facts: Sequence[Fact] = ()
    remedy: Remedy = Factory(Remedy)
    op: str = ""
    origin: str | None = None

    @property
    def evidence(self) -> list[str]:
        """The facts in English."""
        return texts_of_facts(self.facts)


@frozen
class Attempt:
    """A step of a diagnosis, with its result and time.

    Attributes:
        title: the action.
        result: its result.
        seconds: duration in seconds.
        facts: the facts in the result, as documents have them.
    """

    title: str
    result: str
    seconds: float
    facts: Sequence[Mapping[str, Any]] = field(init=False)

    @facts.default
    def _facts(self) -> list[dict[str, Any]]:
        """Return the facts of the result as data."""
        return [fact.data() for fact in facts_of(self.result)]


@frozen
class Curve:
    """The errors of tensors, in the order in which the model computes them.

    Attributes:
        party: the party that computed them.
        what: ``cumulative`` of what it made of the inputs, with nothing rewritten; ``isolated``
            where each node computed from what is right; ``rewritten`` where each node of the graph
            that it really runs did.
        tensors: their deviations; of half precision, whose largest absolute error is not known
            (NaN), the relative one is the root mean square of the differences, divided by that of
            the tensor.
        wrong: the tensors at fault.
    """

    party: str
    what: str
    tensors: Mapping[str, Deviation]
    wrong: Collection[str] = ()

    def rename(self, names: Mapping[str, str]) -> Curve:
        """Return the curve with other names of tensors."""
        tensors = {names.get(name, name): off for name, off in self.tensors.items()}
        return evolve(self, tensors=tensors, wrong={names.get(name, name) for name in self.wrong})

    def data(self) -> dict[str, Any]:
        """Return the curve as JSON values for documents."""
        rows = [
            {
                "name": name,
                "absolute": None if isnan(off.largest) else off.largest,
                "relative": off.relative,
                "excess": off.excess,
                "wrong": name in self.wrong,
            }
            for name, off in self.tensors.items()
        ]
        return {"party": self.party, "what": self.what, "tensors": rows}


@frozen
class DiagnosisResult:
    """The result of a diagnosis. True if no fault was found.

    Attributes:
        verdict: `AGREE`, `FAULT`, `ILL_CONDITIONED` or `INCONCLUSIVE`.
        culprits: the culprits, in the order of the model.
        attempts: the attempts.
        reason: the reason why nothing was found, or why no party is to blame; a sentence.
        curves: errors of tensors, as far as they were measured.
    """

    verdict: str
    culprits: Sequence[Culprit] = ()
    attempts: Sequence[Attempt] = ()
    reason: str = ""
    curves: Sequence[Curve] = ()

    def __bool__(self) -> bool:
        """Return whether no fault was found."""
        return self.verdict == AGREE

    def _repr_html_(self) -> str:
        """Return the culprits as HTML for notebooks."""
        return diagnosis_html(self)

    def facts(self) -> list[dict[str, Any]]:
        """Return the culprits as JSON values for documents."""
        return [
            {
                "nodes": list(culprit.nodes),
                "op": culprit.op,
                "origin": culprit.origin,
                "tensor": culprit.tensor,
                "party": culprit.party,
                "cause": culprit.cause,
                "rewrite": culprit.rewrite,
                "evidence": culprit.evidence,
                "facts": [fact.data() for fact in culprit.facts],
                "remedy": {
                    "command": culprit.remedy.command,
                    "proven": culprit.remedy.proven,
                    "note": culprit.remedy.note,
                    "facts": [fact.data() for fact in facts_of(culprit.remedy.note)],
                },
            }
            for culprit in self.culprits
        ]


def merge_same_nodes(culprits: Sequence[Culprit]) -> list[Culprit]:
    """Return culprits in order, merged if node, party and cause are the same,
    with the facts of all.
    """
    merged: dict[tuple[object, ...], Culprit] = {}
    for culprit in culprits:
        key = (tuple(culprit.nodes), culprit.tensor, culprit.party, culprit.cause)
        if (first := merged.get(key)) is None:
            merged[key] = culprit
            continue
        new = [fact for fact in culprit.facts if fact not in first.facts]
        is_last = [fact for fact in first.facts if fact in culprit.facts]
        facts = [fact for fact in first.facts if fact not in is_last]
        merged[key] = evolve(first, facts=[*facts, *new, *is_last])
    return list(merged.values())


def with_nan(broken: Culprit, culprits: Sequence[Culprit]) -> list[Culprit]:
    """Return the culprits with the node at which NaN or infinity appears as evidence;
    that node itself if there are none.

    A node that computes NaN from an incorrect value is not at fault.
    """
    if not culprits:
        return [broken]
    if all(set(culprit.nodes).isdisjoint(broken.nodes) for culprit in culprits):
        shown = [evidence.creates_nan(broken.op, broken.nodes[0]), broken.facts[0]]
        return [*culprits[:-1], evolve(culprits[-1], facts=[*culprits[-1].facts, *shown])]
    return [
        (
            culprit
            if set(culprit.nodes).isdisjoint(broken.nodes)
            else evolve(
                culprit if culprit.remedy.proven else broken,
                facts=[*broken.facts, *culprit.facts],
                remedy=culprit.remedy,
            )
        )
        for culprit in culprits
    ]


@port
def diagnosis_html(result: DiagnosisResult) -> str:  # type: ignore[empty-body]
    """Return the verdict, the evidence and the fix as HTML for notebooks."""
