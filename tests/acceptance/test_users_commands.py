"""What the command lines of `run` and `convert` stand for, rendered without any backend."""

from __future__ import annotations

import pytest

from tests.acceptance.users_commands import COMMANDS
from tests.codegen.commands import rendered
from tests.support.calls import calls_of, holds_call


@pytest.mark.parametrize("name", COMMANDS)
def test_the_program_holds_the_calls_that_the_command_stands_for(name: str) -> None:
    command, expected = COMMANDS[name]
    program = rendered(command)
    for call in expected:
        if call.startswith("not "):
            assert call[4:] not in calls_of(program)
        else:
            assert holds_call(program, call), f"no {call} in\n{program}"


@pytest.mark.parametrize(
    ("call", "is_there"),
    [
        ("f(1, a=2)", True),
        ("f(_, a=_)", True),
        ("f(1, a=3)", False),
        ("f(1)", False),
        ("f(1, a=2, b=3)", False),
        ("g()", True),
        ("g(_)", False),
        ("h([1, _])", True),
        ("h([1])", False),
    ],
)
def test_what_counts_as_a_call_in_a_program(call: str, is_there: bool) -> None:
    assert holds_call("x = f(1, a=2)\ng()\nh([1, {'k': 2}])", call) is is_there
