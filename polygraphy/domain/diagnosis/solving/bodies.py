"""Variants of a node with one change in its bodies: of a loop, a scan or a branch."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from polygraphy.domain.diagnosis.variants import Variant, variants
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import Graph, Node


def body_variants(node: Node) -> Iterator[Variant]:
    """Yield the variants of a node with a common mistake in a node of its bodies."""
    for body, index in inner_nodes(node):
        for inner in (*variants(body, index), *_unread_variants(body, index)):
            yield in_body(node, inner)


def in_body(node: Node, inner: Variant) -> Variant:
    """Return the variant of a node in whose body a node is changed."""
    change = changes.in_subgraph(inner.change, node.op, node.label)
    return Variant(inner.cause, change, node, inner.weights, inner)


def inner_nodes(node: Node) -> Iterator[tuple[Graph, int]]:
    """Yield the bodies of a node, with the position of each of their nodes, also of bodies in
    them."""
    for body in node.graphs:
        for index in body.operations:
            yield body, index
            yield from inner_nodes(body.nodes[index])


def _unread_variants(body: Graph, index: int) -> Iterator[Variant]:
    """Yield the variants of a node that reads a constant of its body that no node reads."""
    node = body.nodes[index]
    used = {name for other_node in body.nodes for name in other_node.reads}
    for name in body.constants.keys() - used:
        for at in (*(at for at, read in enumerate(node.inputs) if not read), len(node.inputs)):
            reads = (*node.inputs[:at], name, *node.inputs[at + 1 :])
            change = changes.unread_input(node.op, name)
            yield Variant("structure", change, evolve(node, inputs=reads))
