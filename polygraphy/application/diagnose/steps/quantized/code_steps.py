"""Step: backends round to different codes in a quantized model: by one quantization step, or more.

Every node that computes codes runs on the codes of the first backend, so that one difference does
not cause the next. One run shows all nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values
from polygraphy.application.diagnose.comparisons.backend_runs import BackendRuns
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.domain.diagnosis.culprit import AGREE, FAULT, Culprit, DiagnosisResult, Remedy
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.words import quantization as words
from polygraphy.domain.diagnosis.words import titles
from polygraphy.domain.quantization.code_tensors import CodeTensor, StepDifference, step_differences
from polygraphy.domain.quantization.metrics import Outputs, RmsRatio
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import CodeTensors, SuspectedParty, find_code_tensors

_MOST_OF_ERROR = 0.25
"""The first node with this share of the error of the last one has computed it; the nodes after it
pass it on.
"""
_CLOSER = 0.5
"""Products saturate if exact ones leave at most this share of the difference between backends.
Chosen, not measured.
"""
_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators whose products of eight bits may saturate."""
_MOST = 8
"""At most this many nodes are named."""


def explain_by_quantization_steps(case: Case, runs: BackendRuns) -> StepOutcome:
    """Return the outcome: whether codes one step apart explain the backends' differences, or the
    nodes whose codes differ more.
    """
    if runs.has_nan or not runs.compared.differs or len(runs.outputs) < 2:
        return Skip("outputs do not differ, or are not finite")
    codes = find_code_tensors(case.model.proto)
    if not codes.tensors:
        return Skip("the model is not quantized")
    number = runs.compared.number
    outputs = [(case.parties[index], sets[number]) for index, sets in runs.outputs.items()]
    with case.record_step(titles.QUANTIZATION_STEPS) as notes:
        try:
            return _compare_codes(case, codes, runs, outputs, notes)
        except REFUSALS as error:
            notes.append(words.codes_not_compared(error))
            return Skip("codes cannot be compared")


def explain_by_saturated_products(case: Case, runs: BackendRuns) -> StepOutcome:
    """Return the result that products of a backend saturate on this CPU,
    if with exact products its outputs are much closer to those of all others.
    """
    if runs.has_nan or not runs.compared.differs or len(runs.outputs) < 2:
        return Skip("outputs do not differ, or are not finite")
    codes = find_code_tensors(case.model.proto)
    if not codes.tensors:
        return Skip("the model is not quantized")
    number = runs.compared.number
    feed, ratio = runs.request.feeds[number], RmsRatio()
    for index, sets in runs.outputs.items():
        party = case.parties[index]
        exact = getattr(party, "with_exact_products", lambda: None)()
        if exact is None:
            continue
        try:
            values = exact.load(case.model.proto)(feed)
        except REFUSALS:
            continue
        if not case.find_deviations(values, sets[number]):
            continue  # Products are exact, as on every CPU with VNNI.
        other_outputs = [
            Outputs([output_sets[number]])
            for at, output_sets in runs.outputs.items()
            if at != index
        ]
        before, after = (
            max(ratio(Outputs([own_outputs]), outputs) for outputs in other_outputs)
            for own_outputs in (sets[number], values)
        )
        if after > _CLOSER * before:
            continue
        node, op = _saturating_node(case, codes, party, exact, feed)
        facts = [words.products_saturate(words.DIFFERENCE, before, after)]
        remedy = Remedy(None, True, words.AVOID_SATURATION)
        culprit = Culprit([node], None, party.name, "saturation", facts=facts, remedy=remedy, op=op)
        return Found(DiagnosisResult(FAULT, [culprit]), case)
    return Skip("products do not saturate")


def _saturating_node(
    case: Case, codes: CodeTensors, party: SuspectedParty, exact: SuspectedParty, feed: Feed
) -> tuple[str, str]:
    """Return name and operator of the node whose codes differ most from exact products.

    If no codes differ, it is the first product.
    """
    differences: Sequence[StepDifference] = ()
    with suppress(*REFUSALS):
        differences = CodeSearch(case, codes, exact, feed).compare(party)
    worst = max(differences, key=lambda difference: difference.steps, default=None)
    if worst is not None:
        for node in codes.float_nodes(worst.tensor.name):
            if node.op in _PRODUCTS:
                return node.name, node.op
        return worst.tensor.node, worst.tensor.op
    first = next((node for node in case.model.nodes if node.op in _PRODUCTS), case.model.nodes[0])
    return first.label, first.op


def report_code_steps(answer: Found, request: Request) -> Found:
    """Return an answer for backends whose outputs match, with the differences of their codes."""
    case = answer.case
    codes = find_code_tensors(case.model.proto)
    is_reported = any(attempt.title == titles.QUANTIZATION_STEPS for attempt in case.attempts)
    if case.feed is None or not codes.tensors or is_reported:
        return answer
    first, *other_parties = case.parties
    with case.record_step(titles.QUANTIZATION_STEPS) as notes:
        try:
            search = CodeSearch(case, codes, first, case.feed)
            every = [difference for party in other_parties for difference in search.compare(party)]
        except REFUSALS as error:
            notes.append(words.codes_not_compared(error))
            return answer
        notes.append(words.code_differences(every, len(codes.tensors)))
    if not every:
        return answer
    reason = join_statements(answer.result.reason, words.steps_apart(every))
    return evolve(answer, result=evolve(answer.result, reason=reason))


def _compare_codes(
    case: Case,
    codes: CodeTensors,
    runs: BackendRuns,
    outputs: Sequence[tuple[SuspectedParty, Values]],
    notes: list[str],
) -> StepOutcome:
    """Return the outcome of a comparison of the integer codes of the backends,
    given their outputs on the data with the largest difference.
    """
    (first, _), *other_parties = outputs
    search = CodeSearch(case, codes, first, runs.request.feeds[runs.compared.number])
    differences = [
        (party, step_difference)
        for party, _ in other_parties
        for step_difference in search.compare(party)
    ]
    every = [step_difference for _, step_difference in differences]
    notes.append(words.code_differences(every, len(codes.tensors)))
    larger = [
        (party, step_difference)
        for party, step_difference in differences
        if step_difference.steps > 1
    ]
    if larger:
        decided = [
            search.culprit(party, step_difference, runs)
            for party, step_difference in larger[:_MOST]
        ]
        culprits: list[Culprit] = []
        for culprit in decided:  # Several tensors can depend on one wrong node.
            if culprit is not None and culprit.nodes not in [
                other_culprit.nodes for other_culprit in culprits
            ]:
                culprits.append(culprit)
        if not culprits:
            return Skip("codes differ by several steps, and nothing available can decide")
        one_step = [difference for difference in every if difference.steps == 1]
        reason = words.steps_apart(one_step) if one_step else ""
        return Found(DiagnosisResult(FAULT, culprits, reason=reason), case)
    if search.has_float_differences:
        return Skip("nodes in float compute different values from equal codes")
    if not every or not all(search.is_exact(*step_difference) for step_difference in outputs):
        return Skip("marking codes changes the outputs")
    return Found(DiagnosisResult(AGREE, reason=words.steps_apart(every)), case)


def _relative_error(value: Any, expected: Any) -> float:
    """Return the rms of an error relative to the rms of the expected values; 0 if unknown."""
    if value is None or expected is None or not is_float(expected) or not np.size(expected):
        return 0.0
    exact = np.asarray(expected, np.float64)
    error = float(np.sqrt(np.mean((np.asarray(value, np.float64) - exact) ** 2)))
    size = float(np.sqrt(np.mean(exact**2)))
    return error / size if size > 0 else float(error > 0)


class CodeSearch:
    """Runs nodes on the codes that a backend computes.

    Args:
        case: the model.
        codes: its tensors of codes.
        first: the backend.
        feed: the inputs.

    Attributes:
        has_float_differences: whether outputs differ that are computed in float from equal codes.
    """

    def __init__(self, case: Case, codes: CodeTensors, first: SuspectedParty, feed: Feed) -> None:
        """Load the nodes, and compute the codes of the first backend."""
        self._case, self._codes, self._first, self._feed = case, codes, first, feed
        self._values = first.load(codes.with_codes())(feed)
        self._given = {
            tensor.name: self._values[tensor.name]
            for tensor in codes.tensors
            if tensor.name in self._values
        }
        self._split, extra = codes.split(self._given)
        self._split_feed = {**feed, **extra}
        self.has_float_differences = False

    def compare(self, party: SuspectedParty) -> list[StepDifference]:
        """Return the tensors for which a backend computes different codes from equal codes."""
        values = party.load(self._split)(self._split_feed)
        self.has_float_differences |= bool(self._case.find_deviations(values, self._values))
        return step_differences(self._codes.tensors, self._given, values)

    def is_exact(self, party: SuspectedParty, outputs: Values) -> bool:
        """Return whether marking the codes leaves the outputs of a backend unchanged."""
        is_first = party is self._first
        marked = self._values if is_first else party.load(self._codes.with_codes())(self._feed)
        return not self._case.find_deviations(marked, outputs)

    def culprit(
        self, party: SuspectedParty, step_difference: StepDifference, runs: BackendRuns
    ) -> Culprit | None:
        """Return the culprit for a node that differs by several steps,
        if a third backend can decide; None to continue the search."""
        arbiter = runs.request.arbiter
        if arbiter.backend in (party.backend, self._first.backend):
            return None
        both_pair = self._first, party
        try:
            expected = arbiter.load(self._codes.split_into_pairs(self._given))(self._split_feed)
            wrong = [
                party
                for party in both_pair
                if self._is_wrong(party, step_difference.tensor, expected)
            ]
            if len(wrong) != 1:
                return None
            is_rewrite = not self._is_wrong(wrong[0], step_difference.tensor, expected, plain=True)
        except REFUSALS:
            return None
        if is_rewrite and wrong[0].passes and self._can_run(arbiter):
            return None  # Leave this to the search for the rewrite, which can trace the model.
        facts = [
            words.codes_differ(self._first.name, party.name, step_difference),
            words.arbiter_decides(arbiter.name),
        ]
        if is_rewrite:
            facts.append(words.correct_without_rewrites(wrong[0].name))
        tensor, cause = step_difference.tensor, "rewrite" if is_rewrite else "kernel"
        name = wrong[0].name
        node, op = self._first_wrong_node(tensor, wrong[0], arbiter)
        return Culprit([node], tensor.name, name, cause, facts=facts, op=op)

    def _first_wrong_node(
        self, tensor: CodeTensor, wrong: SuspectedParty, arbiter: SuspectedParty
    ) -> tuple[str, str]:
        """Return name and operator of the first node that a backend computes incorrectly.

        It computes in floating point, from equal codes. If it cannot be determined, it is the node
        that quantizes.
        """
        nodes = self._codes.float_nodes(tensor.name)
        names = [node.makes[0] for node in nodes]
        if len(nodes) < 2:
            return tensor.node, tensor.op
        try:
            split, _ = self._codes.split(self._given, names)
            values = wrong.load(split)(self._split_feed)
            pairs = self._codes.split_into_pairs(self._given, names)
            expected = arbiter.load(pairs)(self._split_feed)
        except REFUSALS:
            return tensor.node, tensor.op
        errors = [_relative_error(values.get(name), expected.get(name)) for name in names]
        for node, error in zip(nodes, errors):
            if error > 0 and error >= _MOST_OF_ERROR * min(errors[-1], 1.0):
                return node.name, node.op
        return tensor.node, tensor.op

    def _can_run(self, party: SuspectedParty) -> bool:
        """Return whether a backend can load the model."""
        try:
            party.load(self._case.model.proto)
        except REFUSALS:
            return False
        return True

    def _is_wrong(
        self, party: SuspectedParty, tensor: CodeTensor, expected: Values, *, plain: bool = False
    ) -> bool:
        """Return whether a backend computes codes that are several steps off."""
        wrong = party.load(self._split, plain=plain)(self._split_feed)
        return any(
            difference.steps > 1 for difference in step_differences([tensor], expected, wrong)
        )
