"""Two runs step by step: which is the first wrong step, and which flips are real."""

from __future__ import annotations

import numpy as np
import pytest

from polygraphy.domain.report.document import as_json_value
from polygraphy.domain.states.comparing import StepFigures, StepRow, step_row, steps_in_words
from polygraphy.domain.states.memory import StepFacts


def facts(index: int, length: int = 1) -> StepFacts:
    return StepFacts(index, index, length, ("now",), "logits", tokens=True)


def row_of(
    left: list[float], right: list[float], index: int = 3, *, passed: bool = False
) -> StepRow:
    outputs = [{"logits": np.array([[each]], np.float32)} for each in (left, right)]
    return step_row(facts(index), (outputs[0], outputs[1]), {"now": True, "logits": passed})


def test_a_flip_is_a_tie_only_if_margin_and_error_are_rounding() -> None:
    tie = row_of([1.0, 1.0 + 1e-7, -3], [1.0 + 1e-7, 1.0, -3])
    assert (tie.tokens, tie.is_tie) == ((1, 0), True)
    # The margin is small, as that of any flip is at most twice the error, but the error is not.
    real = row_of([1.0, 1.01, -3], [1.01, 1.0, -3])
    assert (real.is_flip, real.is_tie) == (True, False)
    assert real.margin == pytest.approx(0.01, rel=1e-3)


def test_a_prompt_is_judged_at_the_position_where_tokens_differ() -> None:
    left = np.array([[[0, 9, 1], [5, 1, 0], [0, 0, 7]]], np.float32)
    right = left.copy()
    right[0, 1] = [1, 5, 0]
    row = step_row(facts(0, 3), ({"logits": left}, {"logits": right}), {"logits": False})
    assert (row.position, row.tokens, row.output) == (1, (0, 1), "logits")
    assert row.kl is not None
    assert row.kl > 1


def test_equal_steps_are_folded_around_the_first_wrong_one() -> None:
    figures = StepFigures(("a", "b"))
    for index in range(5000):
        is_wrong = index >= 4000 and index % 3 == 0
        names = {"state": "now" * is_wrong, "output": "logits" * is_wrong}
        row = StepRow(index, index, index, index, not is_wrong, 0.5, **names)
        figures.add(facts(index), row, {"now": not is_wrong, "logits": not is_wrong})
    found = figures.comparison()
    assert len(found.rows) <= 10
    assert (found.rows[0].first, found.rows[0].last) == (0, 4001)
    assert found.rows[1].first == 4002
    assert found.rows[-1].last == 4999
    assert "Step 4002 is the first that differs" in " ".join(steps_in_words(as_json_value(found)))


@pytest.mark.parametrize(
    ("wrong", "outputs", "harmless", "last"),
    [
        ([0, 1, 2], True, ["now"], []),
        ([1], True, ["now"], []),
        ([2], True, [], ["now"]),  # No step reads it.
        ([0], False, [], []),
        ([], True, [], []),
    ],
)
def test_a_state_counts_if_an_output_differs_or_no_step_reads_it(
    wrong: list[int], outputs: bool, harmless: list[str], last: list[str]
) -> None:
    figures, alone = StepFigures(("a", "b")), StepFigures(("a", "b"))
    for index in range(3):
        results = {"now": index not in wrong, "logits": outputs or index < 2}
        passed, state = all(results.values()), "" if results["now"] else "now"
        row = StepRow(
            index, index, index, index, passed, 0.0, state=state,
            output="" if results["logits"] else "logits",
        )  # fmt: skip
        figures.add(facts(index), row, results)
        alone.add(facts(index), row, {"now": results["now"]})
    found = figures.comparison()
    assert (found.differing_states, found.last_states) == (harmless, last)
    assert figures.harmless_states == harmless
    assert (found.first_wrong is None) == (outputs and not last)
    assert alone.harmless_states == []
    text = " ".join(steps_in_words(as_json_value(found)))
    assert ("Not counted, because all outputs of later steps agree: state 'now'." in text) == bool(
        harmless
    )
    assert ("use --steps 4." in text) == bool(last)
