"""Models with states, run over several steps by the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.support.decoders import decoder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(decoder(), "right.onnx")
    onnx.save(decoder(fault="weight"), "wrong.onnx")
    return tmp_path


def test_the_first_wrong_step_is_in_the_table_and_in_the_document(
    folder: Path, polygraphy: Callable[..., Any]
) -> None:
    steps = "--steps 12 --prompt 3"
    saved = polygraphy(f"polygraphy run right.onnx --onnxrt {steps} --save-outputs r.safetensors")
    assert saved.code == 0
    done = polygraphy(
        f"polygraphy run wrong.onnx --onnxrt {steps} --load-outputs r.safetensors --report r.json"
    )
    assert done.code == 1
    assert "Step 5 is the first that differs (position 7," in done.out
    assert "x 5 to 11" in done.out or "x 5 " in done.out
    results = json.loads((folder / "r.json").read_text())["results"]
    [found] = [each for each in results if each["kind"] == "steps"]
    assert found["first_wrong"]["state"] == "present.0.key"
    assert found["rows"][0]["last"] == 4


def test_steps_that_agree_are_one_line(folder: Path, polygraphy: Callable[..., Any]) -> None:
    done = polygraphy("polygraphy run right.onnx --onnxrt --onnx --steps 5 --sequential-runners")
    assert done.code == 0
    assert "All 5 steps agree (positions 0 to 7, largest error" in done.out
    assert "States: present.0.key:past.0.key, present.0.value:past.0.value" in done.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--steps 99", "table 'pos_table' of positions has 24"),
        ("--steps --state now:past", "has no output 'now'"),
        ("--steps --tokens none.txt", "none.txt"),
        ("--steps 0", "0 is less than 1"),
        ("--steps --iterations 3", "--iterations"),
    ],
)
def test_steps_that_cannot_be_run_end_with_one_line(
    folder: Path, polygraphy: Callable[..., Any], options: str, message: str
) -> None:
    done = polygraphy(f"polygraphy run right.onnx --onnxrt {options}")
    assert done.code in (2, 3)
    assert message in done.out + done.err
