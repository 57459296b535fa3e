"""Options that have no effect are named, whichever they are."""

from __future__ import annotations

import pytest

from polygraphy.cli.commands.listing import COMMANDS, load_command
from polygraphy.cli.declare import errors
from polygraphy.cli.main import main

REASON = "has no effect, because nothing in this program uses it."


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ("convert m.onnx -o m.engine --seed 3 --iterations 2", "--seed, --iterations"),
        ("convert m.onnx -o m.engine --ckpt c", "--ckpt"),
        ("convert m.onnx -o n.onnx --tf-outputs a", "--tf-outputs"),
        ("run m.pb --tf --trt-min-shapes x:[1,2] --fp16", "--trt-min-shapes, --fp16"),
        ("run m.onnx --onnxrt --no-unmarked", "--no-unmarked"),
        ("template trt-network -o - --onnx-outputs a", "--onnx-outputs"),
    ],
)
def test_what_no_call_of_the_program_takes_is_named(
    words: str, flags: str, capsys: pytest.CaptureFixture[str]
) -> None:
    generates = [] if words.startswith("template") else ["--gen-script", "-"]
    assert main([*words.split(), *generates]) == 0
    assert f"[W] {flags}: {REASON}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "convert m.onnx -o m.engine --seed 3 --int8",
        "run m.onnx --onnxrt --onnx --rtol 1e-3 --seed 1 --mark-all --shape-inference",
        "run m.onnx --onnxrt --mark-all",
        "run m.pb --tf --tftrt --fp16 --workspace 1G",
        "run m.onnx --trt --fp16 --trt-min-shapes x:[1,2]",
        "inspect data a.json -n 3",
        "check accuracy a.json --l2-threshold 3",
        "surgeon extract m.onnx --inputs x --outputs y --shape-inference",
        "diagnose m.onnx --onnxrt --within 0.1",  # An error says what is missing.
        "diagnose m.onnx --onnxrt --metric kl --save n.onnx --budget 9",
    ],
)
def test_what_is_used_or_is_the_default_is_not(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), "--gen-script", "-"]) == 0
    assert "has no effect" not in capsys.readouterr().err


def test_only_messages_after_a_count_are_searched_for_flags(
    capsys: pytest.CaptureFixture[str],
) -> None:
    errors.warn("--first: has no effect.")
    count = errors.message_count()
    assert not errors.were_mentioned(["--first"], count)
    errors.warn("--second, --third: has no effect.")
    assert errors.were_mentioned(["--third"], count) and not errors.were_mentioned(["--fourth"])


def test_what_was_named_with_a_better_reason_is_not_named_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "m.onnx", "--onnxrt", "--rtol", "1", "--gen-script", "-"]) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if "--rtol" in line]
    assert len(warnings) == 1
    assert "there is a single runner" in warnings[0]


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        ("surgeon sanitize m.onnx -o n.onnx --num-passes 2 --no-fold-shapes", "--num-passes, --no-fold-shapes: has no effect without --fold-constants."),
        ("run m.onnx --onnxrt --cast-io", "--cast-io: has no effect without --fp-to-fp16 or --to-bf16."),
        ("inspect model m.onnx --no-onnxruntime-shape-inference", "--no-onnxruntime-shape-inference: has no effect without --shape-inference."),
        ("inspect capability m.onnx --save-external-data", "--save-external-data: has no effect without --with-partitioning."),
    ],
)  # fmt: skip
def test_what_an_option_needs_is_named_once(
    words: str, warning: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), "--gen-script", "-"]) == 0
    assert capsys.readouterr().err == f"[W] {warning}\n"


def test_what_an_option_needs_is_an_option_of_its_command() -> None:
    for command in map(load_command, COMMANDS):
        flags = {row.flags[0] for row in command.options if row.flags}
        for row in command.options:
            assert set(row.needs) <= flags, (command.name, row.flags)
