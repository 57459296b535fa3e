"""What comes out of an engine: shapes that depend on data, large arrays, debug tensors."""

from __future__ import annotations

import gc
from typing import NoReturn

import numpy as np
import pytest

from polygraphy.adapters.tensorrt.library.datatype import TensorrtDataTypes
from polygraphy.adapters.tensorrt.runtime.inputs import STAGING_LIMIT
from polygraphy.adapters.tensorrt.runtime.memory import DeviceBlock
from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from polygraphy.common import FormattedArray
from polygraphy.cuda import DeviceView
from polygraphy.domain.errors import (
    BackendError,
    UnknownNameError,
    UsageError,
)
from tests.support.engines import identity, large, nonzero
from tests.support.fake_tensorrt import FakeTensorRT

F32 = np.float32
X = np.arange(6, dtype=F32).reshape(3, 2)


def interrupted(*args: object) -> NoReturn:
    """Do what ctrl-C does."""
    raise KeyboardInterrupt


# Outputs.


def test_shapes_that_depend_on_data_come_out(any_trt: FakeTensorRT) -> None:
    with TrtRunner(nonzero(any_trt)) as runner:
        for values in ([0, 1, 2], [0, 0], [5], [1] * 300, [3, 0]):
            feed = np.array(values, F32)
            outputs = runner.infer({"X": feed})
            np.testing.assert_array_equal(outputs["indices"], np.stack(np.nonzero(feed)))
            assert outputs["indices"].dtype == np.int32
            np.testing.assert_array_equal(outputs["more"], feed + 1)
            assert list(outputs) == ["indices", "more"]
    assert "cudaStreamBeginCapture" not in any_trt.cuda.calls


def test_an_allocator_gives_the_same_memory_again(any_trt: FakeTensorRT) -> None:
    with TrtRunner(nonzero(any_trt)) as runner:
        runner.infer({"X": np.ones(4096, F32)})
        before = any_trt.cuda.calls.count("cudaMalloc")
        for size in (1, 4000, 17):
            runner.infer({"X": np.ones(size, F32)})
        assert any_trt.cuda.calls.count("cudaMalloc") == before


def test_an_allocator_that_cannot_tells_why(trt: FakeTensorRT) -> None:
    with TrtRunner(nonzero(trt)) as runner:
        runner.infer({"X": np.ones(4, F32)})
        trt.cuda.fail["cudaMalloc"] = 2
        with pytest.raises(BackendError, match="out of memory"):
            runner.infer({"X": np.ones(4000, F32)})
        assert runner.infer({"X": np.ones(3, F32)})["indices"].shape == (1, 3)


def test_ctrl_c_while_memory_is_allocated_is_raised_afterwards(
    trt: FakeTensorRT, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Block(DeviceBlock):
        def reserve(self, nbytes: int) -> int:
            return interrupted() if nbytes > 10_000 else super().reserve(nbytes)

    monkeypatch.setattr("polygraphy.adapters.tensorrt.runtime.outputs.DeviceBlock", Block)
    with TrtRunner(nonzero(trt)) as runner:
        with pytest.raises(KeyboardInterrupt):
            runner.infer({"X": np.ones(4000, F32)})
        assert runner.infer({"X": np.ones(3, F32)})["indices"].shape == (1, 3)


def test_outputs_can_stay_on_the_device(any_trt: FakeTensorRT) -> None:
    with TrtRunner(identity(any_trt)) as runner:
        for value in range(4):
            outputs = runner.infer({"X": X + value}, copy_outputs_to_host=False)
            assert type(outputs["Y"]) is DeviceView
            np.testing.assert_array_equal(outputs["Y"].numpy(), X + value)
        np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)
    with TrtRunner(nonzero(any_trt)) as runner:
        outputs = runner.infer({"X": X[0]}, copy_outputs_to_host=False)
        assert outputs["indices"].numpy().tolist() == [[1]]


def test_raw_outputs_are_as_they_lie_in_memory(trt: FakeTensorRT) -> None:
    with TrtRunner(identity(trt)) as runner:
        raw = runner.infer({"X": X}, return_raw_buffers=True)["Y"]
    assert isinstance(raw, FormattedArray)
    assert raw.shape == (3, 2)
    np.testing.assert_array_equal(np.asarray(raw.array).reshape(3, 2), X)


def test_large_arrays_go_directly(any_trt: FakeTensorRT) -> None:
    with TrtRunner(identity(any_trt), optimization_profile=1) as runner:
        for value in range(4):
            feed = large(value=value)
            np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)
        # The one output that was given again and again; nothing is staged.
        assert sum(block.nbytes for block in any_trt.cuda._pinned.values()) == feed.nbytes


def test_a_large_array_that_comes_again_is_pinned_for_as_long_as_it_lives(
    trt: FakeTensorRT,
) -> None:
    with TrtRunner(identity(trt), optimization_profile=1) as runner:
        feed = large()
        for value in range(4):
            feed[:] = value
            np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)
            assert len(trt.cuda._registered) == (value > 0)
        runner.infer({"X": large()})
        del feed
        gc.collect()
        assert trt.cuda._registered == {}
        kept = large(STAGING_LIMIT // 8 + 2)
        for _ in range(2):
            runner.infer({"X": kept[1:]})
        assert len(trt.cuda._registered) == 1


def test_a_pinned_array_lives_as_long_as_it_is_used(trt: FakeTensorRT) -> None:
    with TrtRunner(identity(trt), optimization_profile=1) as runner:
        with pytest.raises(UsageError, match="dynamic shape"):
            runner.pinned_input("X")
        with pytest.raises(UnknownNameError, match="'x'"):
            runner.pinned_input("x")
        feed = runner.pinned_input("X", large().shape)
        assert feed.dtype == F32
        for value in range(4):
            feed[:] = value
            np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)
        assert trt.cuda._registered == {}
    view = feed[1:]
    del feed
    gc.collect()
    assert view[0, 0] == 3
    assert trt.cuda.outstanding == {"pinned": 1}
    del view
    gc.collect()


def test_memory_of_others_is_not_pinned(trt: FakeTensorRT) -> None:
    feed = np.frombuffer(large().tobytes(), F32).reshape(-1, 2)
    with TrtRunner(identity(trt), optimization_profile=1) as runner:
        for _ in range(3):
            np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)
        assert trt.cuda._registered == {}


# Debug tensors.


def test_debug_tensors_are_outputs_too(trt: FakeTensorRT) -> None:
    engine = identity(trt, debug={"inside": lambda feed: {"inside": feed["X"] * 3}})
    with TrtRunner(engine) as runner:
        for value in range(4):
            outputs = runner.infer({"X": X + value})
            assert list(outputs) == ["Y", "inside"]
            np.testing.assert_array_equal(outputs["inside"], (X + value) * 3)


def test_ctrl_c_while_debug_tensors_are_copied_is_raised_afterwards(
    trt: FakeTensorRT, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = identity(trt, debug={"inside": lambda feed: {"inside": feed["X"]}})
    with TrtRunner(engine) as runner:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(TensorrtDataTypes, "from_native", interrupted)
            runner.infer({"X": X})
        assert list(runner.infer({"X": X})) == ["Y", "inside"]


def test_debug_tensors_go_to_a_listener_instead(trt: FakeTensorRT) -> None:
    seen: list[str] = []

    class Listener(trt.IDebugListener):  # type: ignore[misc, name-defined]
        def process_debug_tensor(self, addr, location, type, shape, name, stream):  # type: ignore[no-untyped-def]
            seen.append(name)
            return True

    engine = identity(trt, debug={"inside": lambda feed: {"inside": feed["X"]}})
    with TrtRunner(engine, debug_listener=Listener()) as runner:
        for _ in range(4):
            assert list(runner.infer({"X": X})) == ["Y"]
        assert seen == ["inside"] * 4
        runner.set_debug_listener(None)
        assert list(runner.infer({"X": X})) == ["Y", "inside"]


def test_what_would_end_the_process_with_an_older_plan_is_refused(trt: FakeTensorRT) -> None:
    with (
        TrtRunner(nonzero(trt, is_old_plan=True)) as runner,
        pytest.raises(BackendError, match=r"'indices'.*older TensorRT.*Build the engine with this"),
    ):
        runner.infer({"X": np.ones(3, np.float32)})
