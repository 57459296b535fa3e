"""What `polygraphy.testing` gives to people who write a runner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy import testing
from polygraphy.backend.onnx import OnnxFromPath, OnnxReferenceRunner
from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
from polygraphy.common import TensorMetadata
from polygraphy.datatype import DataType
from polygraphy.exception import FileError
from polygraphy.testing import (
    FakeLoader,
    FakeRunner,
    check_data_types,
    check_loader,
    check_runner,
    strategies,
)
from tests.support import models
from tests.support.examples import scaled

FEED = {"x": np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)}
INPUTS = TensorMetadata().add("x", np.float32, (1, 1, 2, 2))


SUITES = ("check_data_types", "check_loader", "check_result_store", "check_runner")


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


def test_data_may_hold_nan() -> None:
    feed = {"x": np.full((1, 1, 2, 2), np.nan, np.float32)}
    check_runner(lambda: FakeRunner(twice, INPUTS), feed)


class Writes(FakeRunner):
    def infer_impl(self, feed_dict: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        outputs = super().infer_impl(feed_dict, *args, **kwargs)
        feed_dict["x"][...] = 7
        return outputs


class Counts(FakeRunner):
    def infer_impl(self, feed_dict: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        super().infer_impl(feed_dict, *args, **kwargs)
        return {"y": np.array([len(self.feeds)])}


class IsNeverActive(FakeRunner):
    @property
    def is_active(self) -> bool:
        return False

    @is_active.setter
    def is_active(self, value: bool) -> None:
        pass


class StaysActive(FakeRunner):
    def deactivate(self) -> None:
        pass


@pytest.mark.parametrize(
    ("make", "promise"),
    [
        (lambda: FakeRunner(twice, INPUTS, name="one"), "unique"),
        (lambda: FakeRunner(twice), "names the inputs"),
        (lambda: FakeRunner({}, INPUTS), "has outputs"),
        (lambda: FakeRunner(twice, INPUTS, runtime=-1.0), "positive"),
        (lambda: Writes(twice, INPUTS), "is not modified|equal outputs"),
        (lambda: Counts(twice, INPUTS), "equal outputs"),
        (lambda: StaysActive(twice, INPUTS), "after the block"),
        (lambda: IsNeverActive(twice, INPUTS), "inside the block"),
    ],
)
def test_runners_that_break_a_promise_are_found(make: Callable[[], Any], promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        check_runner(make, {"x": FEED["x"].copy()})


def test_all_fakes_are_published() -> None:
    from polygraphy.adapters import fake

    assert set(testing.__all__) == {*fake.__all__, "bind", *SUITES}


def test_loaders_that_break_a_promise() -> None:
    check_loader(lambda: FakeLoader("model"), lambda: FakeLoader(error=FileError("no file")))
    with pytest.raises(AssertionError, match="returns what it loads"):
        check_loader(lambda: FakeLoader(None))
    values = iter(["model", 7])
    with pytest.raises(AssertionError, match="can be called again"):
        check_loader(lambda: lambda: next(values))
    with pytest.raises(AssertionError, match="raises a PolygraphyException at the call"):
        check_loader(lambda: FakeLoader("model"), lambda: FakeLoader("model"))


class Swaps:
    """Names of data types, of which two are mixed up."""

    def to_native(self, entry: Any) -> Any:
        return entry.name

    def from_native(self, dtype: Any) -> Any:
        return next((entry for entry in DataType if entry.name == dtype), None)


def test_data_types_that_break_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    check_data_types(Swaps())
    monkeypatch.setattr(Swaps, "from_native", lambda self, dtype: DataType.FLOAT32)
    with pytest.raises(AssertionError, match="translated there and back"):
        check_data_types(Swaps())
    monkeypatch.setattr(Swaps, "to_native", lambda self, entry: None)
    with pytest.raises(AssertionError, match="at least one"):
        check_data_types(Swaps())


@given(st.data())
@settings(max_examples=scaled(40))
def test_data_that_are_drawn_fit(data: st.DataObject) -> None:
    metadata = data.draw(strategies.input_metadata())
    feed = data.draw(strategies.feed_dicts(metadata))
    assert list(feed) == list(metadata)
    named: dict[str, int] = {}
    for name, entry in metadata.items():
        assert feed[name].dtype == entry.dtype.numpy()
        for size, dim in zip(feed[name].shape, entry.shape):
            assert dim in (None, size) or named.setdefault(dim, size) == size
    results = data.draw(strategies.run_results())
    assert len({len(iterations) for _, iterations in results}) == 1
