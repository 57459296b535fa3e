"""Command lines become option groups, and option groups become command lines."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.binding import bind
from polygraphy.cli.backends.openvino import OpenvinoOptions
from polygraphy.cli.command_line import command_words
from polygraphy.cli.commands.listing import COMMANDS, load_command
from polygraphy.cli.commands.run.run import RunCommand, RunnerOptions
from polygraphy.cli.commands.surgeon.surgeon_options import CopyOptions
from polygraphy.cli.declare.errors import BadValue, CommandLineError
from polygraphy.cli.declare.kinds import Flag, Integer, Text
from polygraphy.cli.declare.option import Option, argv_of, options_of
from polygraphy.cli.parser import HelpRequested, parse
from polygraphy.cli.shared.compare import CompareOptions, SimpleOptions
from polygraphy.cli.shared.data import DataOptions
from polygraphy.cli.shared.log import LogOptions, severities
from polygraphy.cli.shared.model import ModelOptions
from polygraphy.domain.diagnosis.commands import copy_command
from polygraphy.domain.ports import command_line


def test_runners_keep_their_order_and_may_repeat() -> None:
    values = parse(RunCommand(), ["--onnx", "a.onnx", "--onnxrt", "--onnx"])
    assert values[RunnerOptions].runners == ("onnx", "onnxrt", "onnx")
    assert values[ModelOptions].model_file == "a.onnx"


@pytest.mark.parametrize(
    "words",
    [
        ["a.onnx", "--onnxrt", "--load-inputs", "i.json", "--atol", "1e-3"],
        ["--onnxrt", "a.onnx", "--load-inputs", "i.json", "--atol", "1e-3"],
        ["--load-inputs", "i.json", "--onnxrt", "a.onnx", "--atol", "1e-3"],
        ["--load-input-data", "i.json", "--onnxrt", "a.onnx", "--abs-tol", "0.001"],
        ["--load-inputs", "i.json", "--onnxrt", "a.onnx", "--abs", "1e-3"],
    ],
)
def test_the_same_is_said_in_several_ways(words: list[str]) -> None:
    values = parse(RunCommand(), words)
    assert values[ModelOptions].model_file == "a.onnx"
    assert values[DataOptions].load_inputs == ("i.json",)
    assert values[SimpleOptions].atol == 1e-3


def test_onnx_is_a_flag_of_its_own_and_no_abbreviation() -> None:
    assert parse(RunCommand(), ["--onnx", "a.onnx"])[RunnerOptions].runners == ("onnx",)


def test_every_option_of_every_command_is_documented_and_has_a_distinct_flag() -> None:
    for name in COMMANDS:
        seen: set[str] = set()
        for group in load_command(name).groups:
            assert (group.__doc__ or "").strip().endswith(".")
            for declared in options_of(group):
                assert declared.help.endswith(".")
                assert not seen & set(declared.flags)
                seen |= set(declared.flags)


def rows() -> dict[int, Option]:
    declared = (
        row for name in COMMANDS for group in load_command(name).groups for row in options_of(group)
    )
    return {id(row): row for row in declared}


def test_a_default_is_said_once_and_by_the_signature_where_that_has_it() -> None:
    for row in rows().values():
        if row.otherwise:
            assert copied(row, otherwise="").default_text != row.otherwise, row.flags
        assert "unless given" not in row.help, row.flags
        assert "(default:" not in row.help, row.flags


def copied(row: Option, otherwise: str) -> Option:
    return Option(row.flags, row.kind, row.help, row.default, feeds=row.feeds, otherwise=otherwise)


def test_the_help_ends_with_the_default() -> None:
    def row(default: object = None, **said: Any) -> Option:
        kind = Flag() if default is False else Text()
        return Option(("--a",), kind, "What it does.", default, **said)

    assert row().full_help == "What it does."
    assert row(False, feeds=("CreateConfig.fp16",)).full_help == "What it does."
    assert row("here").full_help == "What it does (default: here)."
    assert row(feeds=("reduce_model.mode",)).full_help == "What it does (default: bisect)."
    assert row("here", otherwise="all").full_help == "What it does (default: all)."
    number = Option(("--a",), Integer(), "An axis.", None, feeds=("find_shard_hints.i_idx",))
    assert number.full_help == "An axis (default: 0)."  # Which is a default, though false.


numbers = st.floats(min_value=0, max_value=1e30, allow_nan=False)
outputs = st.sampled_from(["y", "out:0", "a/b"])


@given(
    st.builds(
        SimpleOptions,
        rtol=st.none() | numbers | st.dictionaries(outputs, numbers, min_size=1),
        atol=st.none() | numbers,
        check_error_stat=st.sampled_from([None, "max", ("max", "mean"), {"y": "median"}]),
        infinities_compare_equal=st.booleans(),
        no_shape_check=st.booleans(),
    ),
    st.builds(
        CompareOptions, validate=st.booleans(), load_outputs=st.sampled_from([(), ("a", "b c")])
    ),
    st.builds(LogOptions, verbose=st.integers(0, 4), quiet=st.integers(0, 4), silent=st.booleans()),
    st.builds(RunnerOptions, runners=st.sampled_from([("onnxrt",), ("onnx", "onnxrt", "onnx")])),
    st.builds(ModelOptions, model_file=st.just("a.onnx")),
)
def test_groups_survive_the_way_to_a_command_line_and_back(
    simple: SimpleOptions,
    compare: CompareOptions,
    log: LogOptions,
    runners: RunnerOptions,
    model: ModelOptions,
) -> None:
    words = [word for group in (model, runners, simple, compare, log) for word in argv_of(group)]
    values = parse(RunCommand(), words)
    for group in (simple, compare, log, runners, model):
        assert values[type(group)] == group


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rtl", "3"], "--rtl does not exist; did you mean --rtol"),
        (["--onnxrt", "a.onnx", "b.onnx"], "b.onnx. To compare two models"),
        (["--onnxrt", "a.onnx", "b"], "unrecognized arguments: b"),
        (["--rtol"], "expected at least one argument"),
        (["-m.onnx", "--onnxrt"], "-m.onnx starts like an option. For the file, use ./-m.onnx."),
        (["--rtol", "x"], "argument --rtol/--rel-tol: 'x' is not a number."),
        (["--model-type", "tflite"], "argument --model-type: 'tflite' is not one of frozen"),
        (["--seed", "1.5"], "argument --seed: '1.5' is not a whole number."),
        (["--load", "x"], "ambiguous option: --load"),
        (["", "--onnxrt"], "argument MODEL: must not be empty."),
        (["--verbosity", "LOUD"], "'LOUD' is not a log level"),
    ],
)
def test_mistakes_are_named_with_flag_value_and_remedy(words: list[str], message: str) -> None:
    with pytest.raises(CommandLineError) as error:
        parse(RunCommand(), words)
    assert message in str(error.value)


def test_help_is_seen_anywhere() -> None:
    with pytest.raises(HelpRequested):
        parse(RunCommand(), ["--onnxrt", "a.onnx", "--help"])


@pytest.mark.parametrize(
    ("words", "levels"),
    [
        ([], {}),
        (["-v"], {"": "VERBOSE"}),
        (["-vv"], {"": "EXTRA_VERBOSE"}),
        (["--verbose", "--verbose"], {"": "EXTRA_VERBOSE"}),
        (["--verbose", "--extra-verbose"], {"": "EXTRA_VERBOSE"}),
        (["-vvvvvv"], {"": "ULTRA_VERBOSE"}),
        (["-q"], {"": "START"}),
        (["-qqqq"], {"": "ERROR"}),
        (["-qqqqq"], {"": "CRITICAL"}),
        (["-v", "-q"], {}),
        (["--silent", "-v"], {"": "CRITICAL"}),
        (["--verbosity", "warning"], {"": "WARNING"}),
        (["--verbosity", "warning", "-v"], {"": "WARNING"}),
        (["-v", "--verbosity", "domain:error"], {"": "VERBOSE", "domain": "ERROR"}),
        (["--verbosity", "backend/onnxrt:verbose"], {"adapters/onnxruntime": "VERBOSE"}),
        (["--verbosity", "backend/onnx/loader.py:verbose"], {"adapters/onnx": "VERBOSE"}),
        (["--verbosity", "backend/trt:verbose"], {"adapters": "VERBOSE"}),
        (
            ["--verbosity", "adapters/onnx/storage/model.py:error"],
            {"adapters/onnx/storage/model.py": "ERROR"},
        ),
    ],
)
def test_log_levels(words: list[str], levels: dict[str, str]) -> None:
    assert severities(parse(RunCommand(), words)[LogOptions]) == levels


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("run", "--compare simple m.onnx --onnxrt --onnx"),
        ("run", "--onnxrt --onnx --compare l2 psnr m.onnx -v"),
        ("run", "--trt --fp16 --precision-constraints obey m.onnx"),
        ("run", "--seed 3 --trt --precision-constraints none m.onnx --iterations 2"),
        ("inspect model", "--show layers attrs m.onnx"),
        ("debug precision", "--fp16 --precision-constraints prefer m.onnx --check true"),
    ],
)
def test_a_model_behind_a_list_of_choices_is_the_model(command: str, line: str) -> None:
    """Options that take one word elsewhere, and several here, leave the model alone."""
    words = line.split()
    first = ["m.onnx", *(word for word in words if word != "m.onnx")]
    assert list(parse(load_command(command), words)) == list(parse(load_command(command), first))


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("m.onnx --onnxrt --compare simple sipmle", "'sipmle' is not one of"),
        ("--onnxrt m.onnx --compare simple sipmle", "'sipmle' is not one of"),
        ("--seed 3 m.onnx --onnxrt --compare simple sipmle", "'sipmle' is not one of"),
        ("--onnxrt --compare m.onnx", "'m.onnx' is not one of"),
        ("--trt --precision-constraints a:fp16 m.onnx", "'m.onnx' is neither"),
    ],
)
def test_a_wrong_choice_is_no_model(line: str, wrong: str) -> None:
    with pytest.raises(CommandLineError, match=wrong):
        parse(load_command("run"), line.split())


def excluding() -> list[tuple[str, Option, Option]]:
    """Return the pairs of rows of each command that exclude each other."""
    return [
        (name, row, rows[flag])
        for name in COMMANDS
        for rows in [{row.flags[0]: row for row in load_command(name).options if row.flags}]
        for row in rows.values()
        for flag in row.excludes
        if flag in rows
    ]


def test_rows_that_exclude_each_other_are_refused_together_and_taken_apart() -> None:
    pairs = excluding()
    assert len({(one.flags[0], other.flags[0]) for _, one, other in pairs}) >= 15
    for name, one, other in pairs:
        needed = [
            "m" for row in load_command(name).options if row.is_positional and row.kind.nargs != "?"
        ]
        words = [[*needed, *leading(one)], leading(other)]
        message = f"{one.flags[0]} and {other.flags[0]} cannot be combined. Choose one."
        with pytest.raises(CommandLineError) as error:
            parse(load_command(name), [*words[0], *words[1]])
        assert str(error.value) == message
        parse(load_command(name), [*needed, *words[1]])


def leading(row: Option) -> list[str]:
    """Return an option with a word that is a value of it."""
    for word in ("", "1", "8.9", "good", "a.py", "a"):
        words = [word] if word else []
        if (not word) != (row.kind.nargs == 0):
            continue
        try:
            row.kind.parse(words)
        except (BadValue, IndexError):
            continue
        return [row.flags[0], *words]
    raise AssertionError(f"no word is a value of {row.label}")


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


@given(st.lists(st.one_of(NAMES, NAMES.map("-{}".format)), min_size=1, max_size=4, unique=True))
def test_a_remedy_names_nodes_whatever_they_are_called(names: list[str]) -> None:
    with bind(command_line, lambda *given: shlex.join(command_words(*given))):
        line = copy_command("m.onnx", "r.onnx", names)
    values = parse(load_command("surgeon copy"), shlex.split(line))
    assert sorted(values[CopyOptions].nodes) == sorted(names)


def test_words_with_a_dash_are_added_and_others_replace() -> None:
    words = ["m.onnx", "--reference", "r.onnx", "-o", "f.onnx"]
    for given_words, nodes in (
        (["--nodes", "a", "--nodes", "b"], ("b",)),
        (["--nodes=a", "--nodes=b"], ("b",)),
        (["--nodes", "a", "b", "--nodes=-c", "--nodes=-d"], ("a", "b", "-c", "-d")),
    ):
        assert (
            parse(load_command("surgeon copy"), [*words, *given_words])[CopyOptions].nodes == nodes
        )


def test_words_with_a_dash_are_kept_each_time_that_an_option_may_repeat() -> None:
    words = ["m.onnx", "--openvino", "--openvino-properties", "A=1", "B=2"]
    again = ["--openvino-properties=-C=3", "--openvino-properties=-D=4"]
    values = parse(RunCommand(), [*words, *again])
    properties = values[OpenvinoOptions].openvino_properties
    assert properties == {"A": "1", "B": "2", "-C": "3", "-D": "4"}


@pytest.mark.parametrize(
    "words",
    [["--rtol", "1e-3"], ["--val-range", "-1,1"], ["--val-range", "x:-1,1"], ["--inputs", "x:1x4"]],
)
def test_a_model_after_values_is_no_value(words: list[str]) -> None:
    values = parse(RunCommand(), ["--onnxrt", *words, "model.onnx"])
    assert values[ModelOptions].model_file == "model.onnx"
