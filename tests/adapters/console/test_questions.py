"""Questions on the terminal."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from polygraphy.domain.errors import CheckFailedError
from polygraphy.ports.running import ask, can_ask


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], None]:
    def said(answers: list[str]) -> None:
        text = "".join(f"{answer}\n" for answer in answers)
        monkeypatch.setattr("sys.stdin", io.StringIO(text))

    return said


def test_answers_come_in_order_without_blanks(say: Any) -> None:
    say(["p", "  fail ", ""])
    assert [ask("Which?") for _ in range(3)] == ["p", "fail", ""]


def test_the_end_of_answers_is_an_error(say: Any) -> None:
    say(["p"])
    ask("Which?")
    with pytest.raises(CheckFailedError, match="No answer"):
        ask("Which?")


def test_whether_somebody_is_there_is_known() -> None:
    assert isinstance(can_ask(), bool)
