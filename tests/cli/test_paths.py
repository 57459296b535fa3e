"""Files that a command line names: twice, and where there are none."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from polygraphy.cli.backends.built_in import backends_by_name
from polygraphy.cli.commands.listing import COMMANDS, load_command, split_command
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.main import main
from polygraphy.cli.parser import parse
from polygraphy.cli.shared.data import DataOptions
from polygraphy.cli.shared.paths import _check_symbol as check_symbol
from polygraphy.cli.shared.paths import check_paths, check_read
from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.domain.sweep.plan import DATA_FLAGS, WRITING_FLAGS


def test_different_paths_and_missing_ones_are_fine() -> None:
    check_paths([("MODEL", "a"), ("--load", "b")], [("--save", "c"), ("--log", None)])
    check_paths([("--load", "a"), ("--load", "a")], [])


@pytest.mark.parametrize("path", ["a/b", "./a/b", "a//b", "a/c/../b"])
def test_the_same_place_under_another_name_is_seen(path: str) -> None:
    with pytest.raises(CommandLineError, match="--load and --save have the same path"):
        check_paths([("--load", "a/b")], [("--save", path)])
    with pytest.raises(CommandLineError, match="--one and --two have the same path"):
        check_paths([], [("--one", "a/b"), ("--two", path)])


def test_a_link_to_what_is_read_is_seen(tmp_path: Path) -> None:
    model, link = tmp_path / "model.onnx", tmp_path / "link.onnx"
    model.touch()
    link.symlink_to(model)
    with pytest.raises(CommandLineError, match="MODEL and --output have the same path"):
        check_paths([("MODEL", str(model))], [("--output", str(link))])


@pytest.mark.parametrize("path", ["\0", "x" * 100_000, ""])
def test_impossible_paths_are_left_to_whoever_opens_them(path: str) -> None:
    check_paths([("MODEL", "a")], [("--output", path)])


MOVED = {"artifacts"}
"""Files that other programs write, and that are moved away."""


def test_every_row_that_names_a_file_says_whether_it_is_read_or_written() -> None:
    undecided = []
    for name in COMMANDS:
        command = load_command(name)
        for group in command.groups:
            for row in command.options_of(group):
                words = re.findall(r"[A-Z]+", str(row.kind.metavar))
                is_path = {"PATH", "DIR", "FOLDER", "SCRIPT", "MODEL", "REPLAY"} & set(words)
                is_decided = row.reads or row.writes or {"FOLDER", "DIR"} & set(words)
                if is_path and not is_decided and row.name not in {"verbosity", *MOVED}:
                    undecided.append((name, row.label))
    assert undecided == []


EVERYWHERE = [
    f"{name} nothere.onnx"
    for name in ("inspect model", "surgeon sanitize", "check lint", "debug reduce")
]


@pytest.mark.parametrize(
    "words",
    [
        "run nothere.onnx --onnxrt",
        "run m.onnx --onnxrt --load-inputs nothere.json",
        "run m.onnx --onnxrt --load-outputs nothere.json",
        "run m.onnx --onnxrt --data-loader-script nothere.py",
        "run m.onnx --onnxrt --data-loader-script s.py:nothere",
        "run m.onnx --onnxrt --compare-func-script s.py:nothere",
        "run m.onnx --onnxrt --torch s.py:nothere",
        "diagnose m.onnx --torch s.py:nothere",
        "diagnose m.onnx --torch nothere.pt2",
        "run m.onnx --trt --trt-npps nothere.py",
        "run m.onnx --trt --plugins ./nothere.so",
        "run m.onnx --trt --trt-engine nothere.plan",
        "debug precision m.onnx --fp16 --golden-outputs nothere.json",
        "debug reduce m.onnx --load-inputs nothere.json --check true",
        "inspect diff m.onnx nothere.onnx",
        "inspect data nothere.json",
        "check accuracy nothere.json",
        "inspect tactics nothere.json",
        "data merge nothere.json -o x.json",
        *EVERYWHERE,
    ],
)
def test_what_is_not_there_is_reported_before_anything_is_built(
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.onnx").touch()
    Path("s.py").write_text("from os import path\ndef there(): pass\nalso = there\n")
    before = sorted(tmp_path.iterdir())
    needs = {"convert": ["-o", "x.plan"], "debug reduce": ["--check", "true"]}
    more = next((extra for name, extra in needs.items() if words.startswith(name)), [])
    with pytest.raises(SystemExit) as end:
        main([*words.split(), *(more if "--check" not in words else [])])
    assert end.value.code == 2
    [reported] = [line for line in capfd.readouterr().err.splitlines() if line.startswith("[!]")]
    assert "nothere" in reported and "does not exist" in reported
    assert sorted(tmp_path.iterdir()) == before


def test_a_timing_cache_need_not_exist(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.touch()
    words = ["run", str(model), "--trt", "--load-timing-cache", str(tmp_path / "nothere")]
    name, rest = split_command(words)
    check_read(parse(load_command(name), rest))


@pytest.mark.parametrize("symbol", ["there", "also", "path"])
def test_what_a_script_defines_is_found(symbol: str, tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text("from os import path\ndef there(): pass\nalso = there\n")
    check_symbol(str(script), symbol)
    with pytest.raises(UnknownNameError, match="'there'"):
        check_symbol(str(script), "nothere")


@pytest.mark.parametrize(
    "text", ["from os.path import *", "globals()['f'] = 1", "def __getattr__(n): 1", "def ("]
)
def test_a_script_whose_text_does_not_tell_is_left_to_python(text: str, tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text(text)
    check_symbol(str(script), "f")


def parsed(words: str) -> None:
    name, rest = split_command(shlex.split(words))
    parse(load_command(name), rest)


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (
            "run m.onnx --onnxrt --trt-engine e --save-outputs ./e",
            "--trt-engine and --save-outputs",
        ),
        ("run --onnxrt m.onnx --save-worst 3 --log-file worst.safetensors", "--save-worst and"),
        ("run m.onnx --trt --load-timing-cache t --save-engine t", "--load-timing-cache and"),
        ("check lint m.onnx --load-inputs i -o i", "--load-inputs and --output"),
        ("inspect model m.onnx --save-visual m.onnx", "MODEL and --save-visual"),
        ("surgeon weight-strip m.onnx --exclude-list l -o l", "--exclude-list and --output"),
    ],
)
def test_rows_say_what_is_overwritten(words: str, flags: str) -> None:
    with pytest.raises(CommandLineError, match=f"{flags}.* have the same path"):
        parsed(words)


@pytest.mark.parametrize(
    "words",
    [
        "run m.onnx --trt --load-timing-cache t --save-timing-cache t",
        "run m.onnx --onnxrt --gen-script - --report a.json --report b.html",
        "run m.onnx --onnxrt --onnx --save-heatmaps pictures --save-error-metrics-plot pictures",
    ],
)
def test_files_may_be_updated_and_folders_shared(words: str) -> None:
    parsed(words)


def test_models_that_cannot_be_opened_are_refused_before_the_program(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    (tmp_path / "a.onnx").symlink_to("b.onnx")
    (tmp_path / "b.onnx").symlink_to("a.onnx")
    for name, words in {"pipe": "is a pipe", "a": "to b.onnx, which leads back to it"}.items():
        with pytest.raises(UsageError, match=words):
            check_read(parse(load_command("run"), [f"{tmp_path}/{name}.onnx", "--onnxrt"]))


def test_a_plan_of_a_sweep_knows_what_flags_of_run_write_and_which_are_about_data() -> None:
    run = load_command("run").extend({f"--{name}" for name in backends_by_name()})
    rows = [row for group in run.groups for row in run.options_of(group)]
    data = {flag for row in run.options_of(DataOptions) for flag in row.flags}
    assert {*DATA_FLAGS} == data | {"--input-shapes", "--inputs"}
    written = {
        flag
        for row in rows
        for flag in row.flags
        if row.writes or (not row.reads and {"FOLDER", "DIR"} & {*str(row.kind.metavar).split()})
    }
    assert {*WRITING_FLAGS} == written - {"--calibration-cache"}
