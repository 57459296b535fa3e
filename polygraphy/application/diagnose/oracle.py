"""The expected results, from another backend, a reference model or saved results, and how
what a party makes differs from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.outcome import Found
from polygraphy.application.diagnose.subprocesses import TIMES
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.culprit import AGREE, INCONCLUSIVE
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.words import reasons, titles
from polygraphy.domain.quantization.goal import QuantizedGoal
from polygraphy.domain.rounding import Deviation
from polygraphy.ports.diagnosing import REFERENCE, SourceProgram, SuspectedParty

if TYPE_CHECKING:
    from polygraphy.application.diagnose.versions import OtherVersions
    from polygraphy.domain.errors import PolygraphyException

Differing = Mapping[str, Deviation]


@frozen
class Request:
    """The oracle and the data of a diagnosis.

    Attributes:
        data_loader: the source of the data, as requested.
        diagnose: answers a request about another case, such as one step of several.
        reference: the correct model: its path, an ``onnx.ModelProto``, or a loader.
        golden: files of correct results.
        program: the program that the model was exported from.
        versions: environments with other versions of the backends.
        goal: the target for a quantized model.
        feeds: the chosen data, if any.
        baseline: the backend that the only other one is compared with if there is no oracle.
        baseline_error: the error with which it refuses the model; None if it does not.
        arbiter: the backend that computes expected results if there is no other source.
        unexplained: the reason for a difference without a known cause; empty if there is none.
    """

    data_loader: Any
    diagnose: Callable[[Case, Request], Found]
    reference: Any = None
    golden: Sequence[str] | None = None
    program: SourceProgram | None = None
    versions: OtherVersions | None = None
    goal: QuantizedGoal | None = None
    feeds: Sequence[Feed] = ()
    baseline: SuspectedParty | None = None
    baseline_error: PolygraphyException | None = None
    arbiter: SuspectedParty = field(factory=lambda: resolve(SuspectedParty, REFERENCE))
    unexplained: str = ""

    @property
    def has_states(self) -> bool:
        """Return whether the data are the steps of a model with states."""
        return getattr(self.data_loader, "has_states", False)

    @property
    def has_oracle(self) -> bool:
        """Return whether there are expected results: a reference, saved results or a program."""
        return any(source is not None for source in (self.reference, self.golden, self.program))

    def compares_versions_first(self, case: Case) -> bool:
        """Return whether the only backend is first compared with its other versions."""
        return self.versions is not None and len(case.parties) == 1 and not self.has_oracle


@frozen
class Oracle:
    """The expected tensors for each input set, by the names of the model.

    Attributes:
        name: their origin, in words.
        sets: the expected tensors by name, for each input set; those of the last may be missing.
        left_out: requested tensors that are missing, in words.
    """

    name: str
    sets: Sequence[Values]
    left_out: Sequence[str] = ()

    def compare(self, case: Case, values: Sequence[Values]) -> TensorDifferences:
        """Return the comparison of a backend's outputs with the oracle."""
        return TensorDifferences([case.find_deviations(*pair) for pair in zip(values, self.sets)])


@frozen
class TensorDifferences:
    """The tensors that differ by more than rounding, for each input set."""

    sets: Sequence[Differing] = field(factory=list)

    @property
    def differs(self) -> bool:
        """Return whether any tensor differs."""
        return any(self.sets)

    @property
    def number(self) -> int:
        """Return the number of the input set with the largest difference."""
        return max(
            range(len(self.sets)),
            key=lambda number: _largest_deviation(self.sets[number]),
            default=0,
        )

    @property
    def differences(self) -> Differing:
        """Return the differences for that input set."""
        return self.sets[self.number] if self.sets else {}

    @property
    def largest_error(self) -> float:
        """Return the largest relative error for that input set."""
        return _largest_deviation(self.differences)

    @property
    def names(self) -> set[str]:
        """Return the names of tensors that differ for any input set."""
        return {name for deviations in self.sets for name in deviations}

    def merge_worst(self, other: TensorDifferences) -> TensorDifferences:
        """Return, for each input set, the larger difference of two comparisons on the same data."""
        pairs = zip(self.sets, other.sets)
        return TensorDifferences([max(pair, key=_largest_deviation) for pair in pairs])


def _largest_deviation(differences: Differing) -> float:
    """Return the largest relative deviation; -1 if there is none."""
    return max((deviation.relative for deviation in differences.values()), default=-1.0)


def limit_to_evidence(answer: Found, request: Request) -> Found:
    """Return the result, or "inconclusive" if it finds no fault but not everything was compared, or
    if a tried change did not end: it could be the right one."""
    case = answer.case
    name = case.parties[0].name if len(case.parties) == 1 else ""
    wrong_shapes = [step.result for step in case.attempts if step.title == titles.DECLARED_SHAPE]
    result = case.evidence.qualify_result(answer.result, name, request.unexplained, wrong_shapes)
    if case.stopped_trials and result.verdict != AGREE:
        stopped = reasons.trials_stopped(case.stopped_trials, TIMES)
        reason = join_statements(result.reason, stopped)
        result = evolve(result, verdict=INCONCLUSIVE, reason=reason)
    return evolve(answer, result=result)
