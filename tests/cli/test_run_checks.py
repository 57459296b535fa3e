"""Options of `run` that have no effect are named, once each."""

from __future__ import annotations

import pytest

from polygraphy.cli.main import main

ONNX = ["run", "m.onnx", "--onnx"]
COMPARED = ["run", "m.onnx", "--onnx", "--onnxrt"]
NOT_ORT = "nothing runs in ONNX Runtime: see --onnxrt"
NOT_COMPARED = "nothing is compared: there is a single runner"


def warnings(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main([*words, "--gen-script", "-"]) == 0
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("words", "flags", "because"),
    [
        (["--providers", "cpu"], "--providers", NOT_ORT),
        (["--graph-optimization-level", "basic"], "--graph-optimization-level", NOT_ORT),
        (["--rtol", "1", "--atol", "2"], "--rtol, --atol", NOT_COMPARED),
        (
            ["--check-average", "--check-error-stat", "max"],
            "--check-average, --check-error-stat",
            NOT_COMPARED,
        ),
        (["--allow-missing-outputs"], "--allow-missing-outputs", NOT_COMPARED),
        (["--compare", "l2", "--l2-threshold", "1"], "--compare, --l2-threshold", NOT_COMPARED),
        (["--compare-func-script", "a.py"], "--compare-func-script", NOT_COMPARED),
        (["--compare", "top_k", "--top-k", "2"], "--compare, --top-k", NOT_COMPARED),
        (["--save-heatmaps", "maps"], "--save-heatmaps", NOT_COMPARED),
    ],
)
def test_what_has_no_effect_is_named(
    words: list[str], flags: str, because: str, capsys: pytest.CaptureFixture[str]
) -> None:
    level = ["--graph-optimization-level", "ENABLE_BASIC"]
    given = level if words[0] == "--graph-optimization-level" else words
    (line,) = [each for each in warnings([*ONNX, *given], capsys) if because in each]
    assert line == f"[W] {flags}: has no effect, because {because}."


def test_without_a_runner_nothing_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "m.onnx", "--load-outputs", "a.json", "b.json", "--seed", "3", "--warm-up", "2"]
    assert warnings(words, capsys) == [
        "[W] MODEL, --seed, --warm-up: has no effect, because nothing is run."
    ]


@pytest.mark.parametrize(
    "words",
    [
        [*ONNX, "--fail-fast", "--validate", "--postprocess", "top-3"],
        ["run", "m.onnx", "--onnxrt", "--providers", "cpu", "--seed", "1"],
        [*COMPARED, "--rtol", "1", "--check-average", "--check-error-stat", "max"],
        [*ONNX, "--load-outputs", "a.json", "--compare", "l2", "--l2-threshold", "1"],
        ["run", "--load-outputs", "a.json", "--rtol", "1"],
    ],
)
def test_what_has_an_effect_is_not(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert warnings(words, capsys) == []


@pytest.mark.parametrize(
    ("place", "is_known"),
    [
        ("backend/onnxrt", True),
        ("adapters/onnx/storage/model.py", True),
        ("comparator", True),
        ("func", True),
        ("compare.py", True),
        ("no/such", False),
        ("adapters/nothing.py", False),
        ("nothing", False),
        ("x" * 300, False),
    ],
)
def test_a_log_level_for_nothing_is_named(
    place: str, is_known: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    said = warnings([*ONNX, "--verbosity", f"{place}:VERBOSE"], capsys)
    if is_known:
        assert said == []
    else:
        assert said[0].startswith("[W] --verbosity ")
        assert "the package has no such file or folder" in said[0]


def test_an_output_flag_that_convert_does_not_have_is_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["data", "convert", "a.json", "-o", "b.json"]) == 2
    assert "-o does not exist: put the output last, without a flag" in capsys.readouterr().err
