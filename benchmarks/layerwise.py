"""Comparing every tensor of a model, against running it raw: time, and memory at its peak.

    python benchmarks/layerwise.py              # ResNet-50 with random weights, 175 tensors
    python benchmarks/layerwise.py --large      # and a model with 2.7 GB of weights beside it

Raw is: load the model, make every tensor an output, and for each of two runners make a session and
run it once; without comparing anything. Each measurement is a process of its own; medians of
POLYGRAPHY_BENCHMARK_RUNS (5). The peak is what the process takes above what it takes after the same
work on a tiny model.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RUNS = int(os.environ.get("POLYGRAPHY_BENCHMARK_RUNS", "5"))
BLOCKS = ((64, 3), (128, 4), (256, 6), (512, 3))
LARGE_LAYERS, LARGE_WIDTH = 40, 4096


class Graph:
    """Collects the nodes and weights of a model."""

    def __init__(self) -> None:
        """Start an empty graph with fixed random weights."""
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(0)

    def weight(self, *shape: int) -> str:
        """Add a weight that keeps the scale of the data, and return its name."""
        array = self._random.standard_normal(shape, dtype=np.float32)
        array *= np.float32(np.sqrt(2 / np.prod(shape[1:])))
        return self._add(array)

    def positive(self, size: int) -> str:
        """Add a vector of positive weights, and return its name."""
        return self._add(self._random.random(size, dtype=np.float32) / 10 + np.float32(0.5))

    def _add(self, array: Any) -> str:
        """Add a weight, and return its name."""
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        output = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def model(self, shape: list[int], last: str, result: list[int]) -> onnx.ModelProto:
        """Return the model of the graph."""
        graph = helper.make_graph(
            self.nodes,
            "graph",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(last, TensorProto.FLOAT, result)],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def resnet50() -> onnx.ModelProto:
    """Return ResNet-50 with random weights and 175 tensors."""
    graph = Graph()

    def convolved(x: str, channels: tuple[int, int], size: int, stride: int = 1) -> str:
        """Add a convolution and a norm, and return the name of the output."""
        x = graph.node(
            "Conv", x, graph.weight(channels[1], channels[0], size, size),
            kernel_shape=[size, size], strides=[stride, stride], pads=[size // 2] * 4,
        )  # fmt: skip
        return graph.node("BatchNormalization", x, *(graph.positive(channels[1]) for _ in range(4)))

    x = graph.node("Relu", convolved("x", (3, 64), 7, 2))
    x = graph.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    before = 64
    for stage, (width, repeats) in enumerate(BLOCKS):
        for block in range(repeats):
            stride = 2 if block == 0 and stage > 0 else 1
            y = graph.node("Relu", convolved(x, (before, width), 1))
            y = graph.node("Relu", convolved(y, (width, width), 3, stride))
            y = convolved(y, (width, 4 * width), 1)
            shortcut = x if block else convolved(x, (before, 4 * width), 1, stride)
            x = graph.node("Relu", graph.node("Add", y, shortcut))
            before = 4 * width
    x = graph.node("Flatten", graph.node("GlobalAveragePool", x))
    x = graph.node("Gemm", x, graph.weight(1000, before), graph.positive(1000), transB=1)
    return graph.model([1, 3, 224, 224], x, [1, 1000])


def save_large(path: Path) -> None:
    """Save a model of many wide layers, with its weights beside it."""
    graph = Graph()
    x = "x"
    for _ in range(LARGE_LAYERS):
        x = graph.node("Relu", graph.node("MatMul", x, graph.weight(LARGE_WIDTH, LARGE_WIDTH)))
    model = graph.model([64, LARGE_WIDTH], x, [64, LARGE_WIDTH])
    onnx.save(model, path, save_as_external_data=True, location=f"{path.name}.data")


def tiny(path: Path) -> None:
    """Save a tiny model, which warms up imports."""
    graph = Graph()
    x = graph.node("Relu", graph.node("MatMul", "x", graph.weight(4, 4)))
    onnx.save(graph.model([1, 4], x, [1, 4]), path)


def raw(path: str, budget: int | None) -> None:
    """Run a model twice with every tensor as an output."""
    import onnxruntime

    model = onnx.load(path)
    output_names = {value.name for value in model.graph.output}
    inner_names = [
        name for node in model.graph.node for name in node.output if name not in output_names
    ]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inner_names)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    feed = {"x": np.random.default_rng(0).random(shape, dtype=np.float32)}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    for _ in range(2):
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        session.run(None, feed)


def ours(path: str, budget: int | None) -> None:
    """Run a model in two runners, and compare every tensor."""
    from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
    from polygraphy.comparator import Comparator
    from polygraphy.logger import G_LOGGER

    def make_runner(model: Any) -> OnnxrtRunner:
        """Return a runner of a model without a memory arena."""
        return OnnxrtRunner(SessionFromOnnx(model, memory_arena=False))

    with G_LOGGER.verbosity(G_LOGGER.CRITICAL):
        results = Comparator.run_layerwise([make_runner] * 2, path, memory_budget=budget)
        assert Comparator.compare_accuracy(results)


def memory() -> int:
    """Return the peak memory of this process since `forget_peak`, in bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def forget_peak() -> None:
    """Reset the peak of the resident memory of this process."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def measure(
    work: Callable[[str, int | None], None], path: str, warm: str, budget: int | None, out: Any
) -> None:
    """Send the seconds of `work` and its peak memory in bytes to `out`."""
    work(warm, budget)
    forget_peak()
    before = memory()
    start = time.perf_counter()
    work(path, budget)
    out.put((time.perf_counter() - start, memory() - before))


def median(
    work: Callable[[str, int | None], None],
    path: Path,
    warm: Path,
    budget: int | None = None,
    runs: int = RUNS,
) -> tuple[float, float]:
    """Return the median seconds of a run, and its peak memory in MiB."""
    context = multiprocessing.get_context("spawn")
    figures: list[tuple[float, int]] = []
    for _ in range(runs):
        out = context.Queue()
        process = context.Process(target=measure, args=(work, str(path), str(warm), budget, out))
        process.start()
        figures.append(out.get())
        process.join()
    seconds, peaks = zip(*figures)
    return statistics.median(seconds), statistics.median(peaks) / 2**20


def weights_of(path: Path) -> float:
    """Return the size of a model with its weights, in MiB."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) / 2**20


def main() -> None:
    """Print the table of models and memory budgets."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true", help="measure the large model as well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        warm, path = Path(folder, "tiny.onnx"), Path(folder, "resnet50.onnx")
        tiny(warm)
        onnx.save(resnet50(), path)
        floor, most = median(raw, path, warm)
        print(f"ResNet-50: raw {floor:.2f} s, {most:.0f} MiB; weights {weights_of(path):.0f} MiB")
        for name, budget, factor in (("default", None, 1.5), ("64M", 64 << 20, 4.0)):
            seconds, peak = median(ours, path, warm, budget)
            print(
                f"budget {name}: {seconds:.2f} s, {seconds / floor:.2f} times raw (target"
                f" {factor}), {peak:.0f} MiB"
            )
            if budget is not None:
                assert peak < weights_of(path) + budget / 2**20, "the peak exceeds the budget"
        if arguments.large:
            large = Path(folder, "large.onnx")
            save_large(large)
            allowed = weights_of(large) + 256
            seconds, peak = median(ours, large, warm, 256 << 20, runs=1)
            print(f"large, budget 256M: {seconds:.1f} s, {peak:.0f} of {allowed:.0f} MiB")
            assert peak < allowed


if __name__ == "__main__":
    main()
