"""Whether TensorRT runs a model, and which operators it lacks: asked of its parser, for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from polygraphy.adapters.fake import FakeRunner
from polygraphy.check import check_compatibility
from polygraphy.domain.errors import BackendError
from tests.support import models

pytestmark = pytest.mark.usefixtures("rtx")


def _runner() -> FakeRunner:
    return FakeRunner({}, name="trt", fail_at=-1, error=BackendError("It cannot be built."))


def test_operators_that_the_parser_does_not_know_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "custom.onnx")
    models.save(models.custom_op(), Path(path))
    assert not check_compatibility(path, {"trt": _runner()})
    shown = capsys.readouterr().out
    assert "trt cannot run the model. It cannot be built." in shown
    assert "UNSUPPORTED | trt | Op: CustomOp | Nodes: custom" in shown


def test_a_model_that_the_parser_takes_has_no_such_operators(
    mlp_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not check_compatibility(mlp_path, {"trt": _runner()})
    assert "UNSUPPORTED" not in capsys.readouterr().out


def test_a_model_that_cannot_be_read_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "damaged.onnx"
    path.write_bytes(b"\x00nothing")
    assert not check_compatibility(str(path), {"trt": _runner()})
    assert "UNSUPPORTED" not in capsys.readouterr().out
