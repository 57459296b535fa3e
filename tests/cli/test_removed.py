"""Options that are no longer: each is accepted with a warning, or refused with one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polygraphy.cli.commands.listing import COMMANDS, load_command
from polygraphy.cli.commands.trt.engine import PrecisionSearchOptions
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.option import options_of
from polygraphy.cli.parser import RemovedOption, parse, removed_options
from tests.cli.flags.words import BASES
from tests.support.cases import for_each

OLDER = json.loads((Path(__file__).parents[1] / "data" / "older_flags.json").read_text())
"""What versions 0.48.1, 0.49.26, 0.50.3 and 0.53.6 of NVIDIA's Polygraphy declare, by command; read
off their parsers.
"""

ROWS = [
    (command, row, flag)
    for command in COMMANDS
    for row in removed_options(command)
    for flag in row.flags
]


def declared(command: str) -> set[str]:
    return {
        flag
        for group in load_command(command).groups
        for o in options_of(group)
        for flag in o.flags
    }


@pytest.mark.parametrize("command", OLDER)
def test_every_option_of_other_versions_is_taken_or_has_its_line(command: str) -> None:
    known = declared(command) | {flag for row in removed_options(command) for flag in row.flags}
    assert set(OLDER[command]) - known == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_option_is_both_there_and_removed(command: str) -> None:
    removed = [flag for row in removed_options(command) for flag in row.flags]
    assert len(removed) == len(set(removed))
    assert not declared(command) & set(removed)


@pytest.mark.slow
@for_each("command, row, flag", ROWS)
def test_a_row_does_what_it_says(
    command: str, row: RemovedOption, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    base = BASES[command].split()
    end = base.index("--check") if "--check" in base else len(base)
    own, check = base[:end], base[end:]
    if row.takes is None:
        for given in ([flag], [f"{flag}=1"], [flag, "1"]):
            with pytest.raises(CommandLineError) as error:
                parse(load_command(command), [*own, *given, *check])
            assert str(error.value) == f"{flag} {row.advice}"
        return
    value = [] if row.takes == 0 else ["1"]
    expected = parse(load_command(command), base)
    assert list(parse(load_command(command), [*own, flag, *value, *check])) == list(expected)
    assert capsys.readouterr().err == f"[W] {flag} {row.advice}\n"


def test_each_of_several_is_named() -> None:
    with pytest.raises(CommandLineError) as error:
        parse(
            load_command("run"),
            ["m.onnx", "--onnxrt", "--int-min", "0", "--trtexec", "--int-max=9"],
        )
    for flag in ("--int-min was", "--trtexec belonged", "--int-max was"):
        assert flag in str(error.value)


@pytest.mark.parametrize(("word", "name"), [("fp32", "float32"), ("fp16", "float16")])
def test_precisions_have_their_short_names(word: str, name: str) -> None:
    values = parse(load_command("debug precision"), ["m.onnx", "--precision", word])
    assert values[PrecisionSearchOptions].precision == name


def test_the_flag_of_a_backend_that_a_command_lacks_is_no_abbreviation() -> None:
    """`--tf` would be `--tf32`."""
    with pytest.raises(CommandLineError, match="--golden"):
        parse(load_command("diagnose"), ["m.onnx", "--onnxrt", "--tf"])
