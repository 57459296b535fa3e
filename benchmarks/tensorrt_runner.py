"""What `TrtRunner.infer` costs over the calls that it makes, on a GPU.

    python benchmarks/tensorrt_runner.py                       # builds tiny networks first
    python benchmarks/tensorrt_runner.py --resnet50 MODEL      # and one from an ONNX file
    python benchmarks/tensorrt_runner.py PLAN... [--lean-lib LIBRARY]   # runs saved plans

Each network has one input and one output. Floors, in the same process, with shapes and addresses
set once:

    raw         execute_async_v3, then cudaStreamSynchronize
    graph       replay of a CUDA graph of it, then cudaStreamSynchronize
    round trip  pageable copies in and out around it

Ours: arrays of NumPy that are new to the runner each time, the same array each time, an array in
pinned memory that the runner made, and memory of the device; with CUDA graphs and without. Then
three batch sizes take turns, which raw calls have to tell TensorRT each time. Figures
are microseconds a call, the median of rounds that take turns. The exit code is 1 if a target is
missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from polygraphy.adapters.tensorrt.library.module import get_trt_logger, trt
from polygraphy.backend.trt import TrtRunner
from polygraphy.cuda import DeviceArray, Stream
from polygraphy.logger import G_LOGGER

ROUNDS = 7
ARRAYS = 8
MICROSECONDS_OVER_RAW = 8.0
TIMES_ROUND_TRIP = 1.5
TIMES_GRAPH = 1.05
LARGE = 4 << 20  # Size of the input in bytes from which copies take longer than calls.
TIMES_LARGE_ROUND_TRIP = 1.03
TIMES_LARGE_REUSED = 0.85

Work = Callable[[], object]


def identity_network(network: Any) -> None:
    """Fill a network with one identity layer."""
    x = network.add_input("x", trt.float32, (-1, 16))
    mark(network, network.add_identity(x).get_output(0))


def mlp_network(network: Any) -> None:
    """Fill a network with matrix products and activations."""
    rng = np.random.default_rng(0)
    x = network.add_input("x", trt.float32, (-1, 512))
    for _ in range(4):
        weights = rng.standard_normal((512, 512), dtype=np.float32) / 23
        kernel = network.add_constant((512, 512), weights).get_output(0)
        none = trt.MatrixOperation.NONE
        x = network.add_matrix_multiply(x, none, kernel, none).get_output(0)
        x = network.add_activation(x, trt.ActivationType.RELU).get_output(0)
    mark(network, x)


def mark(network: Any, tensor: Any) -> None:
    """Mark a tensor as the output "y" of a network."""
    tensor.name = "y"
    network.mark_output(tensor)


def build_plan(fill: Callable[[Any], None], shape: tuple[int, ...], largest: int) -> Any:
    """Build a plan whose first dimension is dynamic, from 1 to `largest`."""
    builder = trt.Builder(get_trt_logger())
    flag = getattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)
    network = builder.create_network(0 if flag is None else 1 << int(flag))
    fill(network)
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    tail = shape[1:]
    profile.set_shape(network.get_input(0).name, (1, *tail), shape, (largest, *tail))
    config.add_optimization_profile(profile)
    if hasattr(trt.PreviewFeature, "PROFILE_SHARING_0806"):  # Later versions always share profiles.
        config.set_preview_feature(trt.PreviewFeature.PROFILE_SHARING_0806, True)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        sys.exit("the network cannot be built")
    return plan


def parse_network(path: str) -> Callable[[Any], None]:
    """Return a function that fills a network from an ONNX file."""

    def fill(network: Any) -> None:
        """Fill a network, or exit with the error of the parser."""
        parser = trt.OnnxParser(network, get_trt_logger())
        if not parser.parse(Path(path).read_bytes()):
            sys.exit(str(parser.get_error(0)))

    return fill


_runtimes: list[Any] = []  # Keep runtimes, because engines do not keep their runtime alive.


def load_engine(plan: Any, lean_library: str | None) -> Any:
    """Return the engine of a plan, loaded with a lean runtime if a path is given."""
    runtime = trt.Runtime(get_trt_logger())
    _runtimes.append(runtime)
    if lean_library:
        runtime.engine_host_code_allowed = True
        runtime = runtime.load_runtime(lean_library)
        _runtimes.append(runtime)
    engine = runtime.deserialize_cuda_engine(plan)
    if engine is None:
        sys.exit("the plan cannot be loaded")
    return engine


class Raw:
    """The calls that cannot be saved, and nothing else."""

    def __init__(self, engine: Any, data: np.ndarray[Any, Any]) -> None:
        """Create a context and device memory for an engine."""
        names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
        self.input, self.output = names
        self.context, self.stream = engine.create_execution_context(), Stream()
        self.context.set_input_shape(self.input, data.shape)
        shape = tuple(self.context.get_tensor_shape(self.output))
        self.graph: Any = None
        # Use separate arrays, which no runner pins. Their number is the same as for a runner, so
        # that caches have the same effect.
        self.arrays = [data + number for number in range(ARRAYS)]
        self.turn = 0
        self.back = np.zeros(shape, np.float32)
        self.device_data = DeviceArray(data.shape, np.float32).copy_from(data)
        self.device_back = DeviceArray(shape, np.float32)
        self.context.set_tensor_address(self.input, self.device_data.ptr)
        self.context.set_tensor_address(self.output, self.device_back.ptr)

    def run(self) -> None:
        """Run one inference."""
        self.context.execute_async_v3(self.stream.ptr)
        self.stream.synchronize()

    def round_trip(self) -> None:
        """Run one inference with copies from and to the host."""
        stream = self.stream
        self.turn = (self.turn + 1) % ARRAYS
        data = self.arrays[self.turn]
        stream.to_device(self.device_data.ptr, data.ctypes.data, data.nbytes)
        self.context.execute_async_v3(stream.ptr)
        stream.to_host(self.back.ctypes.data, self.device_back.ptr, self.back.nbytes)
        stream.synchronize()

    def replay(self) -> Work | None:
        """Return a function that launches a captured graph; None if it cannot be captured."""
        from polygraphy.adapters.cuda.device import Graph
        from polygraphy.exception import BackendError

        self.run()
        try:
            self.graph = graph = Graph(
                lambda stream: self.context.execute_async_v3(stream.ptr), self.stream
            )
        except BackendError as error:
            print(f"    no graph: {error}")
            return None

        def launch() -> None:
            """Launch the graph."""
            graph.launch()
            self.stream.synchronize()

        return launch

    def free(self) -> None:
        """Free the memory."""
        if self.graph is not None:
            self.graph.free()
        self.context = None
        for item in (self.device_data, self.device_back, self.stream):
            item.free()


def measure_calls(works: dict[str, Work], calls: int) -> dict[str, float]:
    """Return the median microseconds of each call, measured in turns."""
    rounds: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        for _ in range(10):
            work()
    for _ in range(ROUNDS):
        for name, work in works.items():
            start = time.perf_counter()
            for _ in range(calls):
                work()
            rounds[name].append((time.perf_counter() - start) / calls * 1e6)
    return {name: statistics.median(seconds) for name, seconds in rounds.items()}


def compare(title: str, make_engine: Callable[[], Any], shape: tuple[int, ...]) -> list[str]:
    """Print the times of a network; return the missed targets."""
    data = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    # Use separate engines, because some versions of TensorRT allow only one context per profile.
    raw = Raw(make_engine(), data)
    works: dict[str, Work] = {"raw": raw.run, "round trip": raw.round_trip}
    replay = raw.replay()
    if replay is not None:
        works["graph"] = replay
    fresh = [data + number for number in range(ARRAYS)]
    turn = iter(range(1 << 60))
    name = raw.input
    runners = []
    for mode in ("auto", "off"):
        device_runner, host_runner, reusing = (
            TrtRunner(make_engine(), cuda_graph=mode) for _ in range(3)
        )
        for runner in (device_runner, host_runner, reusing):
            runner.activate()
            runners.append(runner)
        pinned = host_runner.pinned_input(name, shape)
        pinned[...] = data
        check(host_runner.infer({name: data}), raw)

        def on_device(runner: TrtRunner = device_runner) -> object:
            """Run on device memory."""
            return runner.infer({name: raw.device_data}, copy_outputs_to_host=False)

        def on_host(runner: TrtRunner = host_runner) -> object:
            """Run on arrays that change each time."""
            return runner.infer({name: fresh[next(turn) % ARRAYS]})

        def reused(runner: TrtRunner = reusing) -> object:
            """Run on the same array, with reused outputs."""
            return runner.infer({name: data})

        def from_pinned(
            runner: TrtRunner = host_runner, array: np.ndarray[Any, Any] = pinned
        ) -> object:
            """Run on pinned memory."""
            return runner.infer({name: array})

        suffix = "" if mode == "auto" else ", no graph"
        works[f"device{suffix}"] = on_device
        works[f"numpy{suffix}"] = on_host
        works[f"numpy reused{suffix}"] = reused
        works[f"numpy pinned{suffix}"] = from_pinned
    took = measure_calls(works, calls=2000 if data.nbytes < 1 << 16 else 100)
    for runner in runners:
        runner.deactivate()
    raw.free()
    print(f"{title} {shape}: " + ", ".join(f"{name} {value:.1f}" for name, value in took.items()))
    return report_target(title, data.nbytes, took)


def take_turns(title: str, make_engine: Callable[[], Any], shapes: list[tuple[int, ...]]) -> None:
    """Print the times of inferences with alternating shapes, on device memory."""
    arrays = [np.random.default_rng(2).standard_normal(shape, dtype=np.float32) for shape in shapes]
    raw = Raw(make_engine(), max(arrays, key=lambda array: array.size))
    on_device = [DeviceArray(array.shape, np.float32).copy_from(array) for array in arrays]
    turn = iter(range(1 << 60))
    count = len(shapes)

    def raw_call() -> None:
        """Run the plain loop on the next shape."""
        index = next(turn) % count
        raw.context.set_input_shape(raw.input, shapes[index])
        raw.context.set_tensor_address(raw.input, on_device[index].ptr)
        raw.run()

    works: dict[str, Work] = {"raw": raw_call}
    runners = {mode: TrtRunner(make_engine(), cuda_graph=mode) for mode in ("auto", "off")}
    for mode, runner in runners.items():
        runner.activate()

        def device(runner: TrtRunner = runner) -> object:
            """Run the runner on the next array on the device."""
            index = next(turn) % count
            return runner.infer({raw.input: on_device[index]}, copy_outputs_to_host=False)

        def numpy(runner: TrtRunner = runner) -> object:
            """Run the runner on the next NumPy array."""
            return runner.infer({raw.input: arrays[next(turn) % count]})

        suffix = "" if mode == "auto" else ", no graph"
        works |= {f"device{suffix}": device, f"numpy{suffix}": numpy}
    took = measure_calls(works, calls=count * (1000 if arrays[0].nbytes < 1 << 16 else 50))
    for runner in runners.values():
        runner.deactivate()
    for array in on_device:
        array.free()
    raw.free()
    batches = ", ".join(str(shape[0]) for shape in shapes)
    figures = ", ".join(f"{name} {value:.1f}" for name, value in took.items())
    print(f"{title}, batches {batches} in turn: {figures}")


def check(outputs: dict[str, Any], raw: Raw) -> None:
    """Raise AssertionError if the outputs of the runner differ from those of the plain loop."""
    raw.turn = ARRAYS - 1  # Continue with the first array, to which nothing was added.
    raw.round_trip()
    (output,) = outputs.values()
    np.testing.assert_allclose(output, raw.back, rtol=1e-3, atol=1e-3)


def report_target(title: str, nbytes: int, took: dict[str, float]) -> list[str]:
    """Print whether each target is met, and return the targets that are missed."""
    over = took["device"] - took["raw"]
    facts = [(f"device {over:+.1f} us over raw", over <= MICROSECONDS_OVER_RAW)]
    ratio = took["numpy"] / took["round trip"]
    limit = TIMES_ROUND_TRIP if nbytes < LARGE else TIMES_LARGE_ROUND_TRIP
    facts.append((f"numpy {ratio:.2f}x round trip", ratio <= limit))
    if nbytes >= LARGE:
        for kind in ("numpy reused", "numpy pinned"):
            ratio = took[kind] / took["round trip"]
            facts.append((f"{kind} {ratio:.2f}x round trip", ratio <= TIMES_LARGE_REUSED))
    if "graph" in took and took["graph"] > 200:
        ratio = took["device"] / took["graph"]
        facts.append((f"device {ratio:.2f}x graph", ratio <= TIMES_GRAPH))
    for fact, holds in facts:
        print(f"    {fact}{'' if holds else '   MISSED'}")
    return [f"{title}: {fact}" for fact, holds in facts if not holds]


def from_plan(path: str, lean_library: str | None) -> list[str]:
    """Measure a plan file, and return the targets that are missed."""
    plan = Path(path).read_bytes()

    def make() -> Any:
        """Return the engine of the plan."""
        return load_engine(plan, lean_library)

    shape = tuple(make().get_tensor_profile_shape("x", 0)[1])
    return compare(Path(path).name, make, shape)


def main() -> int:
    """Measure all networks; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description="Measure TrtRunner.infer.")
    parser.add_argument("plans", nargs="*", help="plans with one input x and one output")
    parser.add_argument("--lean-lib", help="the runtime that loads the plans")
    parser.add_argument("--resnet50", help="an ONNX model with input x of shape (n, 3, 224, 224)")
    arguments = parser.parse_args()
    G_LOGGER.module_severity = G_LOGGER.WARNING
    print(f"TensorRT {trt.__version__}, Python {sys.version.split()[0]}")
    failures = []
    for path in arguments.plans:
        failures += from_plan(path, arguments.lean_lib)
    if not arguments.plans:
        networks: list[tuple[str, Callable[[Any], None], tuple[int, ...], tuple[int, ...]]] = [
            ("identity", identity_network, (16,), (8,)),
            ("mlp", mlp_network, (512,), (1, 32)),
        ]
        if arguments.resnet50:
            networks.append(
                ("resnet50", parse_network(arguments.resnet50), (3, 224, 224), (1, 8, 32))
            )
        for title, fill, tail, batches in networks:
            plan = build_plan(fill, (batches[-1], *tail), largest=64)
            for batch in batches:
                failures += compare(
                    title, lambda plan=plan: load_engine(plan, None), (batch, *tail)
                )
            in_turn = [(batch, *tail) for batch in (1, 2, 8)]
            take_turns(title, lambda plan=plan: load_engine(plan, None), in_turn)
    print("\n".join(["Missed:", *failures]) if failures else "All targets are met.")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
