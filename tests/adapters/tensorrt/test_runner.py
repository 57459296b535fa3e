"""What the runner promises beyond the contract of all runners, in a TensorRT without a GPU."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from polygraphy.domain.errors import (
    BackendError,
    InputError,
    PolygraphyException,
    UnknownNameError,
    UsageError,
)
from tests.support.engines import calls_of, fake_machine, identity, nonzero
from tests.support.fake_tensorrt import FakeTensorRT, Tensor

F32 = np.float32
X = np.arange(6, dtype=F32).reshape(3, 2)


# What it can be made of.


def test_an_engine_a_loader_and_a_context_will_do(any_trt: FakeTensorRT) -> None:
    engine = identity(any_trt)
    for made in (engine, lambda: engine):
        with TrtRunner(made) as runner:
            assert runner.engine is engine
            np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)
    context = engine.create_execution_context()
    with TrtRunner(context) as runner:
        assert (runner.context, runner.engine) == (context, engine)
        np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)
        del runner


def test_a_plan_of_an_older_version_runs_without_a_word_of_what_it_lacks(
    trt: FakeTensorRT, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polygraphy.logger import G_LOGGER

    reported: list[str] = []
    monkeypatch.setattr(G_LOGGER, "error", reported.append)
    with TrtRunner(identity(trt, is_old_plan=True)) as runner:
        np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)
        assert reported == []
        trt.error("a real one")
    assert reported == ["a real one"]
    assert len(trt.log) == 4


def test_a_loader_that_makes_nothing_is_an_error(trt: FakeTensorRT) -> None:
    with pytest.raises(BackendError, match="no engine"), TrtRunner(lambda: None):
        pass


def test_without_a_gpu_nothing_is_loaded(trt: FakeTensorRT) -> None:
    trt.cuda.driver = 100  # type: ignore[assignment]
    loaded: list[int] = []
    with pytest.raises(BackendError, match="no CUDA-capable device"):
        TrtRunner(lambda: loaded.append(1)).activate()
    assert loaded == []


def test_what_fails_in_activation_gives_everything_back(trt: FakeTensorRT) -> None:
    with pytest.raises(BackendError, match="could not be allocated"):
        TrtRunner(identity(trt, contexts=0)).activate()
    assert trt.cuda.outstanding == {}


def test_too_little_memory_for_a_context_is_reported_in_bytes() -> None:
    with fake_machine(memory=1000) as trt, pytest.raises(BackendError) as caught:
        TrtRunner(identity(trt, contexts=0, memory=5000)).activate()
    assert "requires 5000 bytes of device memory, but only 1000 bytes are free" in str(caught.value)


# The shortest way.


def test_shapes_and_addresses_are_reported_once(any_trt: FakeTensorRT) -> None:
    with TrtRunner(identity(any_trt), cuda_graph="off") as runner:
        runner.infer({"X": X})
        assert calls_of(runner) == [
            "set_input_shape", "set_tensor_address", "set_tensor_address", "execute_async_v3",
        ]  # fmt: skip
        for value in (2, 3):
            np.testing.assert_array_equal(runner.infer({"X": X * value})["Y"], X * value)
            assert calls_of(runner) == ["execute_async_v3"]
        runner.infer({"X": X[:2]})
        assert calls_of(runner) == ["set_input_shape", "execute_async_v3"]
        np.testing.assert_array_equal(runner.infer({"X": X[:1]})["Y"], X[:1])


def test_what_repeats_runs_in_a_graph_with_the_data_at_hand(any_trt: FakeTensorRT) -> None:
    with TrtRunner(identity(any_trt)) as runner:
        for _ in range(2):
            runner.infer({"X": X})
        calls_of(runner)
        for value in range(4):
            np.testing.assert_array_equal(runner.infer({"X": X + value})["Y"], X + value)
        assert calls_of(runner) == []
        assert any_trt.cuda.calls.count("cudaGraphLaunch") == 4
        np.testing.assert_array_equal(runner.infer({"X": X[:1]})["Y"], X[:1])
        assert "execute_async_v3" in calls_of(runner)


def test_the_graph_can_be_turned_off(trt: FakeTensorRT) -> None:
    with TrtRunner(identity(trt), cuda_graph="off") as runner:
        for _ in range(5):
            runner.infer({"X": X})
    assert "cudaStreamBeginCapture" not in trt.cuda.calls


def test_what_cannot_be_captured_runs_all_the_same(
    trt: FakeTensorRT, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polygraphy.logger import G_LOGGER

    reported: list[str] = []
    monkeypatch.setattr(G_LOGGER, "verbose", lambda message: reported.append(str(message)))
    with TrtRunner(identity(trt, can_capture=False)) as runner:
        for value in range(5):
            np.testing.assert_array_equal(runner.infer({"X": X + value})["Y"], X + value)
    assert trt.cuda.calls.count("cudaStreamBeginCapture") == 1
    assert any("without a CUDA graph" in line and "not permitted" in line for line in reported)


def test_insisting_on_a_graph_that_cannot_be_is_an_error(trt: FakeTensorRT) -> None:
    with (
        TrtRunner(identity(trt, can_capture=False), cuda_graph="on") as runner,
        pytest.raises(BackendError, match=r"not permitted.*cuda_graph='auto' \(--cuda-graph\)"),
    ):
        runner.infer({"X": X})
    with TrtRunner(nonzero(trt), cuda_graph="on") as runner:
        for _ in range(2):
            with pytest.raises(BackendError, match="depend on the data"):
                runner.infer({"X": X[0]})


def test_insisting_captures_after_one_inference(trt: FakeTensorRT) -> None:
    with TrtRunner(identity(trt), cuda_graph="on") as runner:
        for _ in range(2):
            np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)
    assert trt.cuda.calls.count("cudaGraphLaunch") == 1


@pytest.mark.parametrize("mode", ["auto", "on", "off"])
def test_many_inferences_need_no_more_memory_than_a_few(any_trt: FakeTensorRT, mode: str) -> None:
    rng = np.random.default_rng(0)
    with TrtRunner(identity(any_trt), cuda_graph=mode) as runner:
        runner.infer({"X": np.zeros((64, 2), F32)})
        for repetition in range(300):
            feed = rng.random((int(rng.integers(0, 65)), 2), F32)
            np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)
            if repetition == 100:
                before = (any_trt.cuda.allocated, len(any_trt.cuda._pinned))
        assert (any_trt.cuda.allocated, len(any_trt.cuda._pinned)) == before


def test_a_choice_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(UnknownNameError, match=r"atuo.*auto"):
        TrtRunner(None, cuda_graph="atuo")
    with pytest.raises(UnknownNameError, match=r"dynamic.*runtime"):
        TrtRunner(None, allocation_strategy="dynamic")


# Profiles.


def test_a_shape_outside_the_profile_names_what_is_inside(any_trt: FakeTensorRT) -> None:
    with TrtRunner(identity(any_trt), optimization_profile=0) as runner:
        with pytest.raises(InputError) as caught:
            runner.infer({"X": np.zeros((65, 2), F32)})
        for fact in ("'X'", "(65, 2)", "profile 0", "(0, 2) to (64, 2)", "Choose profile 1"):
            assert fact in str(caught.value)
        assert any_trt.log == []
        np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)


def test_a_shape_that_no_profile_takes(trt: FakeTensorRT) -> None:
    with TrtRunner(identity(trt)) as runner, pytest.raises(InputError, match="wider profile"):
        runner.infer({"X": np.zeros((1 << 20, 2), F32)})


def test_another_profile_takes_other_shapes_and_says_so(any_trt: FakeTensorRT) -> None:
    feed = np.ones((100, 2), F32)
    with TrtRunner(identity(any_trt)) as runner:
        shape = runner.get_input_metadata()["X"].shape
        assert (shape.min, shape.max) == ((0, 2), (64, 2))
        runner.infer({"X": X})
        runner.set_profile(1)
        assert runner.get_input_metadata()["X"].shape.min == (32, 2)
        np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)
        with pytest.raises(InputError, match="profile 1"):
            runner.infer({"X": X})
        runner.set_profile(0)
        np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)


def test_the_profile_follows_the_shapes_and_results_outlive_the_change(
    any_trt: FakeTensorRT,
) -> None:
    prompt, later = np.ones((3, 2), F32), np.full((1 << 18, 2), 2, F32)
    with TrtRunner(identity(any_trt)) as runner:
        kept = [runner.infer({"X": feed})["Y"] for feed in (prompt, later, later, prompt)]
        assert runner.context.active_optimization_profile == 0
        for array, feed in zip(kept, (prompt, later, later, prompt)):
            np.testing.assert_array_equal(array, feed)
        with pytest.raises(InputError, match="wider profile"):
            runner.infer({"X": np.zeros((1 << 20, 2), F32)})
        np.testing.assert_array_equal(runner.infer({"X": later})["Y"], later)


def test_the_first_profile_can_be_chosen(any_trt: FakeTensorRT) -> None:
    with TrtRunner(identity(any_trt), optimization_profile=1) as runner:
        assert runner.context.active_optimization_profile == 1
        runner.infer({"X": np.ones((100, 2), F32)})


@pytest.mark.parametrize("index", [2, -1])
def test_a_profile_that_does_not_exist(any_trt: FakeTensorRT, index: int) -> None:
    with pytest.raises(UsageError, match=rf"profile {index} does not exist.*has 2"):
        TrtRunner(identity(any_trt), optimization_profile=index).activate()
    with pytest.raises(UsageError, match="must be active"):
        TrtRunner(identity(any_trt)).set_profile(0)


def test_where_a_profile_takes_one_context_the_second_runner_is_reported_why() -> None:
    with fake_machine(8) as trt:
        engine = identity(trt)
        with TrtRunner(engine) as first, TrtRunner(engine, optimization_profile=1) as other:
            np.testing.assert_array_equal(first.infer({"X": X})["Y"], X)
            with pytest.raises(BackendError, match=r"chosen for another context.*deactivate"):
                TrtRunner(engine).activate()
            assert other.is_active
        gc.collect()
        with TrtRunner(engine) as again:
            np.testing.assert_array_equal(again.infer({"X": X})["Y"], X)


def test_a_context_without_a_profile_waits_for_one() -> None:
    with fake_machine(8) as trt:
        engine = identity(trt)
        first, second = engine.create_execution_context(), engine.create_execution_context()
        assert second.active_optimization_profile == -1
        feed = np.ones((100, 2), F32)
        with TrtRunner(first) as used, TrtRunner(second) as waiting:
            np.testing.assert_array_equal(used.infer({"X": X})["Y"], X)
            assert "set_optimization_profile_async" not in second.calls
            assert list(waiting.get_input_metadata()) == ["X"]
            with pytest.raises(UsageError, match=r"has no optimization profile.*set_profile"):
                waiting.infer({"X": feed})
            waiting.set_profile(1)
            np.testing.assert_array_equal(waiting.infer({"X": feed})["Y"], feed)


# Times, threads, failures.


def test_times_of_the_device(any_trt: FakeTensorRT) -> None:
    with TrtRunner(identity(any_trt), device_times=True) as runner:
        assert runner.last_device_times() is None
        for _ in range(4):
            np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)
            times = runner.last_device_times()
            assert times is not None
            assert min(times.to_device, times.compute, times.to_host) > 0
            assert times.total == times.to_device + times.compute + times.to_host
    with TrtRunner(identity(any_trt)) as runner:
        runner.infer({"X": X})
        assert runner.last_device_times() is None


def test_two_runners_in_two_threads() -> None:
    wrong: list[int] = []

    def work(runner: TrtRunner, seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(50):
            feed = rng.random((int(rng.integers(1, 9)), 2), F32)
            if not np.array_equal(runner.infer({"X": feed})["Y"], feed):
                wrong.append(seed)

    with fake_machine() as trt, TrtRunner(identity(trt)) as one, TrtRunner(identity(trt)) as two:
        threads = [
            threading.Thread(target=work, args=(runner, seed))
            for seed, runner in enumerate((one, two))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_what_tensorrt_says_becomes_the_error(trt: FakeTensorRT) -> None:
    with TrtRunner(identity(trt)) as runner:
        runner.infer({"X": X})
        runner.context.needs_memory = True
        with pytest.raises(BackendError, match="could not run the engine: No device memory"):
            runner.infer({"X": X})
        runner.context.needs_memory = False
        np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)


def test_a_failure_of_the_device_is_an_error(trt: FakeTensorRT) -> None:
    with TrtRunner(identity(trt)) as runner:
        runner.infer({"X": X})
        trt.cuda.fail["cudaStreamSynchronize"] = 719
        with pytest.raises(BackendError, match=r"cudaErrorLaunchFailure.*CUDA_LAUNCH_BLOCKING"):
            runner.infer({"X": X})


@pytest.mark.parametrize(
    "feed", [{}, {"X": X.astype(np.float64)}, {"X": "text"}, {"X": np.zeros((99, 2), F32)}]
)
def test_mistakes_in_unchecked_data_are_named_and_forgotten(
    any_trt: FakeTensorRT, feed: Any
) -> None:
    with TrtRunner(identity(any_trt), optimization_profile=0) as runner:
        for _ in range(3):
            with pytest.raises(PolygraphyException, match="'X'"):
                runner.infer(feed, check_inputs=False)
            for value in (1, 2):
                np.testing.assert_array_equal(runner.infer({"X": X * value})["Y"], X * value)


def test_one_input_that_is_wrong_does_not_spoil_the_others(any_trt: FakeTensorRT) -> None:
    profile = [((1, 2), (4, 2), (8, 2))]
    engine = any_trt.engine(
        [
            Tensor("a", "FLOAT", (-1, 2), profiles=profile),
            Tensor("b", "FLOAT", (2,)),
            Tensor("y", "FLOAT", (-1, 2)),
        ],
        lambda feed: {"y": feed["a"] + feed["b"]},
        outputs=["y"],
    )
    b = np.ones(2, F32)
    with TrtRunner(engine) as runner:
        runner.infer({"a": X, "b": b})
        for rows in (1, 2):
            with pytest.raises(InputError, match="'b'"):
                runner.infer({"a": X[:rows], "b": b.astype(np.int32)}, check_inputs=False)
            got = runner.infer({"a": X[:rows], "b": b})["y"]
            np.testing.assert_array_equal(got, X[:rows] + 1)
