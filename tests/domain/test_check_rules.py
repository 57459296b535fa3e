"""What the end of a check command means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.errors import UsageError
from polygraphy.domain.search import Outcome
from polygraphy.domain.search.check_rules import CheckRules, CommandEnd, Failure

GOOD, BAD, NEITHER = Outcome.GOOD, Outcome.BAD, Outcome.UNRESOLVED


@pytest.mark.parametrize(
    ("rules", "code", "output", "expected"),
    [
        (CheckRules(), 0, "", GOOD),
        (CheckRules(), 1, "", BAD),
        (CheckRules(), -11, "", BAD),
        (CheckRules(), 125, "", NEITHER),
        (CheckRules(skip_codes=()), 125, "", BAD),
        (CheckRules(skip_codes=[3]), 3, "", NEITHER),
        (CheckRules(ignored_codes=[2]), 2, "", GOOD),
        (CheckRules(ignored_codes=[125]), 125, "", GOOD),
        (CheckRules(fail_codes=[1]), 2, "", GOOD),
        (CheckRules(fail_codes=[1]), 1, "", BAD),
        (CheckRules(fail_codes=[0]), 0, "", BAD),
        (CheckRules(fail_codes=[125]), 125, "", BAD),
        (CheckRules(patterns=["mis.*ch"]), 0, "a mismatch", BAD),
        (CheckRules(patterns=["mis.*ch"]), 1, "another error", GOOD),
        (CheckRules(patterns=["x", "y"]), 1, "only y", BAD),
        (CheckRules(patterns=["x"], ignored_codes=[1]), 1, "x", GOOD),
        (CheckRules(patterns=["x"], fail_codes=[1]), 1, "x", BAD),
        (CheckRules(patterns=["x"], fail_codes=[1]), 1, "y", GOOD),
        (CheckRules(patterns=["x"], fail_codes=[1]), 0, "x", GOOD),
    ],
)
def test_codes_and_patterns(rules: CheckRules, code: int, output: str, expected: Outcome) -> None:
    assert rules.outcome(CommandEnd(code, output)) is expected


def test_a_command_that_took_too_long_has_ended_with_124() -> None:
    stopped = CommandEnd(-9, "", 1.0, timed_out=True)
    assert CheckRules().outcome(stopped) is BAD
    assert CheckRules(ignored_codes=[124]).outcome(stopped) is GOOD
    assert CheckRules(skip_codes=[124]).outcome(stopped) is NEITHER


def test_what_is_no_regular_expression_is_named() -> None:
    with pytest.raises(UsageError, match=r"'\('"):
        CheckRules(patterns=["("])
    with pytest.raises(UsageError, match="cannot be combined"):
        CheckRules(fail_codes=[1], ignored_codes=[2])


@given(st.integers(-20, 255), st.text())
def test_without_rules_only_the_code_counts(code: int, output: str) -> None:
    expected = GOOD if code == 0 else NEITHER if code == 125 else BAD
    assert CheckRules().outcome(CommandEnd(code, output)) is expected


def test_what_is_compared_by_position_alone_counts_only_where_it_did_at_first() -> None:
    named, guessed = Failure(1, outputs={"y": 2.0}), Failure(1, outputs={"a compared with b": 2.0})
    assert named.is_like(named) and guessed.is_like(guessed)
    assert not guessed.is_like(named)
    other = Failure(1, outputs={"c compared with b": 2.0})
    assert not other.is_like(guessed)


def test_a_part_whose_named_outputs_pass_only_lacks_partners() -> None:
    first = Failure(1, outputs={"y": 2.0, "y2 compared with nothing": float("inf")})
    lacking = {"y compared with nothing": float("inf")}
    assert Failure(1, outputs={"t": None, **lacking}).lacks_only_partners(first)
    assert not Failure(1, outputs={"t": 1.0, **lacking}).lacks_only_partners(first)
    assert not Failure(1, outputs=lacking).lacks_only_partners(first), "nothing was compared"
