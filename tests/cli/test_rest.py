"""What follows --check belongs to the command that it names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.cli.commands.debug.context import CheckOptions, UntilOptions
from polygraphy.cli.commands.listing import load_command
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.option import argv_of
from polygraphy.cli.help import command_help, describe
from polygraphy.cli.parser import HelpRequested, parse

REPEAT = load_command("debug repeat")
WORDS = st.lists(
    st.one_of(st.sampled_from(["--until", "-h", "--", "--check", "--s", "-v", ""]), st.text()),
    min_size=1,
)


@given(WORDS)
def test_no_word_is_taken_for_an_option(words: list[str]) -> None:
    values = parse(REPEAT, ["--unt", "3", "--check", *words])
    assert values[CheckOptions].check == tuple(words)
    assert values[UntilOptions].until == 3
    assert argv_of(values[CheckOptions]) == ["--check", *words]


def test_the_other_spelling_and_help_in_front_of_it() -> None:
    values = parse(REPEAT, ["--until", "bad", "--check-inference", "a", "--check", "b"])
    assert values[CheckOptions].check == ("a", "--check", "b")
    with pytest.raises(HelpRequested):
        parse(REPEAT, ["-h", "--check", "a"])


def test_a_command_has_to_follow() -> None:
    with pytest.raises(CommandLineError, match="a command must follow"):
        parse(REPEAT, ["--until", "3", "--check"])


def test_the_help_shows_that_it_takes_the_rest() -> None:
    assert "--check, --check-inference COMMAND ...\n" in command_help(describe(REPEAT), 100)
