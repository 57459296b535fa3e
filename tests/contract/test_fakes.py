"""What the fake runner and the fake loader promise on top of their contracts."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.fake import FakeLoader, FakeRunner
from polygraphy.domain.errors import BackendError
from polygraphy.domain.tensors.metadata import TensorMetadata

INPUTS = TensorMetadata().add("x", np.float32, ["n"])


def feed(*values: float) -> dict[str, Any]:
    return {"x": np.array(values, dtype=np.float32)}


def test_fixed_outputs_are_copied() -> None:
    outputs = {"y": np.ones(2)}
    with FakeRunner(outputs, INPUTS) as runner:
        runner.infer(feed(1))["y"][:] = 7
        np.testing.assert_array_equal(runner.infer(feed(1))["y"], [1, 1])
    np.testing.assert_array_equal(outputs["y"], [1, 1])


def test_a_function_makes_the_outputs() -> None:
    with FakeRunner(lambda given: {"y": given["x"] + 1}, INPUTS) as runner:
        np.testing.assert_array_equal(runner.infer(feed(1, 2))["y"], [2, 3])


def test_copies_of_the_data_are_kept() -> None:
    data = feed(1)
    with FakeRunner({}, INPUTS) as runner:
        runner.infer(data)
        data["x"][:] = 5
        runner.infer(data)
    assert [given["x"].tolist() for given in runner.feeds] == [[1], [5]]


def test_no_data_are_kept_if_not_wanted() -> None:
    with FakeRunner({}, INPUTS, keep_feeds=False) as runner:
        runner.infer(feed(1))
    assert runner.feeds == []


def test_events_of_several_runners_in_one_list() -> None:
    events: list[tuple[str, str]] = []
    with FakeRunner({}, name="a", events=events) as a, FakeRunner({}, name="b", events=events) as b:
        b.infer({})
        a.infer({})
    assert events == [
        ("a", "activate"), ("b", "activate"), ("b", "infer"), ("a", "infer"), ("b", "deactivate"),
        ("a", "deactivate"),
    ]  # fmt: skip
    assert a.events is b.events


def test_fails_in_the_given_inference_of_every_activation() -> None:
    runner = FakeRunner({"y": np.ones(1)}, name="frail", fail_at=1)
    for _ in range(2):
        with runner:
            runner.infer({})
            with pytest.raises(BackendError, match="frail failed in inference 1"):
                runner.infer({})
            runner.infer({})
    assert runner.events.count(("frail", "infer")) == 6


def test_fails_in_activation() -> None:
    runner = FakeRunner({}, name="frail", fail_at=-1, error=MemoryError())
    with pytest.raises(MemoryError), runner:
        pass
    assert runner.events == [("frail", "activate")]
    assert not runner.is_active


@pytest.mark.parametrize("runtime", [0.5, None])
def test_claims_the_given_runtime(runtime: float | None) -> None:
    with FakeRunner({}, runtime=runtime) as runner:
        runner.infer({})
        assert runner.last_inference_time() == runtime


def test_buffers_are_reused_like_those_of_an_engine() -> None:
    with FakeRunner(lambda given: {"y": given["x"]}, INPUTS, reuse_buffers=True) as runner:
        assert not runner.outputs_are_fresh
        first = runner.infer(feed(1, 2))["y"]
        second = runner.infer(feed(3, 4))["y"]
        assert first is second
        np.testing.assert_array_equal(first, [3, 4])
        larger = runner.infer(feed(5, 6, 7))["y"]
        np.testing.assert_array_equal(larger, [5, 6, 7])
        np.testing.assert_array_equal(first, [3, 4])
    assert FakeRunner({}).outputs_are_fresh


def test_a_loader_gives_its_value_and_counts() -> None:
    value = object()
    loader = FakeLoader(value)
    assert loader.calls == 0
    assert loader() is value
    assert loader() is value
    assert loader.calls == 2


def test_a_loader_may_fail() -> None:
    loader = FakeLoader(error=BackendError("no"))
    with pytest.raises(BackendError, match="no"):
        loader()
    assert loader.calls == 1


@pytest.mark.slow
def test_the_fakes_need_no_backend() -> None:
    code = (
        "import sys, polygraphy.adapters.fake as fake\n"
        "foreign = {'onnx', 'onnxruntime', 'jinja2', 'rich', 'black', 'google'}\n"
        "print(sorted(foreign & {name.partition('.')[0] for name in sys.modules}))\n"
        "assert sorted(fake.__all__) == fake.__all__"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
