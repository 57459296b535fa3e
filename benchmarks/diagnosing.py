"""What `diagnose` costs: time, beside `run` of the same backends, and memory, beside a budget.

    python benchmarks/diagnosing.py

ResNet-50 with random weights, healthy, and with a pair of quantisations of which ONNX Runtime drops
one (`DoubleQDQPairsRemover`); a chain of 2,000 nodes, with that and without; and a network of large
tensors, within budgets. Each command is a process of its own; times are the least of
POLYGRAPHY_BENCHMARK_RUNS (3) runs in turn, of the processor and by the clock. What a minimal set
of nodes takes is measured by benchmarks/minimal_sets.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from attrs import frozen
from layerwise import resnet50
from onnx import TensorProto, helper, numpy_helper

RUNS = int(os.environ.get("POLYGRAPHY_BENCHMARK_RUNS", "3"))
BACKENDS = ("--onnxrt", "--onnx")
NODES = 2000
LAYERS, CHANNELS, SIDE = 24, 8, 512
TENSOR = CHANNELS * SIDE * SIDE * 4
BUDGETS = ("200M", "64M")


@frozen
class Cost:
    """What a command took: seconds of the processor and by the clock, and bytes at its peak."""

    processor: float
    clock: float
    peak: int


def command(*words: str, code: int) -> Cost:
    """Run a command that ends with an exit code."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "polygraphy", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    said = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == code, said
    clock = time.perf_counter() - start
    return Cost(usage.ru_utime + usage.ru_stime, clock, usage.ru_maxrss * 1024)


def least(costs: list[Cost]) -> Cost:
    """Return the least of each: what else a machine does only adds to it."""
    return Cost(
        min(cost.processor for cost in costs),
        min(cost.clock for cost in costs),
        min(cost.peak for cost in costs),
    )


def quantised_twice(tensor: str, made: str) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Return two quantisations with other scales, which make one tensor of another."""
    weights = {"fine": np.float32(0.02), "coarse": np.float32(0.05), "middle": np.uint8(128)}
    nodes = []
    for number, scale in enumerate(("fine", "coarse")):
        last = made if number else "once"
        held = [f"quantised_{number}", scale, "middle"]
        nodes.append(helper.make_node("QuantizeLinear", [tensor, scale, "middle"], held[:1]))
        nodes.append(helper.make_node("DequantizeLinear", held, [last]))
        tensor = last
    return nodes, [numpy_helper.from_array(np.asarray(v), name) for name, v in weights.items()]


def faulty(model: onnx.ModelProto, share: float = 0.5) -> onnx.ModelProto:
    """Return a copy with quantisations behind a Relu, Neg or Tanh in the middle."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    places = [i for i, node in enumerate(graph.node) if node.op_type in ("Relu", "Neg", "Tanh")]
    place = places[int(len(places) * share)]
    tensor = graph.node[place].output[0]
    nodes, weights = quantised_twice(tensor, f"{tensor}_quantised")
    after = [
        onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.node[place + 1 :]
    ]
    for node in after:
        for position, name in enumerate(node.input):
            if name == tensor:
                node.input[position] = f"{tensor}_quantised"
    del graph.node[place + 1 :]
    graph.node.extend([*nodes, *after])
    graph.initializer.extend(weights)
    return made


def chain(nodes: int) -> onnx.ModelProto:
    """Return rotations, each followed by Neg: nothing fades, and rounding adds up slowly."""
    rng = np.random.default_rng(0)
    made, weights, tensor = [], [], "x"
    for layer in range(nodes // 2):
        weight = np.linalg.qr(rng.standard_normal((16, 16)))[0].astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        made.append(helper.make_node("MatMul", [tensor, f"w{layer}"], [f"m{layer}"]))
        made.append(helper.make_node("Neg", [f"m{layer}"], [f"n{layer}"]))
        tensor = f"n{layer}"
    return _model(made, weights, [8, 16], tensor)


def large_tensors() -> onnx.ModelProto:
    """Return convolutions of large images, each behind a Tanh."""
    rng = np.random.default_rng(0)
    made, weights, tensor = [], [], "x"
    for layer in range(LAYERS):
        weight = rng.standard_normal((CHANNELS, CHANNELS, 3, 3), dtype=np.float32) / 6
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        inputs = [tensor, f"w{layer}"]
        made.append(helper.make_node("Conv", inputs, [f"c{layer}"], pads=[1] * 4))
        made.append(helper.make_node("Tanh", [f"c{layer}"], [f"t{layer}"]))
        tensor = f"t{layer}"
    return _model(made, weights, [1, CHANNELS, SIDE, SIDE], tensor)


def _model(
    nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], shape: list[int], last: str
) -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", last)]
    graph = helper.make_graph(nodes, "graph", values[:1], values[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def measured(model: onnx.ModelProto, folder: Path, *words: str, is_faulty: bool) -> list[Cost]:
    """Return what `run` and `diagnose` of a model take, turn by turn."""
    path = str(folder / "model.onnx")
    onnx.save(model, path)
    runs, diagnoses = [], []
    for _ in range(RUNS):
        runs.append(command("run", path, *BACKENDS, code=int(is_faulty)))
        diagnoses.append(command("diagnose", path, *BACKENDS, *words, code=int(is_faulty)))
    return [least(runs), least(diagnoses)]


def main() -> None:
    """Measure, and print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{'':<34} {'run, s':>8} {'diagnose':>9} {'ratio':>6} {'by clock':>9} {'goal':>6}")
        for label, make, is_faulty, goal in (
            ("ResNet-50, healthy", resnet50, False, "6x"),
            ("ResNet-50, wrong rewrite", lambda: faulty(resnet50()), True, "12x"),
            (f"{NODES:,} nodes, healthy", lambda: chain(NODES), False, "60 s"),
            (f"{NODES:,} nodes, wrong rewrite", lambda: faulty(chain(NODES)), True, "60 s"),
        ):
            run, diagnosis = measured(make(), folder, is_faulty=is_faulty)
            ratio = diagnosis.processor / run.processor
            print(
                f"{label:<34} {run.processor:8.2f} {diagnosis.processor:9.2f} {ratio:6.2f}"
                f" {diagnosis.clock:9.2f} {goal:>6}",
                flush=True,
            )
        model = faulty(large_tensors(), 0.9)
        tensors = len(model.graph.node)
        print(f"\nA wrong rewrite among {tensors} tensors of {TENSOR >> 20} MiB, peaks in MiB")
        print(f"{'budget':>10} {'run':>8} {'diagnose':>9} {'above run':>10}")
        for budget in ("8G", *BUDGETS):
            words = ("--memory-budget", budget)
            run, diagnosis = measured(model, folder, *words, is_faulty=True)
            peaks = [cost.peak >> 20 for cost in (run, diagnosis)]
            print(f"{budget:>10} {peaks[0]:8} {peaks[1]:9} {peaks[1] - peaks[0]:10}", flush=True)


if __name__ == "__main__":
    main()
