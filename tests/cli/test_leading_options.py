"""Options of logging may stand before a command, between a group and its command, and after it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.cli.commands.debug.context import CheckOptions
from polygraphy.cli.commands.listing import (
    COMMANDS,
    GROUPS,
    load_command,
    members,
    split_leading,
    top_level,
)
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.option import Values, with_options
from polygraphy.cli.main import main
from polygraphy.cli.parser import parse
from polygraphy.cli.shared.log import LogOptions
from tests.cli.flags.words import BASES
from tests.support.program_facts import VERSION

LOGGING = (
    ["-v"],
    ["-vv"],
    ["-vqv"],
    ["--quiet"],
    ["--silent"],
    ["--verbosity", "VERBOSE"],
    ["--verbosity", "INFO", "backend:VERBOSE"],
    ["--verbosity=ERROR"],
    ["--log-format", "timestamp", "no-colors"],
    ["--log-file", "model"],
    ["--log-file=-v"],
)


def parsed(name: str, leading: list[str], words: list[str]) -> Values:
    command = load_command(name)
    return parse(command, with_options(words, leading, command.options))


@given(st.sampled_from(sorted(COMMANDS)), st.lists(st.sampled_from(LOGGING), max_size=3))
def test_they_mean_the_same_wherever_they_stand(name: str, options: list[list[str]]) -> None:
    leading = [word for option in options for word in option]
    words = BASES[name].split()
    first = [*leading, *name.split(), *words]
    assert split_leading(first, top_level()) == (leading, [*name.split(), *words])
    if " " in name:
        group, _, own = name.partition(" ")
        assert split_leading([*leading, own, *words], members(group)) == (leading, [own, *words])
    before = parsed(name, leading, words)
    end = words.index("--check") if "--check" in words else len(words)
    after = parse(load_command(name), [*words[:end], *leading, *words[end:]])
    assert before[LogOptions] == after[LogOptions]
    assert list(before) == list(after)


def test_what_a_check_command_is_given_stays_its_own() -> None:
    values = parsed("debug repeat", ["-v"], ["--until", "3", "--check", "a", "-v", "--"])
    assert values[CheckOptions].check == ("a", "-v", "--")
    assert values[LogOptions].verbose == 1


@pytest.mark.parametrize("words", [["-v", "doctor"], ["--log-format", "no-colors", "doctor"]])
def test_a_command_line_with_them_is_run(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--gen-script", "-"]) == 0
    option = " ".join(words[:-1])
    assert f"polygraphy doctor {option}" in capsys.readouterr().out


@pytest.mark.parametrize("group", GROUPS)
def test_the_help_of_a_group_is_there_behind_them(
    group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([group, "-v", "-h"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: polygraphy {group} ")


def test_v_alone_is_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-v"]) == 0
    assert capsys.readouterr().out == VERSION


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["inspect", "--show", "layers", "model", "m.onnx"], "--show must follow the command"),
        (["--onnxrt", "run", "m.onnx"], "--onnxrt must follow the command"),
        (["inspect", "-v", "modle"], "unknown command 'inspect modle'. Did you mean inspect model"),
        (["inspect", "-v"], "missing subcommand"),
        (["-vv"], "missing command"),
        (["inspect", "--log-file"], "missing subcommand"),
    ],
)
def test_what_else_stands_there_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == CommandLineError.exit_code
    assert message in capsys.readouterr().err.splitlines()[0]
