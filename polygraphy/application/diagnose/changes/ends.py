"""Nodes that are missing or too many at the end of a model, before an output.

If an output equals an inner tensor of the reference, the model lacks the nodes that the reference
applies to this tensor. If an inner tensor equals the expected output, the nodes after it are too
many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.application.diagnose.case import Values
from polygraphy.domain.diagnosis.borrowed import is_informative
from polygraphy.domain.diagnosis.culprit import MODEL, Culprit, Remedy
from polygraphy.domain.diagnosis.words import evidence, remedies
from polygraphy.domain.model.graph import Graph
from polygraphy.domain.model.regions import region_before
from polygraphy.domain.rounding import deviation


@frozen
class _Side:
    """One of two models.

    Attributes:
        graph: its nodes.
        values: its tensors, by name.
    """

    graph: Graph
    values: Values

    def find_before(self, output: str, expected: Any) -> str | None:
        """Return the last tensor before an output that equals an array; None if there is none."""
        for index in reversed(region_before(self.graph, output, ())):
            for name in self.graph.nodes[index].makes:
                if name != output and _are_equal(self.values.get(name), expected):
                    return name
        return None


def find_changed_ends(
    graph: Graph, values: Values, reference: Graph, theirs: Values, outputs: Mapping[str, str]
) -> Sequence[Culprit]:
    """Return the nodes at which the model ends too early, or the nodes that it has too many at its
    end; empty unless this explains all given outputs.

    Args:
        graph: the nodes of the model.
        values: its tensors.
        reference: the nodes of the reference.
        theirs: its tensors.
        outputs: the outputs that differ, and their names in the reference.
    """
    own, other = _Side(graph, values), _Side(reference, theirs)
    culprits = [*_find_each(own, other, outputs)]
    return culprits if len(culprits) == len(outputs) else ()


def _find_each(own: _Side, other: _Side, outputs: Mapping[str, str]) -> Iterator[Culprit]:
    """Yield the culprit for each output that a changed end explains."""
    for name, twin in outputs.items():
        maker = own.graph.producers.get(name)
        value, expected = own.values.get(name), other.values.get(twin)
        if maker is None or not (is_informative(np.asarray(value)) and expected is not None):
            continue
        # A last node that changes nothing, such as a product with 1, is wrong itself.
        early = other.find_before(twin, value) if own.find_before(name, value) is None else None
        if early is not None:
            lacking = region_before(other.graph, twin, {early})
            ops = [other.graph.nodes[index].op for index in lacking]
            facts = [evidence.ends_too_early(name, early, ops)]
            remedy = Remedy(None, True, remedies.append_nodes(ops))
            node = own.graph.nodes[maker]
            yield Culprit([node.label], name, MODEL, "structure", facts=facts, remedy=remedy,
                          op=node.op)  # fmt: skip
            continue
        late = (
            own.find_before(name, expected) if other.find_before(twin, expected) is None else None
        )
        if late is not None:
            nodes = [own.graph.nodes[index] for index in region_before(own.graph, name, {late})]
            facts = [evidence.ends_too_late(name, late, [node.op for node in nodes])]
            remedy = Remedy(None, True, remedies.end_at(late))
            yield Culprit([node.label for node in nodes], name, MODEL, "structure", facts=facts,
                          remedy=remedy, op=nodes[0].op if len(nodes) == 1 else "")  # fmt: skip


def _are_equal(value: Any, expected: Any) -> bool:
    """Return whether two tensors are equal within rounding, and have the same shape."""
    if np.shape(value) != np.shape(expected) or value is None:
        return False
    return is_informative(np.asarray(value)) and not deviation(value, expected).is_wrong
