"""What is no engine is named for what it is, before TensorRT sees it."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.adapters.tensorrt.plan.engine import HEADER_SIZE, check_plan
from polygraphy.backend.trt import (
    EngineFromBytes,
    EngineFromPath,
    NetworkFromOnnxPath,
)
from polygraphy.domain.errors import ModelError
from tests.support import models


def _zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("data.pkl", b"x" * 99)
    return stream.getvalue()


FOREIGN = {
    "an ONNX model": models.mlp().SerializeToString(),
    "a Git LFS pointer file": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n",
    "a calibration cache": b"TRT-8600-EntropyCalibration2\nx: 3c008912\n",
    "a zip archive": _zip(),
    "gzip data": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
    "an HDF5 file": b"\x89HDF\r\n\x1a\n",
    "a shared library": b"\x7fELF\x02\x01\x01" + bytes(57),
    "starts with zeros only": bytes(4096),
    "it is text": json.dumps({"tactics": ["a", "b", "c", "d"] * 20}).encode(),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_files_are_reported_for_what_they_are(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.engine"
    path.write_bytes(FOREIGN[kind])
    with pytest.raises(ModelError, match=kind) as caught:
        EngineFromPath(str(path))()
    assert str(path) in str(caught.value)
    with pytest.raises(
        ModelError, match=f"^The engine is not a TensorRT engine: .*{kind.rsplit(maxsplit=1)[-1]}"
    ):
        EngineFromBytes(FOREIGN[kind])()


@pytest.fixture
def plan(rtx: Any, mlp_path: str) -> bytes:
    """Return a plan of TensorRT-RTX."""
    from tests.support.helpers.tensorrt_builds import build_plan

    return bytes(build_plan(NetworkFromOnnxPath(mlp_path)))


def test_a_truncated_plan_is_reported_with_what_is_missing(plan: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.engine"
    check_plan(plan[:HEADER_SIZE], len(plan))
    for size in (24, len(plan) // 2, len(plan) - 1):
        path.write_bytes(plan[:size])
        with pytest.raises(ModelError, match=f"is truncated: it has {size} of {len(plan)} bytes"):
            EngineFromPath(str(path))()


@given(st.binary(max_size=HEADER_SIZE))
def test_other_bytes_that_begin_like_a_plan_are_for_tensorrt_to_judge(rest: bytes) -> None:
    check_plan(b"ftrt\0\0\0\0" + rest, 8 + len(rest))
    check_plan(b"ptrt" + b"\0" + rest, 5 + len(rest))
