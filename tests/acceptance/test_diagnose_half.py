"""`polygraphy diagnose --fp-to-fp16` and `--to-bf16`, as users run it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import models
from tests.support.diagnosis.half_precision_cases import PLANTED, network

Run = Callable[..., Any]


@pytest.mark.parametrize("kind", sorted(PLANTED))
def test_a_fault_is_named_and_its_remedy_mends_it(
    polygraphy: Run, tmp_path: Path, kind: str
) -> None:
    models.save(network(kind), tmp_path / "m.onnx")
    done = polygraphy("polygraphy diagnose m.onnx --fp-to-fp16 --format json", cwd=tmp_path)
    assert done.code == 1
    said = json.loads(done.out)
    assert (said["schema"], said["verdict"]) == (1, "fault")
    first = said["culprits"][0]
    assert (first["party"], first["cause"], first["rewrite"]) == ("model", kind, None)
    assert all(sentence.endswith(".") for sentence in first["evidence"])
    assert first["remedy"]["proven"] is True
    assert polygraphy(first["remedy"]["command"], cwd=tmp_path).code == 0
    mended = polygraphy("polygraphy run m_fp16.onnx --onnx --validate", cwd=tmp_path)
    assert mended.code == 0


def test_a_model_that_works_says_how_much_room_is_left(polygraphy: Run, tmp_path: Path) -> None:
    models.save(network(None), tmp_path / "m.onnx")
    done = polygraphy("polygraphy diagnose m.onnx --to-bf16", cwd=tmp_path)
    assert done.code == 0
    assert "All outputs match in bf16" in done.err + done.out
    assert "of the bf16 range" in done.err + done.out


def test_what_is_beyond_the_range_without_harm_is_said(polygraphy: Run, tmp_path: Path) -> None:
    model = network(None)
    keep = numpy_helper.from_array(np.array([1e9], np.float32), "bound")
    model.graph.initializer.append(keep)
    model.graph.node[-1].CopyFrom(
        helper.make_node("Min", [model.graph.node[-1].input[0], "bound"], ["y"], name="end")
    )
    models.save(model, tmp_path / "m.onnx")
    done = polygraphy("polygraphy diagnose m.onnx --fp-to-fp16", cwd=tmp_path)
    assert done.code == 0
    said = done.err + done.out
    assert (
        "The outputs do not show that 1 of 1 elements of the weight 'bound' are too large" in said
    )
    assert "The largest tensor within the range" in said


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--fp-to-fp16 --to-bf16", 2, "cannot be combined"),
        ("--onnxrt --rtol 0.5", 4, "has no effect without --fp-to-fp16 or --to-bf16"),
        ("--fp-to-fp16 --onnxrt", 0, "fp16, onnxrt"),
        ("", 0, "because no backend is set"),
    ],
)
def test_what_does_not_go_together_is_said(
    polygraphy: Run, tmp_path: Path, words: str, code: int, said: str
) -> None:
    models.save(network(None), tmp_path / "m.onnx")
    done = polygraphy(f"polygraphy diagnose m.onnx {words}", cwd=tmp_path)
    assert done.code == code
    assert said in done.err + done.out


def test_a_model_without_float32_has_nothing_to_cast(polygraphy: Run, tmp_path: Path) -> None:
    narrow = [models.value(name, (2, 3), TensorProto.FLOAT16) for name in "xy"]
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    models.save(models.make("narrow", nodes, narrow[:1], narrow[1:]), tmp_path / "m.onnx")
    done = polygraphy("polygraphy diagnose m.onnx --fp-to-fp16", cwd=tmp_path)
    assert done.code == 2
    assert "No node of the model can be cast to fp16" in done.err + done.out
