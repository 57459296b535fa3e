"""Step: backends round to different codes in a quantized model: by one quantization step, or more.

Every node that computes codes runs on the codes of the first backend, so that one difference does
not cause the next. One run shows all nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values
from polygraphy.application.diagnose.comparisons.backend_runs import BackendRuns
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.wrong_nodes import COARSELY, ONE_STEP
from polygraphy.domain.diagnosis.culprit import AGREE, FAULT, Culprit, DiagnosisResult
from polygraphy.domain.diagnosis.regions import BOUNDED
from polygraphy.domain.diagnosis.words import quantization as words
from polygraphy.domain.diagnosis.words import titles
from polygraphy.domain.quantization.code_tensors import CodeTensor, StepDifference, step_differences
from polygraphy.ports.diagnosing import CodeTensors, SuspectedParty, find_code_tensors

_FUNCTIONS = BOUNDED | {"Gelu", "LayerNormalization", "QLinearSigmoid", "QLinearSoftmax", "Sqrt"}
"""Functions that backends compute by a table, or approximate."""
_MOST = 8
"""At most this many nodes are named."""


def explain_by_quantization_steps(case: Case, runs: BackendRuns) -> StepOutcome:
    """Return whether codes one step apart explain the backends' differences, or the nodes whose
    codes differ more.
    """
    if runs.has_nan or not runs.compared or len(runs.outputs) < 2:
        return Skip("outputs do not differ, or are not finite")
    codes = find_code_tensors(case.model.proto)
    if not codes.tensors:
        return Skip("the model is not quantized")
    number = runs.compared.number
    outputs = [(case.parties[index], sets[number]) for index, sets in runs.outputs.items()]
    with case.attempt(titles.QUANTIZATION_STEPS) as notes:
        try:
            return _compare_codes(case, codes, runs, outputs, notes)
        except REFUSALS as error:
            notes.append(words.codes_not_compared(error))
            return Skip("codes cannot be compared")


def _compare_codes(
    case: Case,
    codes: CodeTensors,
    runs: BackendRuns,
    outputs: Sequence[tuple[SuspectedParty, Values]],
    notes: list[str],
) -> StepOutcome:
    """Return the outcome of a comparison of the integer codes of the backends, given their outputs
    on the data with the largest difference.
    """
    (first, _), *others = outputs
    search = _CodeSearch(case, codes, first, runs.request.feeds[runs.compared.number])
    found = [(party, one) for party, _ in others for one in search.compare(party)]
    every = [one for _, one in found]
    notes.append(words.code_differences(every, len(codes.tensors)))
    larger = [(party, one) for party, one in found if one.steps > 1]
    if larger:
        decided = [search.culprit(party, one, runs) for party, one in larger[:_MOST]]
        culprits = [one for one in decided if one is not None]
        if not culprits:
            return Skip("codes differ by several steps, and nobody can decide")
        return Found(DiagnosisResult(FAULT, culprits), case)
    if any(one.share > _allowed_share(one.tensor.op) for one in every):
        return Skip("codes differ too often for a function that is exact")
    if search.has_float_differences:
        return Skip("float nodes differ on equal codes")
    if not every or not all(search.is_exact(*one) for one in outputs):
        return Skip("marking codes changes the outputs")
    return Found(DiagnosisResult(AGREE, reason=words.one_step_apart(every)), case)


def _allowed_share(op: str) -> float:
    """Return the share of elements that may differ by one step, by operator."""
    return COARSELY if op in _FUNCTIONS else ONE_STEP


class _CodeSearch:
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
        self._case, self._codes, self._first, self._feed = case, codes, first, feed
        self._values = first.load(codes.marked())(feed)
        self._given = {
            one.name: self._values[one.name] for one in codes.tensors if one.name in self._values
        }
        self._split, extra = codes.split(self._given)
        self._split_feed = {**feed, **extra}
        self.has_float_differences = False

    def compare(self, party: SuspectedParty) -> list[StepDifference]:
        """Return the tensors for which a backend computes different codes from equal codes."""
        made = party.load(self._split)(self._split_feed)
        self.has_float_differences |= bool(self._case.differing(made, self._values))
        return step_differences(self._codes.tensors, self._given, made)

    def is_exact(self, party: SuspectedParty, outputs: Values) -> bool:
        """Return whether marking the codes leaves the outputs of a backend unchanged."""
        is_first = party is self._first
        marked = self._values if is_first else party.load(self._codes.marked())(self._feed)
        return not self._case.differing(marked, outputs)

    def culprit(
        self, party: SuspectedParty, one: StepDifference, runs: BackendRuns
    ) -> Culprit | None:
        """Return the node that differs by several steps, if a third backend can decide; None to
        continue the search.
        """
        arbiter = runs.request.arbiter
        if arbiter.backend in (party.backend, self._first.backend):
            return None
        both = self._first, party
        try:
            right = arbiter.load(self._codes.split_into_pairs(self._given))(self._split_feed)
            wrong = [each for each in both if self._is_wrong(each, one.tensor, right)]
            if len(wrong) != 1:
                return None
            is_rewrite = not self._is_wrong(wrong[0], one.tensor, right, plain=True)
        except REFUSALS:
            return None
        if is_rewrite and wrong[0].passes and self._can_run(arbiter):
            return None  # The search for the pass can trace the model.
        facts = [
            words.codes_differ(self._first.name, party.name, one),
            words.arbiter_decides(arbiter.name),
        ]
        if is_rewrite:
            facts.append(words.correct_without_rewrites(wrong[0].name))
        tensor, cause = one.tensor, "rewrite" if is_rewrite else "kernel"
        name = wrong[0].name
        return Culprit([tensor.node], tensor.name, name, cause, facts=facts, op=tensor.op)

    def _can_run(self, party: SuspectedParty) -> bool:
        """Return whether a backend can load the model."""
        try:
            party.load(self._case.model.proto)
        except REFUSALS:
            return False
        return True

    def _is_wrong(
        self, party: SuspectedParty, tensor: CodeTensor, right: Values, *, plain: bool = False
    ) -> bool:
        """Return whether a backend computes codes that are several steps off."""
        made = party.load(self._split, plain=plain)(self._split_feed)
        return any(each.steps > 1 for each in step_differences([tensor], right, made))
