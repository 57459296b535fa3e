"""What everything promises that asks a person."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from polygraphy.adapters.console.questions import TerminalQuestions
from polygraphy.adapters.fake import ScriptedQuestions
from polygraphy.domain.errors import CheckFailedError
from polygraphy.ports.binding import resolve
from polygraphy.ports.running import Questions

Make = Callable[[list[str]], Questions]


@pytest.fixture(params=["terminal", "script"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    def terminal(answers: list[str]) -> Questions:
        text = "".join(f"{answer}\n" for answer in answers)
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        return TerminalQuestions()

    return terminal if request.param == "terminal" else ScriptedQuestions


def test_answers_come_in_order_without_blanks(make: Make) -> None:
    questions = make(["p", "  fail ", ""])
    assert [questions.ask("Which?") for _ in range(3)] == ["p", "fail", ""]


def test_the_end_of_answers_is_an_error(make: Make) -> None:
    questions = make(["p"])
    questions.ask("Which?")
    with pytest.raises(CheckFailedError, match="Nobody answers"):
        questions.ask("Which?")


def test_the_terminal_is_bound() -> None:
    assert isinstance(resolve(Questions), TerminalQuestions)
    assert isinstance(resolve(Questions).can_ask(), bool)
