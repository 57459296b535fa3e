"""What an edit took out of a model, and what it put in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from attrs import frozen

from polygraphy.domain.model.description import Model

NodeLabel = tuple[str, str]
"""The operator of a node, and its name, or that of its first result where it has none."""


@frozen
class Outline:
    """What a model consists of, without how its parts are connected.

    Attributes:
        model: its description, without nodes.
        nodes: how often there is such a node, in all graphs of the model.
        weights: how often there is a weight of a name.
    """

    model: Model
    nodes: Mapping[NodeLabel, int]
    weights: Mapping[str, int]


@frozen
class Edit:
    """In what parts a model differs from what it was before it was edited. What has the same name
    counts as the same, also when it is connected to something else or has another value.
    """

    removed_nodes: tuple[NodeLabel, ...] = ()
    added_nodes: tuple[NodeLabel, ...] = ()
    removed_weights: tuple[str, ...] = ()
    added_weights: tuple[str, ...] = ()


def edit_between(before: Outline, after: Outline) -> Edit:
    """Return what was taken out and put in, in the order of the models."""
    nodes = Counter(before.nodes), Counter(after.nodes)
    weights = Counter(before.weights), Counter(after.weights)
    return Edit(
        removed_nodes=tuple((nodes[0] - nodes[1]).elements()),
        added_nodes=tuple((nodes[1] - nodes[0]).elements()),
        removed_weights=tuple((weights[0] - weights[1]).elements()),
        added_weights=tuple((weights[1] - weights[0]).elements()),
    )
