"""The diagnosis of a quantized model whose search does not fit into memory: the loss of each
weight, one node at a time, and the model with the wrong ones corrected."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from attrs import evolve, frozen

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.model_pair import ModelPair
from polygraphy.application.diagnose.outcome import Found
from polygraphy.application.diagnose.steps.quantized.repair import parameter_culprit
from polygraphy.application.diagnose.steps.quantized.runs import GoalRuns
from polygraphy.domain.diagnosis.culprit import FAULT, INCONCLUSIVE, Culprit, DiagnosisResult
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.words import errors, steps, titles
from polygraphy.domain.diagnosis.words import quantization as words
from polygraphy.domain.errors import BackendError
from polygraphy.domain.model import Weight
from polygraphy.domain.quantization.causes import cause_of, is_suspect
from polygraphy.domain.quantization.losses import (
    SiteLoss,
    best_scheme_by_channels,
    with_worst_channels,
)
from polygraphy.domain.quantization.measuring import measure_losses
from polygraphy.domain.quantization.schemes import STORED
from polygraphy.ports.diagnosing import QuantizedModel, open_node_weights
from polygraphy.ports.editing import replace_nodes
from polygraphy.ports.machine import release_memory

_FLOAT_BYTES = 12
"""Bytes that the search holds for each weight in floating point: three copies of the model."""
_BYTES = {**dict.fromkeys(STORED, 30), "uint8": 60}
"""The same for quantized weights: codes and values as float64, the exact weight, and both forms in
the model with switches. Bytes may hold two weights.
"""
_CORRECTED = 2
"""A wrong weight that is measured by itself takes this multiple: also the codes that correct it.
Measured: 2.0 times for int4 in blocks, 2.2 for int8 with a scale for each channel."""
_MESSAGE_BYTES = (1 << 31) - (1 << 20)
"""Most bytes of weights in a model that can be copied: protobuf allows 2 GB, and nodes need some.
"""
_ELEMENTS = 1 << 20
"""About the number of elements of a weight that are quantized in other ways, which takes half a
microsecond each: those of the channels that lose most, and of some others."""
_SHOWN = 3
"""Most weights that are named."""


@frozen
class _MeasuredWeight:
    """A quantized weight, measured by itself.

    Attributes:
        kind: the kind of its site.
        node: the node that reads it.
        loss: its loss.
        culprit: the wrong parameter, without the effect of the correct one; None if all are right.
        corrected: the model of its node with the correct parameter; None if all are right.
    """

    kind: str
    node: str
    loss: SiteLoss
    culprit: Culprit | None = None
    corrected: Any = None

    @property
    def row(self) -> tuple[str, str, float, float, str]:
        """Return what the answer says of the weight."""
        cause = "" if self.culprit is None else self.culprit.cause
        return self.kind, self.node, self.loss.loss, self.loss.least, cause


def _needed_bytes(weight: Weight) -> int:
    """Return the bytes of memory that the search needs for a weight."""
    return prod(weight.shape) * _BYTES.get(str(weight.dtype), _FLOAT_BYTES)


def _allowed_bytes(case: Case) -> int:
    """Return the bytes of memory that a search may use."""
    return case.budget or 2 * case.resident_limit


def check_message_size(weights: Sequence[Weight]) -> None:
    """Raise UsageError if a model with these weights is too large to be copied."""
    if (size := sum(weight.nbytes for weight in weights)) > _MESSAGE_BYTES:
        raise errors.model_too_large_to_copy(size)


def check_memory(case: Case) -> None:
    """Raise UsageError if a model cannot be copied, or if not even its largest weight can be
    measured: before a model runs.
    """
    weights = case.model.graph.all_weights
    check_message_size(weights)
    needed = [*map(_needed_bytes, weights)]
    total, allowed = sum(needed), _allowed_bytes(case)
    least = _CORRECTED * max(needed, default=0)
    if min(total, least) > allowed:
        raise errors.search_needs_memory(total, min(total, least), allowed)


def missing_memory(case: Case) -> tuple[int, int] | None:
    """Return the bytes that the search needs, and how many it may use; None if they fit."""
    needed = sum(map(_needed_bytes, case.model.graph.all_weights))
    return (needed, _allowed_bytes(case)) if needed > _allowed_bytes(case) else None


def answer_by_weights(
    case: Case, pair: ModelPair, runs: GoalRuns, before: float, missing: tuple[int, int]
) -> Found:
    """Return the result if correcting wrong weights reaches the goal;
    else an inconclusive one with the weights that lose most.

    Args:
        case: the quantized model.
        pair: the model and its reference.
        runs: runs models, and measures them.
        before: the metric of the quantized model.
        missing: the bytes that a search needs, and how many it may use.
    """
    goal, weights = runs.goal, _measure_weights(case, pair, is_settled=runs.goal.is_settled)
    wrong = [weight for weight in weights if weight.culprit is not None]
    after = ""
    if wrong:
        corrected = replace_nodes(case.model.proto, [weight.corrected for weight in wrong])
        with case.record_step(titles.WRONG_PARAMETERS) as notes:
            try:
                value = runs.judge(runs.run(corrected))
            except BackendError as error:
                notes.append(steps.cannot_run(error))
                value = before
            notes.append(words.metric_after_correction(len(wrong), len(wrong), value))
        if value <= goal.within:
            effect = words.repair_effect(goal.name, before, value, len(wrong))
            culprits = [
                evolve(weight.culprit, facts=[*weight.culprit.facts, effect])
                for weight in wrong
                if weight.culprit is not None
            ]
            return runs.save(Found(DiagnosisResult(FAULT, culprits), case), lambda: corrected)
        after = words.not_enough_corrected(goal.name, value, len(wrong))
    rows = [weight.row for weight in weights[:_SHOWN]]
    floor = sum(weight.nbytes for weight in pair.reference.graph.all_weights)
    reason = join_statements(
        words.goal_missed(goal.name, before, goal.within),
        words.weights_by_themselves(*missing, floor, rows, len(weights)),
        after,
    )
    return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)


def _measure_weights(case: Case, pair: ModelPair, *, is_settled: bool) -> list[_MeasuredWeight]:
    """Return the weights that lose most, the wrong ones first."""
    measured: list[_MeasuredWeight] = []
    for part in open_node_weights(case.model.proto, pair.reference.proto):
        measured += _measure_part(part, is_settled=is_settled)
        del part  # The next part is opened without this one in memory.
        release_memory()
    return sorted(measured, key=lambda weight: (weight.culprit is None, -weight.loss.loss))


def _measure_part(part: QuantizedModel, *, is_settled: bool) -> Sequence[_MeasuredWeight]:
    """Return the quantized weights of a node."""
    sites = [with_worst_channels(site, _ELEMENTS) for site in part.sites]
    measured = []
    for number, loss in measure_losses(sites, part.source, None, ()).items():
        site, node = sites[number], part.nodes[-1].name
        if not is_suspect(site, loss):
            measured.append(_MeasuredWeight(site.kind, node, loss))
            continue
        is_whole = site is part.sites[number]
        best = loss.best if is_whole else best_scheme_by_channels(part.sites[number], _ELEMENTS)
        named = loss if is_whole else evolve(loss, channel=None)
        culprit = parameter_culprit(part, site, named, cause_of(site, loss), is_saved=is_settled)
        corrected = part.proto_with_schemes({number: best})
        measured.append(_MeasuredWeight(site.kind, node, loss, culprit, corrected))
    return measured
