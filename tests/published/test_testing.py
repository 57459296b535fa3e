"""What `polygraphy.testing` gives to people who write a runner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy import testing
from polygraphy.backend.onnx import OnnxFromPath, OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.common import TensorMetadata
from polygraphy.testing import FakeRunner, check_runner
from tests.support import models

FEED = {"x": np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)}
INPUTS = TensorMetadata().add("x", np.float32, (1, 1, 2, 2))


def twice(feed: Any) -> dict[str, Any]:
    return {"y": feed["x"] * 2}


@pytest.mark.parametrize(
    "make",
    [
        lambda path: OnnxrtRunner(SessionFromOnnx(path)),
        lambda path: OnnxReferenceRunner(OnnxFromPath(path)),
        lambda path: FakeRunner(twice, INPUTS),
        lambda path: FakeRunner(twice, INPUTS, reuse_buffers=True),
        lambda path: FakeRunner({"y": np.array([np.nan])}, INPUTS, runtime=None),
    ],
)
def test_runners_pass(make: Callable[[str], Any], tmp_path: Path) -> None:
    models.save(models.identity(), tmp_path / "identity.onnx")
    check_runner(lambda: make(str(tmp_path / "identity.onnx")), FEED)


class Writes(FakeRunner):
    def infer_impl(self, feed_dict: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        outputs = super().infer_impl(feed_dict, *args, **kwargs)
        feed_dict["x"][...] = 7
        return outputs


class Counts(FakeRunner):
    def infer_impl(self, feed_dict: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        super().infer_impl(feed_dict, *args, **kwargs)
        return {"y": np.array([len(self.feeds)])}


class StaysActive(FakeRunner):
    def deactivate(self) -> None:
        pass


@pytest.mark.parametrize(
    ("make", "promise"),
    [
        (lambda: FakeRunner(twice, INPUTS, name="one"), "unique"),
        (lambda: FakeRunner(twice), "name the inputs"),
        (lambda: FakeRunner({}, INPUTS), "has outputs"),
        (lambda: FakeRunner(twice, INPUTS, runtime=-1.0), "positive"),
        (lambda: Writes(twice, INPUTS), "left alone|same outputs"),
        (lambda: Counts(twice, INPUTS), "same outputs"),
        (lambda: StaysActive(twice, INPUTS), "after the block"),
    ],
)
def test_runners_that_break_a_promise_are_found(make: Callable[[], Any], promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        check_runner(make, {"x": FEED["x"].copy()})


def test_all_fakes_are_published() -> None:
    from polygraphy.adapters import fake

    assert set(testing.__all__) == {*fake.__all__, "bind", "check_runner"}
