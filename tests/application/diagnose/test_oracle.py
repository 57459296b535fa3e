"""What is right, and where a party is furthest from it."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.oracle import TensorDifferences
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome, take_steps
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.culprit import DiagnosisResult
from polygraphy.domain.rounding import Deviation, deviation
from polygraphy.ports.diagnosing import DiagnosisReports
from polygraphy.ports.editing import open_model
from tests.support.diagnosis.diagnosis_cases import network


def apart(off: float) -> Deviation:
    """Return how far a number is off that is so much more than 1."""
    return deviation([1.0 + off], [1.0])


SIZES = st.floats(0.1, 1e6)
FOUND = st.dictionaries(st.sampled_from("abc"), SIZES.map(apart))
SETS = st.lists(FOUND, min_size=1, max_size=5)


def sizes(sets: Sequence[dict[str, Deviation]]) -> list[float]:
    return [max((one.relative for one in found.values()), default=-1.0) for found in sets]


@given(SETS)
def test_the_worst_set_is_the_one_that_is_furthest_off(sets: list[dict[str, Deviation]]) -> None:
    made = TensorDifferences(sets)
    assert made.differs == any(sets)
    assert made.names == {name for found in sets for name in found}
    assert made.largest_error == max(sizes(sets))
    assert made.differences == sets[made.number]


@given(SETS, SETS)
def test_of_two_comparisons_each_set_is_the_one_that_differs_more(
    one: list[dict[str, Deviation]], other: list[dict[str, Deviation]]
) -> None:
    made = TensorDifferences(one).merge_worst(TensorDifferences(other))
    assert sizes(made.sets) == [max(pair) for pair in zip(sizes(one), sizes(other))]


def test_nothing_compared_is_nothing_that_differs() -> None:
    made = TensorDifferences()
    assert not made.differs
    assert (made.number, made.differences, made.names) == (0, {}, set())


def test_a_verdict_that_later_steps_of_its_list_may_replace_ends_the_list_around_it() -> None:
    """The steps around a list of steps judge something else, such as half precision."""
    case = Case(open_model(network()), "m.onnx", [], resolve(DiagnosisReports))
    taken: list[str] = []
    open_verdict = Found(DiagnosisResult("inconclusive"), case, ends=False)

    def inner(case: Case, comparison: None) -> StepOutcome:
        return take_steps([lambda *_: open_verdict, lambda *_: Skip("no NaN")], case, comparison)

    def later(case: Case, comparison: None) -> StepOutcome:
        taken.append("later")
        return Skip("not reached")

    outcome = take_steps([inner, later], case, None)
    assert isinstance(outcome, Found) and outcome.result.verdict == "inconclusive"
    assert not taken
