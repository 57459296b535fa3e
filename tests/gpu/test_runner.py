"""The runner on a real GPU, with a real TensorRT."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.tensorrt.library.module import has_gpu, is_installed
from polygraphy.adapters.tensorrt.runtime.runner import TrtRunner
from polygraphy.cuda import DeviceArray, use_device, wrapper
from polygraphy.domain.errors import BackendError, InputError, UsageError
from tests.gpu import engines
from tests.gpu.engines import engine, is_loaded

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu() or not is_installed(), reason="needs a GPU and TensorRT"),
]

X = np.random.default_rng(0).standard_normal((3, 16), dtype=np.float32)
MODES = ["auto", "on", "off"]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("mode", MODES)
def test_shapes_change_and_repeat(mode: str) -> None:
    rng = np.random.default_rng(1)
    with TrtRunner(engine(engines.identity), cuda_graph=mode) as runner:
        for rows in (3, 3, 3, 3, 64, 1, 1, 1, 1, 3, 3, 3):
            feed = rng.standard_normal((rows, 16), dtype=np.float32)
            np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)
            assert 0 < (runner.last_inference_time() or 0) < 10


def test_a_graph_is_used_when_things_repeat() -> None:
    with TrtRunner(engine(engines.identity)) as runner:
        for _ in range(3):
            runner.infer({"X": X})
        assert len(graphs(runner)) == 1


def graphs(runner: TrtRunner) -> list[Any]:
    """Return the graphs that a runner keeps."""
    assert runner._session is not None
    contexts = runner._session._contexts
    bound = (contexts.main, *contexts._others.values())
    return [one.graphs.graph for one in bound if one.graphs.graph is not None]


def test_memory_for_activations_is_right_in_turn() -> None:
    rng = np.random.default_rng(5)
    for strategy in ("static", "profile"):
        with TrtRunner(engine(engines.deep), allocation_strategy=strategy) as runner:
            print(f"activations: {runner.device_memory()} bytes")
            for rows in (3, 1, 512, 17) * 8:
                feed = rng.standard_normal((rows, 64), dtype=np.float32)
                wanted = engines.deep_expected(feed)
                found = runner.infer({"X": feed})["Y"]
                np.testing.assert_allclose(found, wanted, rtol=1e-2, atol=1e-4)
            assert len(graphs(runner)) == (0 if is_loaded() else 4)


@pytest.mark.parametrize("strategy", ["static", "profile"])
@pytest.mark.parametrize("network", [engines.identity, engines.shared])
def test_shapes_in_turn_keep_their_graphs_where_contexts_share_a_profile(
    network: Any, strategy: str, capfd: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(4)
    with TrtRunner(engine(network), allocation_strategy=strategy) as runner:
        for rows in (3, 1, 64, 17) * 25:
            feed = rng.standard_normal((rows, 16), dtype=np.float32)
            np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)
        kept = graphs(runner)
        print(f"{network.__name__}: {len(kept)} graphs")
        if network is engines.shared and not is_loaded():
            assert len(kept) == 4
        for rows in (17, 3, 64, 1) * 5:
            feed = rng.standard_normal((rows, 16), dtype=np.float32)
            np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)
        assert graphs(runner) == kept
    assert "[E]" not in capfd.readouterr().out


def test_arrays_on_the_device_that_take_turns_keep_their_graphs() -> None:
    with (
        TrtRunner(engine(engines.shared)) as runner,
        DeviceArray(dtype=np.float32) as one,
        DeviceArray(dtype=np.float32) as other,
    ):
        for factor in range(6):
            for array in (one, other):
                array.copy_from(X * (factor + (array is one)))
                outputs = runner.infer({"X": array}, copy_outputs_to_host=False)
                np.testing.assert_array_equal(outputs["Y"].numpy(), X * (factor + (array is one)))
        assert len(graphs(runner)) == (0 if is_loaded() else 2)


@pytest.mark.parametrize("mode", MODES)
def test_several_inputs_and_outputs(mode: str) -> None:
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 10, np.float32)
    with TrtRunner(engine(engines.total), cuda_graph=mode) as runner:
        for factor in range(5):
            outputs = runner.infer({"b": b, "a": a * factor})
            np.testing.assert_array_equal(outputs["sum"], a * factor + b)
            np.testing.assert_array_equal(outputs["difference"], a * factor - b)


def test_shapes_that_depend_on_data() -> None:
    with TrtRunner(engine(engines.nonzero)) as runner:
        if is_loaded():  # An output allocator would end the process.
            with pytest.raises(BackendError, match="built by an older TensorRT"):
                runner.infer({"X": np.ones(3, np.float32)})
            return
        for values in ([0, 1, 2], [0, 0], [5], [1] * 3000, [3, 0]):
            feed = np.array(values, np.float32)
            outputs = runner.infer({"X": feed})
            np.testing.assert_array_equal(outputs["indices"], np.stack(np.nonzero(feed)))
            np.testing.assert_array_equal(outputs["square"], feed * feed)


def test_values_that_are_shapes() -> None:
    with TrtRunner(engine(engines.reshaped)) as runner:
        for shape in ((2, 3), (2, 3), (2, 3), (3, 2), (6, 1), (4, 6)):
            x = np.arange(np.prod(shape), dtype=np.float32)
            outputs = runner.infer({"x": x, "shape": np.array(shape, np.int32)})
            np.testing.assert_array_equal(outputs["y"], x.reshape(shape))


def test_a_format_with_channels_side_by_side() -> None:
    feed = np.random.default_rng(2).random((1, 5, 2, 3)).astype(np.float16)
    with TrtRunner(engine(engines.halved)) as runner:
        for factor in (1, -1, 1, 2):
            given = feed * np.float16(factor)
            np.testing.assert_array_equal(runner.infer({"X": given})["Y"], np.maximum(given, 0))


def test_profiles() -> None:
    feed = np.random.default_rng(3).standard_normal((1 << 15, 16), dtype=np.float32)
    with TrtRunner(engine(engines.identity), optimization_profile=0) as runner:
        runner.infer({"X": X})
        with pytest.raises(InputError, match="Choose profile 1"):
            runner.infer({"X": feed})
    with TrtRunner(engine(engines.identity)) as runner:
        for given in (X, feed, X, feed):  # The profile follows the shape.
            np.testing.assert_array_equal(runner.infer({"X": given})["Y"], given)
        runner.set_profile(1)
        for size in (1 << 15, 1 << 15, 1 << 15, 100):
            np.testing.assert_array_equal(runner.infer({"X": feed[:size]})["Y"], feed[:size])
        runner.set_profile(0)
        np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)
    with TrtRunner(engine(engines.identity), optimization_profile=1) as runner:
        np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)


def test_one_profile_for_one_context_is_explained_or_works() -> None:
    made = engine(engines.total)
    feed = {"a": np.ones((2, 3), np.float32), "b": np.ones((2, 3), np.float32)}
    with TrtRunner(made) as first:
        first.infer(feed)
        try:
            with TrtRunner(made) as second:
                np.testing.assert_array_equal(second.infer(feed)["sum"], 2)
        except BackendError as error:
            assert "profile" in str(error)
        np.testing.assert_array_equal(first.infer(feed)["sum"], 2)


@pytest.mark.parametrize("mode", MODES)
def test_inputs_and_outputs_on_the_device(mode: str) -> None:
    with (
        TrtRunner(engine(engines.identity), cuda_graph=mode) as runner,
        DeviceArray(dtype=np.float32) as array,
    ):
        for factor in range(5):
            array.copy_from(X * factor)
            outputs = runner.infer({"X": array}, copy_outputs_to_host=False)
            np.testing.assert_array_equal(outputs["Y"].numpy(), X * factor)
        np.testing.assert_array_equal(runner.infer({"X": array.ptr})["Y"], X * 4)
        np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)


class OnGpu:
    """An array of another library, which says by `__cuda_array_interface__` where it lies."""

    def __init__(self, array: DeviceArray, strides: Any = None) -> None:
        self.array, self.strides = array, strides

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.array.__cuda_array_interface__, "strides": self.strides}


def test_arrays_of_other_libraries_are_read_where_they_are() -> None:
    with (
        TrtRunner(engine(engines.identity)) as runner,
        DeviceArray(dtype=np.float32) as array,
    ):
        for factor in range(5):
            array.copy_from(X * factor)
            outputs = runner.infer(
                {"X": OnGpu(array)}, copy_outputs_to_host=False, check_inputs=False
            )
            np.testing.assert_array_equal(outputs["Y"].numpy(), X * factor)
        strided = OnGpu(array, strides=(4, 12))
        with pytest.raises(InputError, match="is not contiguous"):
            runner.infer({"X": strided}, check_inputs=False)


class ByDlpack:
    """An array of CuPy that has nothing but DLPack."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("wrap", [lambda array: array, ByDlpack], ids=["interface", "dlpack"])
def test_arrays_of_cupy(wrap: Any) -> None:
    cupy = pytest.importorskip("cupy")
    with TrtRunner(engine(engines.identity)) as runner, cupy.cuda.Stream(non_blocking=True):
        for factor in range(4):
            given = cupy.asarray(X) * factor
            outputs = runner.infer({"X": wrap(given)}, copy_outputs_to_host=False)
            np.testing.assert_array_equal(outputs["Y"].numpy(), X * factor)
            there = cupy.asarray(outputs["Y"])
            assert there.data.ptr == outputs["Y"].ptr


def test_the_gpu_can_be_named() -> None:
    with TrtRunner(lambda: engine(engines.identity), device=0) as runner:
        for _ in range(4):
            np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)
    last = wrapper().device_count() - 1
    with use_device(last):
        made = engine(engines.identity)
    before = wrapper().get_device()
    with TrtRunner(made, device=last) as runner, TrtRunner(engine(engines.identity)) as other:
        for _ in range(4):
            np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)
            np.testing.assert_array_equal(other.infer({"X": X})["Y"], X)
            assert wrapper().get_device() == before
    with pytest.raises(UsageError, match=f"GPU {last + 1} does not exist"):
        TrtRunner(made, device=last + 1).activate()


def test_an_address_of_the_host_is_refused_before_it_ends_the_work() -> None:
    with TrtRunner(engine(engines.identity)) as runner:
        runner.infer({"X": X})
        with pytest.raises(InputError, match="No GPU can read memory"):
            runner.infer({"X": X.ctypes.data})
        np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)


two_gpus = pytest.mark.skipif(
    not has_gpu() or wrapper().device_count() < 2, reason="needs two GPUs"
)


@two_gpus
def test_engines_are_built_and_run_on_the_gpu_that_was_chosen() -> None:
    free = [_free(gpu) for gpu in (0, 1)]
    with use_device(1):
        made = engine(engines.identity)
    with TrtRunner(made, device=1, optimization_profile=1) as runner:
        large = np.ones((1 << 15, 16), np.float32)
        np.testing.assert_array_equal(runner.infer({"X": large})["Y"], large)
        assert runner.infer({"X": large}, copy_outputs_to_host=False)["Y"].ptr
        assert wrapper().get_device() == 0
        taken = [before - _free(gpu) for gpu, before in enumerate(free)]
        assert taken[1] > 1 << 20
        assert taken[0] < 1 << 20
        pinned = runner.pinned_input("X", (64, 16))
        pinned[...] = 3
        np.testing.assert_array_equal(runner.infer({"X": pinned})["Y"], pinned)


def _free(gpu: int) -> int:
    with use_device(gpu):
        return wrapper().memory_info()[0]


@two_gpus
@pytest.mark.parametrize("mode", MODES)
def test_two_gpus_work_in_turn_and_at_once(mode: str) -> None:
    with use_device(1):
        second = engine(engines.identity)
    errors: list[Any] = []

    def work(runner: TrtRunner, seed: int, times: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(times):
                feed = rng.standard_normal((int(rng.integers(1, 4)), 16), dtype=np.float32)
                for _ in range(4):
                    np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)
        except BaseException as error:
            errors.append(error)

    with (
        TrtRunner(engine(engines.identity), cuda_graph=mode) as one,
        TrtRunner(second, device=1, cuda_graph=mode) as two,
    ):
        for seed in range(50):
            work(one, seed, 1)
            work(two, seed, 1)
        threads = [
            threading.Thread(target=work, args=args) for args in ((one, 1, 500), (two, 2, 500))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


@two_gpus
def test_memory_of_the_other_gpu_is_refused_before_it_ends_the_work() -> None:
    with use_device(1):
        second = engine(engines.identity)
    with TrtRunner(second, device=1) as runner, DeviceArray(dtype=np.float32) as array:
        array.copy_from(X)
        for given in (array, array.ptr, OnGpu(array)):
            with pytest.raises(InputError, match="is on GPU 0"):
                runner.infer({"X": given}, check_inputs=False)
            np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)
        torch = pytest.importorskip("torch")
        with pytest.raises(InputError, match="is on GPU 0"):
            runner.infer({"X": torch.from_numpy(X).cuda(0)})
        there = runner.infer({"X": torch.from_numpy(X).cuda(1)}, copy_outputs_to_host=False)["Y"]
        assert there.device.index == 1


def test_tensors_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    with TrtRunner(engine(engines.identity)) as runner, torch.cuda.stream(torch.cuda.Stream()):
        for factor in range(4):
            given = torch.from_numpy(X).cuda() * factor
            output = runner.infer({"X": given})["Y"]
            assert output.device.type == "cpu"
            torch.testing.assert_close(output, given.cpu())
            there = runner.infer({"X": given.T.contiguous().T}, copy_outputs_to_host=False)["Y"]
            assert there.is_cuda
            torch.testing.assert_close(there, given)


@pytest.mark.parametrize("network", [engines.identity, engines.shared])
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_ten_thousand_inferences_need_no_more_memory(mode: str, network: Any) -> None:
    with TrtRunner(engine(network), cuda_graph=mode) as runner:
        feeds = [np.full((rows, 16), rows, np.float32) for rows in (64, 1, 1, 1, 7, 7, 7, 7)]
        for feed in feeds * 100:
            runner.infer({"X": feed})
        free, resident = wrapper().memory_info()[0], resident_bytes()
        for feed in feeds * 1250:
            assert runner.infer({"X": feed})["Y"][0, 0] == feed[0, 0]
        assert free - wrapper().memory_info()[0] <= 4 << 20
        assert resident_bytes() - resident <= 8 << 20


@pytest.mark.skipif(is_loaded(), reason="an output allocator ends the process here")
def test_an_allocator_does_not_grow() -> None:
    with TrtRunner(engine(engines.nonzero)) as runner:
        feeds = [np.ones(size, np.float32) for size in (4096, 1, 100)]
        for feed in feeds * 100:
            runner.infer({"X": feed})
        free, resident = wrapper().memory_info()[0], resident_bytes()
        for feed in feeds * 1000:
            assert runner.infer({"X": feed})["indices"].shape == (1, feed.size)
        assert free - wrapper().memory_info()[0] <= 4 << 20
        assert resident_bytes() - resident <= 8 << 20


def test_two_runners_in_two_threads() -> None:
    errors: list[Any] = []

    def work(runner: TrtRunner, seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(500):
                feed = rng.standard_normal((int(rng.integers(1, 4)), 16), dtype=np.float32)
                for _ in range(4):
                    np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)
        except BaseException as error:
            errors.append(error)

    with TrtRunner(engine(engines.identity)) as one, TrtRunner(engine(engines.identity)) as two:
        threads = [threading.Thread(target=work, args=args) for args in ((one, 1), (two, 2))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


def test_a_large_array_that_comes_again_is_pinned() -> None:
    with TrtRunner(engine(engines.identity), optimization_profile=1) as runner:
        feed = np.zeros((1 << 15, 16), np.float32)
        for value in range(5):
            feed[:] = value
            np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)
        assert not wrapper().host_register(feed.ctypes.data, feed.nbytes)
        address, nbytes = feed.ctypes.data, feed.nbytes
        del feed
        fresh = (ctypes.c_char * nbytes)()
        if ctypes.addressof(fresh) == address:  # The memory came back, and is not pinned any more.
            assert wrapper().host_register(address, nbytes)
            wrapper().host_unregister(address)


@pytest.mark.parametrize("strategy", ["static", "profile", "runtime"])
def test_allocation_strategies(strategy: str) -> None:
    runner = TrtRunner(engine(engines.identity), allocation_strategy=strategy)
    try:
        runner.activate()
    except BackendError as error:
        assert strategy == "runtime"
        assert "allocation_strategy='runtime' (--allocation-strategy) requires" in str(error)
        return
    for rows in (3, 64, 1, 1, 1):
        feed = np.full((rows, 16), rows, np.float32)
        np.testing.assert_array_equal(runner.infer({"X": feed})["Y"], feed)
    runner.deactivate()


def test_times_of_the_device_are_within_those_of_the_clock() -> None:
    with TrtRunner(engine(engines.identity), device_times=True) as runner:
        for _ in range(5):
            np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)
            times = runner.last_device_times()
            assert times is not None
            assert 0 < times.compute < times.total < (runner.last_inference_time() or 0)


def test_out_of_memory_is_reported_in_bytes() -> None:
    with pytest.raises(BackendError, match=r"allocate \d+ bytes.*are free"):
        wrapper().malloc(1 << 46)
    with TrtRunner(engine(engines.identity)) as runner:  # And everything goes on.
        np.testing.assert_array_equal(runner.infer({"X": X})["Y"], X)
