"""Shapes and addresses that come in turn keep their CUDA graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polygraphy.adapters.tensorrt.runtime.contexts import PLACES
from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from polygraphy.cuda import DeviceArray
from tests.support.engines import fake_machine, identity, nonzero, trt
from tests.support.examples import scaled
from tests.support.fake_tensorrt import FakeTensorRT

__all__ = ["trt"]  # The fixture that is used here.

F32 = np.float32


def rows(count: int, value: float = 0) -> np.ndarray[Any, Any]:
    return np.arange(2 * count, dtype=F32).reshape(count, 2) + F32(value)


def captures(trt: FakeTensorRT) -> int:
    return trt.cuda.calls.count("cudaStreamBeginCapture")


def contexts(engine: Any) -> int:
    return sum(one() is not None for one in engine.made)


def check_turns(runner: TrtRunner, sizes: tuple[int, ...], times: int) -> None:
    for value in range(times):
        for size in sizes:
            feed = rows(size, value)
            np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)


@pytest.mark.parametrize("strategy", ["static", "profile", "runtime"])
@pytest.mark.parametrize("is_timed", [False, True])
def test_a_few_shapes_in_turn_are_captured_once_each(
    trt: FakeTensorRT, strategy: str, is_timed: bool
) -> None:
    engine = identity(trt)
    with TrtRunner(engine, allocation_strategy=strategy, device_times=is_timed) as runner:
        check_turns(runner, (8, 3, 5), 4)
        assert captures(trt) == 3
        before = trt.cuda.calls.count("cudaGraphLaunch")
        executed = trt.cuda.calls.count("execute_async_v3")
        check_turns(runner, (5, 8, 3), 10)
        assert captures(trt) == 3
        assert trt.cuda.calls.count("cudaGraphLaunch") == before + 30
        assert trt.cuda.calls.count("execute_async_v3") == executed
    assert contexts(engine) == 0


def test_arrays_on_the_device_that_take_turns(trt: FakeTensorRT) -> None:
    with (
        TrtRunner(identity(trt)) as runner,
        DeviceArray(dtype=F32) as one,
        DeviceArray(dtype=F32) as other,
    ):
        for value in range(12):
            for number, array in enumerate((one, other)):
                array.copy_from(rows(4, value + number))
                got = runner.infer({"X": array}, copy_outputs_to_host=False)["Y"].numpy()
                np.testing.assert_array_equal(got, rows(4, value + number))
        assert captures(trt) == 2


def test_memory_that_grows_costs_the_graphs_that_used_it(trt: FakeTensorRT) -> None:
    with TrtRunner(identity(trt)) as runner:
        check_turns(runner, (2, 3), 6)
        before = captures(trt)
        check_turns(runner, (64,), 1)  # All buffers move.
        check_turns(runner, (2, 3), 6)
        assert captures(trt) > before


def test_there_are_no_more_contexts_than_places(trt: FakeTensorRT) -> None:
    engine = identity(trt)
    with TrtRunner(engine) as runner:
        check_turns(runner, tuple(range(1, 3 * PLACES)), 5)
        assert contexts(engine) == PLACES + 1
        runner.set_profile(1)
        assert contexts(engine) == 1
    assert contexts(engine) == 0


def test_contexts_are_made_only_for_graphs(trt: FakeTensorRT) -> None:
    for engine, mode in ((identity(trt), "off"), (identity(trt, can_capture=False), "auto")):
        with TrtRunner(engine, cuda_graph=mode) as runner:
            check_turns(runner, (2, 2, 2, 3, 3, 3), 6)
            assert contexts(engine) == 1
    engine = nonzero(trt)
    with TrtRunner(engine) as runner:
        for size in (2, 3) * 6:
            runner.infer({"X": np.ones(size, F32)})
        assert contexts(engine) == 1


def test_a_context_of_the_caller_stays_alone(trt: FakeTensorRT) -> None:
    engine = identity(trt)
    with TrtRunner(engine.create_execution_context()) as runner:
        check_turns(runner, (2, 3), 6)
        assert contexts(engine) == 1


@pytest.mark.parametrize(
    ("generation", "facts"),
    [(8, {}), (10, {"refuses_others": True}), (10, {"contexts": 1}), (10, {"memory": 1 << 40})],
    ids=["allows one context", "no second one runs", "none can be made", "no memory"],
)
def test_where_there_can_be_one_context_it_does_everything(
    generation: int, facts: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_machine(generation) as trt:
        engine = identity(trt, **facts)
        with TrtRunner(engine) as runner:
            check_turns(runner, (2, 3), 6)
            assert contexts(engine) == 1
            for _ in range(4):  # And still has a graph.
                check_turns(runner, (3,), 1)
            assert trt.cuda.calls[-1] != "execute_async_v3"
            assert "cudaGraphLaunch" in trt.cuda.calls
        assert trt.cuda.outstanding == {}
    assert "[E]" not in capsys.readouterr().out


def test_an_older_engine_with_several_profiles_shares_none_of_them() -> None:
    with fake_machine(8) as trt:
        engine = identity(trt)
        with TrtRunner(engine, optimization_profile=1) as runner:
            check_turns(runner, (40, 50), 6)
            assert contexts(engine) == 1
        assert trt.cuda.outstanding == {}


def test_an_older_engine_that_shares_its_profiles_keeps_graphs() -> None:
    with fake_machine(8) as trt:
        with TrtRunner(identity(trt, shares_profiles=True), optimization_profile=1) as runner:
            check_turns(runner, (40, 50), 6)
            assert captures(trt) == 2
        assert trt.cuda.outstanding == {}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=scaled(40))
@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.booleans()), max_size=40),
    st.sampled_from(["auto", "on"]),
    st.sampled_from(["static", "runtime"]),
)
def test_results_are_right_in_any_order(
    calls: list[tuple[int, bool, bool]], mode: str, strategy: str
) -> None:
    """The fake refuses to launch a graph when its context was changed since, or memory freed."""
    with (
        fake_machine() as trt,
        TrtRunner(identity(trt), cuda_graph=mode, allocation_strategy=strategy) as runner,
        DeviceArray(dtype=F32) as array,
    ):
        for number, (size, is_on_device, to_host) in enumerate(calls):
            feed = rows(size, number)
            given_as: Any = array.copy_from(feed) if is_on_device else feed
            output = runner.infer({"X": given_as}, copy_outputs_to_host=to_host)["Y"]
            np.testing.assert_array_equal(output if to_host else output.numpy(), feed)
