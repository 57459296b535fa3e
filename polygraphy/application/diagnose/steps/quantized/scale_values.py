"""Ending: a constant scale that is not a positive number is at fault for what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    remaining: list[Culprit] = []
    effects: dict[int, list[Fact]] = {index: [] for index in origins}
    for culprit in result.culprits:
        origin = _find_origin(case, culprit, origins)
        if origin is None:
            remaining.append(culprit)
        elif culprit.cause in _NAN and origins[origin].nodes[0].label not in culprit.nodes:
            effects[origin].append(evidence.creates_nan(culprit.op, culprit.nodes[0]))
    if result.culprits and len(remaining) == len(result.culprits):
        return answer
    named = [_describe(origins[index], effects[index]) for index in origins]
    return evolve(answer, result=DiagnosisResult(FAULT, [*named, *remaining]))


def _find_used_scales(case: Case) -> dict[int, WrongScale]:
    """Return the wrong scales that outputs depend on, by the position of the first node that reads
    each."""
    graph = case.model.graph
    scales = find_wrong_scales(graph)
    if not scales:
        return {}
    used = {index for tensor in graph.outputs for index in region_before(graph, tensor.name, ())}
    positions = {id(node): index for index, node in enumerate(graph.nodes)}
    found = {positions[id(scale.nodes[0])]: scale for scale in scales}
    return {index: scale for index, scale in sorted(found.items()) if index in used}


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


def _describe(scale: WrongScale, effects: Sequence[Fact]) -> Culprit:
    """Return the culprit for a wrong scale, given what follows from it."""
    node = scale.nodes[0]
    remedy = Remedy(note=remedies.QUANTIZE_AGAIN)
    facts = [words.wrong_scale(str(scale)), *effects]
    tensor = next(iter(node.makes), None)
    return Culprit([node.label], tensor, MODEL, "scale", None, facts, remedy, node.operator)
