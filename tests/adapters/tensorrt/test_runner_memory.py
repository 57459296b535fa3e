"""Who owns the memory of activations, and which weights stay on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from polygraphy.domain.errors import (
    BackendError,
    UsageError,
)
from tests.support.engines import fake_machine, identity
from tests.support.fake_tensorrt import FakeTensorRT

F32 = np.float32
X = np.arange(6, dtype=F32).reshape(3, 2)


# Memory.


@pytest.mark.parametrize("strategy", [None, "static"])
def test_the_engine_owns_its_memory_by_default(any_trt: FakeTensorRT, strategy: str) -> None:
    with TrtRunner(identity(any_trt), allocation_strategy=strategy) as runner:
        runner.infer({"X": X})
        assert runner.context.memory is None


def test_memory_for_a_profile(any_trt: FakeTensorRT) -> None:
    with TrtRunner(identity(any_trt, memory=4096), allocation_strategy="profile") as runner:
        np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)
        if any_trt.generation == 10:
            assert runner.context.memory[1] == 4096
            runner.set_profile(1)
            assert runner.context.memory[1] == 8192
        assert any_trt.cuda.allocated >= 4096


def test_memory_for_the_shapes_at_hand(trt: FakeTensorRT) -> None:
    with TrtRunner(identity(trt), allocation_strategy="runtime") as runner:
        for rows in (3, 64, 1):
            runner.infer({"X": np.zeros((rows, 2), F32)})
            assert runner.context.memory[1] == rows * 2 * 4


def test_memory_for_the_shapes_at_hand_needs_a_newer_tensorrt() -> None:
    with (
        fake_machine(8) as trt,
        pytest.raises(BackendError, match=r"--allocation-strategy\) requires"),
    ):
        TrtRunner(identity(trt), allocation_strategy="runtime").activate()


@pytest.mark.parametrize(
    ("options", "budget"),
    [
        ({"weight_streaming_budget": 300}, 300),
        ({"weight_streaming_budget": 10**9}, 1000),
        ({"weight_streaming_budget": -1}, 250),
        ({"weight_streaming_budget": -2}, 1000),
        ({"weight_streaming_percent": 50}, 500),
        ({"weight_streaming_percent": 100}, 1000),
        ({"weight_streaming_percent": 0}, 0),
    ],
)
def test_weights_that_are_streamed(trt: FakeTensorRT, options: Any, budget: int) -> None:
    engine = identity(trt, streamable=1000)
    engine.budget = 777
    with TrtRunner(engine, **options):
        assert engine.budget == budget


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        ({"weight_streaming_budget": 1, "weight_streaming_percent": 1}, "not both"),
        ({"weight_streaming_percent": 101}, "between 0 and 100"),
        ({"weight_streaming_budget": -3}, "is not a valid weight streaming budget"),
    ],
)
def test_budgets_without_a_meaning(trt: FakeTensorRT, options: Any, reported: str) -> None:
    with pytest.raises(UsageError, match=reported):
        TrtRunner(identity(trt, streamable=1000), **options).activate()


def test_weights_that_cannot_be_streamed(any_trt: FakeTensorRT) -> None:
    with pytest.raises(BackendError, match="cannot stream weights"):
        TrtRunner(identity(any_trt), weight_streaming_budget=10).activate()
    with TrtRunner(identity(any_trt), weight_streaming_budget=-2):
        pass


@pytest.mark.parametrize("strategy", ["static", "profile", "runtime"])
def test_a_plan_of_an_older_version_owns_its_memory(
    trt: FakeTensorRT, strategy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = identity(trt, is_old_plan=True)
    with TrtRunner(engine, allocation_strategy=strategy) as runner:
        for value in range(4):
            for size in (3, 5):
                feed = np.full((size, 2), value, np.float32)
                np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)
        assert len(engine.made) == 1
        assert runner.context.memory is None
    said = capsys.readouterr()
    assert "[E]" not in said.out
    assert ("'profile' (--allocation-strategy) has no effect" in said.out + said.err) is (
        strategy == "profile"
    )
