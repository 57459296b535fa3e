"""How the nodes in which a model differs are taken from the reference."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

from polygraphy.domain.diagnosis.pairing import Pairing
from polygraphy.domain.diagnosis.two_models import Suspect
from polygraphy.domain.errors import UsageError
from polygraphy.domain.model.description import Node


@frozen
class NodeCopy:
    """A node of the reference, and how it is connected in the model.

    Attributes:
        twin: the first output of the node in the reference.
        inputs: what it reads, by the names of the model.
        outputs: what it makes.
        replaces: the first output of the node of the model whose place it takes; None for a node
            that is new there.
        captured: what the graphs that it holds read of those around them: the name in the
            reference, and in the model.
    """

    twin: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    replaces: str | None = None
    captured: dict[str, str] = field(factory=dict)


@frozen
class Mending:
    """What is taken from the reference: nodes, each after those that it reads, and weights by their
    names there, and their new names here.
    """

    nodes: tuple[NodeCopy, ...] = ()
    weights: dict[str, str] = field(factory=dict)


def mending(pairing: Pairing, found: Iterable[Suspect]) -> Mending:
    """Return how a model is made to agree with the reference in what suspects name.

    Raises:
        UsageError: what is to be copied reads an input that the model does not have.
    """
    plan = _Plan(pairing)
    for index, other in dict(pair for suspect in found for pair in suspect.twins).items():
        plan.replace(index, other)
    return Mending(tuple(plan.nodes), plan.weights)


class _Plan:
    """Collects what is to be copied."""

    def __init__(self, pairing: Pairing) -> None:
        self.pairing = pairing
        self.nodes: list[NodeCopy] = []
        self.weights: dict[str, str] = {}
        self._names = {theirs: mine for mine, theirs in pairing.tensors.items()}
        self._taken = {
            *pairing.model.producer,
            *pairing.model.weights,
            *(tensor.name for tensor in pairing.model.graph.inputs),
        }

    def replace(self, index: int, other: int) -> None:
        """Put a node of the reference in place of one of the model."""
        mine = self.pairing.model.nodes[index]
        theirs = self.pairing.reference.nodes[other]
        here = dict(zip(theirs.inputs, mine.inputs))
        inputs = tuple(self._operand(name, here.get(name, "")) for name in theirs.inputs)
        outputs = tuple(mine.outputs[: len(theirs.outputs)])
        made = next(filter(None, theirs.outputs))
        held = {name: self._operand(name, name) for name in captured(theirs)}
        place = next(filter(None, mine.outputs))
        self.nodes.append(NodeCopy(made, inputs, outputs, place, held))

    def _operand(self, name: str, here: str = "") -> str:
        """Return what a tensor of the reference is called in the model, where it is copied to if it
        has no place yet.
        """
        sides = self.pairing.model, self.pairing.reference
        if not name or name in self._names:
            return self._names.get(name, "")
        if name in sides[1].weights:
            same = here in sides[0].weights and sides[0].digest(here) == sides[1].digest(name)
            if not same:
                self.weights.setdefault(name, self._free(name))
            return here if same else self.weights[name]
        producer = sides[1].producer.get(name)
        if producer is None:
            if name not in self._taken:
                raise UsageError(
                    f"What is to be copied reads {name!r}, an input of the reference that the model"
                    " does not have.",
                    hint="Is the reference another model?",
                )
            return name
        node = sides[1].nodes[producer]
        inputs = tuple(self._operand(one) for one in node.inputs)
        outputs = tuple(self._free(one) if one else "" for one in node.outputs)
        self._names.update(zip(node.outputs, outputs))
        held = {one: self._operand(one) for one in captured(node)}
        self.nodes.append(
            NodeCopy(next(filter(None, node.outputs)), inputs, outputs, captured=held)
        )
        return self._names[name]

    def _free(self, name: str) -> str:
        """Return a name that the model does not have."""
        made, number = name, 0
        while made in self._taken:
            number += 1
            made = f"{name}_reference{number if number > 1 else ''}"
        self._taken.add(made)
        return made


def captured(node: Node) -> list[str]:
    """Return the tensors that the graphs inside a node read of those around them."""
    found: dict[str, None] = {}
    for graph in node.graphs:
        own = {tensor.name for tensor in graph.inputs}
        own |= {weight.name for weight in graph.weights}
        own |= {name for inner in graph.nodes for name in inner.outputs}
        for inner in graph.nodes:
            found.update(
                dict.fromkeys(n for n in (*inner.inputs, *captured(inner)) if n not in own)
            )
        found.update(dict.fromkeys(t.name for t in graph.outputs if t.name not in own))
    return [name for name in found if name]
