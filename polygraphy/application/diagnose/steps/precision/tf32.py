"""Step: backends compute operators on float32 tensors in TF32.

TF32 reads 10 bits of each operand's fraction, so everything is compared in float32 first: nothing
that TF32 does can be mistaken for a fault then, or hide one. If float32 is correct, TF32 itself is
judged, on the same data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed
from polygraphy.application.diagnose.comparisons.step_data import data_of_steps
from polygraphy.application.diagnose.data import choose_feeds_for_parties, data_options
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.parts import compute_part
from polygraphy.application.diagnose.rounding import rounding_explains
from polygraphy.application.diagnose.tensor_trace import trace_tensors
from polygraphy.domain.catalog.compute import TF32
from polygraphy.domain.diagnosis.commands import run_command
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.facts import Fact, Statement, join_statements
from polygraphy.domain.diagnosis.words import quantization, steps, titles
from polygraphy.domain.diagnosis.words import tf32 as words
from polygraphy.domain.diagnosis.words.precision import (
    outputs_in_low_precision,
    tensor_in_low_precision,
)
from polygraphy.domain.quantization.code_tensors import StepDifference, step_differences
from polygraphy.domain.rounding import Deviation, deviation, rounding_between
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import LoweringParty, SuspectedParty, find_code_tensors

_MOST_NAMED = 3
"""Nodes that are named, those first that lose most: the remedy is the same for all of them."""


def explain_by_tf32(case: Case, request: Request) -> StepOutcome:
    """Return the diagnosis in float32; if it finds no fault, the effect of TF32."""
    parties = _tf32_parties(case.parties)
    if not parties:
        return Skip("no backend computes in TF32")
    wide = {id(party): party.in_float32() for party in parties}
    case = evolve(case, parties=[wide.get(id(party), party) for party in case.parties])
    case.unload()
    by_tf32 = request.diagnose(case, request)
    result = by_tf32.result
    if result.verdict != AGREE:
        return by_tf32
    notes = []
    data_loader = data_of_steps(by_tf32.case, request.data_loader, wide[id(parties[0])])
    for party in parties:
        judged = _judge_party(by_tf32.case, party, wide[id(party)], data_loader)
        if judged.result.verdict != AGREE:
            return judged
        notes += [judged.result.reason] if judged.result.reason else []
    reason = join_statements(result.reason, *notes)
    return evolve(by_tf32, result=evolve(result, reason=reason))


def _tf32_parties(parties: Sequence[SuspectedParty]) -> list[LoweringParty]:
    """Return the parties that compute in TF32."""
    return [party for party in parties if getattr(party, "lowers_to", None) == TF32]  # type: ignore[misc]


def _judge_party(case: Case, party: LoweringParty, wide: SuspectedParty, data_loader: Any) -> Found:
    """Return the result of comparing a backend in TF32 with itself in float32, on the same data."""
    lowered = party.compute_precision
    assert lowered is not None
    judge_party = case.with_model(case.model, lowered)
    if judge_party.facts.lowered is None:
        return Found(
            DiagnosisResult(AGREE), case
        )  # The model has no operator that is computed in TF32.
    judge_party = evolve(judge_party, parties=[wide])
    feeds = choose_feeds_for_parties(judge_party, data_loader)
    with case.record_step(f"TF32, {party.name}") as notes:
        compute = judge_party.load(wide)
        expected = [compute(feed) for feed in feeds]
        compute = party.load(case.model.given)
        values = [compute(feed) for feed in feeds]
        worst, at = _worst_deviation(judge_party, values, expected)
        if worst is None:
            notes.append(steps.MATCHES_FLOAT32)
            return Found(DiagnosisResult(AGREE), case)
        # Only TF32 differs, so a value on another quantization step is rounding.
        is_explained = rounding_explains(judge_party, feeds, values, expected, by_steps=True)
        difference = _difference_text(worst)
        notes.append(steps.tf32_differs(difference, is_explained))
    lowered = judge_party.facts.lowered or lowered
    why = outputs_in_low_precision(lowered.describe(), difference, lowered.option, is_explained)
    if is_explained:
        return Found(DiagnosisResult(AGREE, reason=Statement(str(why), [why])), case)
    options = data_options(case.model, data_loader, at, feeds[at])
    case = evolve(case, feed=feeds[at], data_options=options)
    judge_party = evolve(judge_party, feed=feeds[at])
    return Found(_tf32_result(judge_party, party, wide, why, _command(case, wide)), case)


def _worst_deviation(
    case: Case, values: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, Any]]
) -> tuple[Deviation | None, int]:
    """Return the largest deviation from float32, and the number of its input set."""
    worst: tuple[Deviation | None, int] = None, 0
    for at, (own_values, expected_values) in enumerate(zip(values, expected)):
        for measured in case.find_deviations(own_values, expected_values).values():
            if worst[0] is None or measured.excess > worst[0].excess:
                worst = measured, at
    return worst


def _difference_text(measured: Deviation) -> str:
    """Return the difference of an output as a noun phrase:
    a number, or a count of elements that are not floating point."""
    if measured.expected is not None and not is_float(np.asarray(measured.expected)):
        return words.difference_in_elements(measured.count)
    return words.difference_of(measured.largest)


def _tf32_result(
    case: Case, party: LoweringParty, wide: SuspectedParty, why: Fact, command: str
) -> DiagnosisResult:
    """Return the diagnosis with the nodes that lose more in TF32 than their operands' precision
    explains.
    """
    remedy = Remedy(command or None, True)
    losses = sorted(_losses(case, party, wide, case.feed), key=lambda loss: -loss[2].excess)
    culprits = [
        Culprit(
            [case.model.nodes[index].label],
            tensor,
            party.name,
            "precision",
            facts=[
                tensor_in_low_precision(tensor, measured.in_words(), measured.relative, "TF32"),
                why,
            ],
            remedy=remedy,
            op=case.model.nodes[index].operator,
        )
        for index, tensor, measured in losses[:_MOST_NAMED]
    ]
    if culprits:
        return DiagnosisResult(FAULT, culprits)
    codes = _changed_codes(case, party, wide)
    if codes and all(change.steps <= 1 for change in codes):
        share = max(change.share for change in codes)
        return DiagnosisResult(AGREE, reason=words.tf32_changes_codes(why, len(codes), share))
    return DiagnosisResult(INCONCLUSIVE, reason=words.tf32_adds_up(why, command))


def _changed_codes(
    case: Case, party: SuspectedParty, wide: SuspectedParty
) -> Sequence[StepDifference]:
    """Return the tensors of integer codes that TF32 changes, each computed from equal codes.
    The result is empty without codes, or if TF32 does not explain an output difference."""
    codes = find_code_tensors(case.model.proto)
    if not codes.tensors:
        return []
    with case.record_step(titles.QUANTIZATION_STEPS) as notes:
        try:
            expected = wide.load(codes.with_codes())(case.feed)
            names = [tensor.name for tensor in codes.tensors if tensor.name in expected]
            split, feed = codes.split({name: expected[name] for name in names})
            values = party.load(split)({**case.feed, **feed})
        except REFUSALS as error:
            notes.append(quantization.codes_not_compared(error))
            return []
        changes = step_differences(codes.tensors, expected, values)
        notes.append(quantization.code_differences(changes, len(codes.tensors)))
    outputs = [name for name in case.model.outputs if name in values and name in expected]
    excess = [_tf32_excess(name, values[name], expected[name]) for name in outputs]
    return changes if max(excess, default=0) <= 1 else []


def _tf32_excess(name: str, value: Any, expected: Any) -> float:
    """Return the difference of a tensor as a multiple of the TF32 limit.
    The result is 0 if it is not floating point."""
    if not is_float(expected) or value.shape != expected.shape:
        return 0.0
    limits = rounding_between((value, expected), (TF32, "float32"), name=name)
    measured = deviation(value, expected, rounding=limits)
    return 0.0 if measured is None else measured.excess


def _command(case: Case, wide: SuspectedParty) -> str:
    """Return the command that runs the model in float32 together with the other backends."""
    parties = [wide, *(party for party in case.parties if party is not wide)]
    backends = [(party.name, party.backend, party.options) for party in parties]
    return run_command(case.path, backends, case.data_options, is_auto=len(parties) > 1)


def _losses(
    case: Case, party: SuspectedParty, wide: SuspectedParty, feed: Feed
) -> list[tuple[int, str, Deviation]]:
    """Return position, tensor and deviation of the nodes that differ by more than TF32 explains.

    The nodes run in isolation.
    """
    trace_in_float32 = trace_tensors(case, wide, feed)
    values = trace_in_float32.all_values
    operators = (case.facts.lowered.operators) if case.facts.lowered else ()
    losses = []
    for index, node in enumerate(case.model.nodes):
        if node.op not in operators or not node.makes:
            continue
        tensor = node.makes[0]
        deviation_of_node = _loss(case, index, tensor, party, values)
        if deviation_of_node is not None and deviation_of_node.excess > 1:
            losses.append((index, tensor, deviation_of_node))
    return losses


def _loss(
    case: Case, index: int, tensor: str, party: SuspectedParty, values: Mapping[str, Any]
) -> Deviation | None:
    """Return the change TF32 causes in one isolated node; None if that cannot be computed."""
    value = compute_part(case.model, [index], values, party, plain=False).get(tensor)
    expected: Any = values.get(tensor)
    if value is None or not is_float(expected) or value.shape != expected.shape:
        return None
    limits = rounding_between((value, expected), (TF32, "float32"), name=tensor)
    return deviation(value, expected, rounding=limits)
