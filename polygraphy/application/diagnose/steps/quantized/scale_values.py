"""Ending: a constant scale that is not a positive number is at fault for what follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Found
from polygraphy.domain.checks.scales import WrongScale, find_wrong_scales
from polygraphy.domain.diagnosis.culprit import (
    FAULT,
    MODEL,
    NO_FAULT,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.words import evidence, remedies
from polygraphy.domain.diagnosis.words import quantization as words
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.model.regions import region_before

_NAN = ("nan", "overflow")
"""Causes of nodes that may only show the effect of a scale."""
_INDEPENDENT = NO_FAULT | {"refusal"}
"""Causes that no scale explains."""


def blame_wrong_scales(answer: Found, _: Request) -> Found:
    """Return the result with the node that has a wrong scale as the culprit, instead of no node, or
    of nodes that show its effect, if there are no correct results to compare with."""
    case, result = answer.case, answer.result
    origins = _find_used_scales(case)
    if not origins:
        return answer
    nodes = case.model.graph.nodes
    remaining: list[Culprit] = []
    effects: dict[int, list[Fact]] = {index: [] for index in origins}
    for culprit in result.culprits:
        origin = _find_origin(case, culprit, origins)
        if origin is None:
            remaining.append(culprit)
        elif culprit.cause in _NAN and nodes[origin].label not in culprit.nodes:
            effects[origin].append(evidence.creates_nan(culprit.op, culprit.nodes[0]))
    if result.culprits and len(remaining) == len(result.culprits):
        return answer
    named = [_describe(nodes[index], origins[index], effects[index]) for index in origins]
    return evolve(answer, result=DiagnosisResult(FAULT, [*named, *remaining]))


def _find_used_scales(case: Case) -> dict[int, WrongScale]:
    """Return the wrong scales that outputs depend on, by the position of the first node that reads
    each, or that contains this node in a branch."""
    graph = case.model.graph
    found: dict[int, WrongScale] = {}
    for index, node in enumerate(graph.nodes):
        inner = [scale for body in node.graphs for scale in _find_inner_scales(body, graph)]
        found.update((index, scale) for scale in inner[:1])
    positions = {id(node): index for index, node in enumerate(graph.nodes)}
    found.update((positions[id(scale.nodes[0])], scale) for scale in find_wrong_scales(graph))
    if not found:
        return {}
    used = {index for tensor in graph.outputs for index in region_before(graph, tensor.name, ())}
    return {index: scale for index, scale in sorted(found.items()) if index in used}


def _find_inner_scales(body: Graph, graph: Graph) -> Iterator[WrongScale]:
    """Yield the wrong scales in a body of a node of a graph."""
    for inner in body.walk():
        yield from find_wrong_scales(inner, graph.constants)


def _find_origin(case: Case, culprit: Culprit, origins: Mapping[int, WrongScale]) -> int | None:
    """Return the position of the node whose scale explains a culprit; None if there is none: a
    backend may compute such a node in its own way, and NaN may follow later."""
    graph = case.model.graph
    if culprit.cause in _INDEPENDENT or (culprit.party == MODEL and culprit.cause not in _NAN):
        return None
    nodes = [index for index, node in enumerate(graph.nodes) if node.label in culprit.nodes]
    for index, scale in origins.items():
        if any(graph.nodes[at] in scale.nodes for at in nodes):
            return index
        tensors = [name for at in nodes for name in graph.nodes[at].makes]
        if culprit.cause in _NAN and any(index in region_before(graph, t, ()) for t in tensors):
            return index
    return None


def _describe(node: Node, scale: WrongScale, effects: Sequence[Fact]) -> Culprit:
    """Return the culprit for a wrong scale.

    Args:
        node: the node that reads it, or that contains this node in a branch.
        scale: the scale.
        effects: what follows from it.
    """
    reader = scale.nodes[0]
    facts = [words.wrong_scale(str(scale)), *effects]
    if reader is not node:
        facts.insert(0, evidence.is_in_subgraph(reader.operator, reader.label))
    remedy = Remedy(note=remedies.QUANTIZE_AGAIN)
    tensor = next(iter(node.makes), None)
    return Culprit([node.label], tensor, MODEL, "scale", None, facts, remedy, node.operator)
