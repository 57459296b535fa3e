"""What `diagnose` costs: time, beside `run` of the same backends, and memory, beside a budget.

    python benchmarks/diagnosing.py

ResNet-50 with random weights, healthy, and with a pair of quantizations of which ONNX Runtime drops
one (`DoubleQDQPairsRemover`); a text recognizer of 40 MB (convolutions, LSTM, 18,000 classes) and a
detector of 7 MB and 600 nodes, both ways, and against all tensors that were saved, with a weight
that is another; where PyTorch is installed, what its exporter makes of residual blocks, beside the
program, healthy and with another weight (with the exports that are tried); a chain of 2,000 nodes;
and a network of large tensors, within budgets. Each command is a process of its own; times are the
least of POLYGRAPHY_BENCHMARK_RUNS (3) runs in turn, of the processor and by the clock. What a
minimal set of nodes takes is measured by benchmarks/minimal_sets.py.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from attrs import frozen
from layerwise import Graph, resnet50
from onnx import TensorProto, helper, numpy_helper

RUNS = int(os.environ.get("POLYGRAPHY_BENCHMARK_RUNS", "3"))
BACKENDS = ("--onnxrt", "--onnx")
NODES = 2000
LAYERS, CHANNELS, SIDE = 24, 8, 512
TENSOR = CHANNELS * SIDE * SIDE * 4
BUDGETS = ("200M", "64M")
HIDDEN, CLASSES, DETECTOR_NODES = 256, 18000, 600
EXPORT = """
import sys, torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.BatchNorm2d(64)
    def forward(self, x):
        return torch.nn.functional.silu(self.norm(self.conv(x))) + x

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 7, 4), *(Block() for _ in range(16)))
program = torch.export.export(net.eval(), (torch.randn(1, 3, 224, 224),))
torch.export.save(program, sys.argv[1] + ".pt2")
torch.onnx.export(program, f=sys.argv[1] + ".onnx", dynamo=True, external_data=False)
"""


@frozen
class Cost:
    """What a command took: seconds of the processor and by the clock, and bytes at its peak."""

    processor: float
    clock: float
    peak: int


def command(*words: str, code: int) -> Cost:
    """Run a command that must end with an exit code, and return its cost."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "polygraphy", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    output = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == code, output
    clock = time.perf_counter() - start
    return Cost(usage.ru_utime + usage.ru_stime, clock, usage.ru_maxrss * 1024)


def least(costs: list[Cost]) -> Cost:
    """Return the least of each figure: noise of the machine only adds to it."""
    return Cost(
        min(cost.processor for cost in costs),
        min(cost.clock for cost in costs),
        min(cost.peak for cost in costs),
    )


def quantized_twice(
    tensor: str, result: str
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Return the nodes and weights of two Q/DQ pairs with different scales."""
    weights = {"fine": np.float32(0.02), "coarse": np.float32(0.05), "middle": np.uint8(128)}
    nodes = []
    for number, scale in enumerate(("fine", "coarse")):
        last = result if number else "once"
        operands = [f"quantized_{number}", scale, "middle"]
        nodes.append(helper.make_node("QuantizeLinear", [tensor, scale, "middle"], operands[:1]))
        nodes.append(helper.make_node("DequantizeLinear", operands, [last]))
        tensor = last
    return nodes, [numpy_helper.from_array(np.asarray(v), name) for name, v in weights.items()]


def faulty(model: onnx.ModelProto, share: float = 0.5, op: str = "") -> onnx.ModelProto:
    """Return a copy with two Q/DQ pairs after an operator in the middle."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    ops = (op,) if op else ("Relu", "Neg", "Tanh")
    places = [i for i, node in enumerate(graph.node) if node.op_type in ops]
    place = places[int(len(places) * share)]
    tensor = graph.node[place].output[0]
    nodes, weights = quantized_twice(tensor, f"{tensor}_quantized")
    after = [
        onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.node[place + 1 :]
    ]
    for node in after:
        for position, name in enumerate(node.input):
            if name == tensor:
                node.input[position] = f"{tensor}_quantized"
    del graph.node[place + 1 :]
    graph.node.extend([*nodes, *after])
    graph.initializer.extend(weights)
    return copy


def chain(nodes: int) -> onnx.ModelProto:
    """Return a model of rotations, each followed by Neg, which accumulates rounding slowly."""
    rng = np.random.default_rng(0)
    chain, weights, tensor = [], [], "x"
    for layer in range(nodes // 2):
        weight = np.linalg.qr(rng.standard_normal((16, 16)))[0].astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        chain.append(helper.make_node("MatMul", [tensor, f"w{layer}"], [f"m{layer}"]))
        chain.append(helper.make_node("Neg", [f"m{layer}"], [f"n{layer}"]))
        tensor = f"n{layer}"
    return _model(chain, weights, [8, 16], tensor)


def recognizer() -> onnx.ModelProto:
    """Return a model with convolutions, a bidirectional LSTM and 18,000 classes."""
    graph, x, before = Graph(), "x", 3
    for width, stride in ((32, [2, 2]), (64, [2, 1]), (128, [2, 2]), (256, [6, 1])):
        weight = graph.weight(width, before, 3, 3)
        x = graph.node("Conv", x, weight, pads=[1] * 4, strides=stride)
        x = graph.node("Mul", x, graph.node("Sigmoid", x))
        before = width
    x = graph.node("Transpose", graph.node("ReduceMean", x, axes=[2], keepdims=0), perm=[2, 0, 1])
    weights = [graph.weight(2, 4 * HIDDEN, size) for size in (before, HIDDEN)]
    x = graph.node("LSTM", x, *weights, hidden_size=HIDDEN, direction="bidirectional")
    x = graph.node("Flatten", graph.node("Transpose", x, perm=[0, 2, 1, 3]), axis=2)
    x = graph.node("MatMul", x, graph.weight(2 * HIDDEN, CLASSES))
    return graph.model([1, 3, 48, 160], x, [40, 1, CLASSES])


def detector() -> onnx.ModelProto:
    """Return a model with 600 nodes: convolutions with and without groups, of few weights."""
    graph, x = Graph(), "x"
    x = graph.node("Conv", x, graph.weight(48, 3, 3, 3), pads=[1] * 4, strides=[4, 4])
    while len(graph.nodes) < DETECTOR_NODES:
        before = x
        for weight, group in ((graph.weight(192, 48, 1, 1), 1), (graph.weight(192, 1, 5, 5), 192)):
            size = 2 if group > 1 else 0
            x = graph.node("Conv", x, weight, group=group, pads=[size] * 4)
            x = graph.node("BatchNormalization", x, *(graph.positive(192) for _ in range(4)))
            x = graph.node("Relu", x)
        x = graph.node("Conv", x, graph.weight(48, 192, 1, 1))
        x = graph.node("BatchNormalization", x, *(graph.positive(48) for _ in range(4)))
        x = graph.node("Add", before, graph.node("Tanh", x))
    x = graph.node("Sigmoid", graph.node("Conv", x, graph.weight(10, 48, 1, 1)))
    return graph.model([1, 3, 256, 256], x, [1, 10, 64, 64])


def other_weight(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy in which one weight in the middle is scaled by 1.5."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    weights = [weight for weight in copy.graph.initializer if len(weight.dims) == 4]
    weight = weights[len(weights) // 2]
    array = numpy_helper.to_array(weight) * np.float32(1.5)
    weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    return copy


def large_tensors() -> onnx.ModelProto:
    """Return a model with convolutions of large images, each followed by a Tanh."""
    rng = np.random.default_rng(0)
    nodes, weights, tensor = [], [], "x"
    for layer in range(LAYERS):
        weight = rng.standard_normal((CHANNELS, CHANNELS, 3, 3), dtype=np.float32) / 6
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        inputs = [tensor, f"w{layer}"]
        nodes.append(helper.make_node("Conv", inputs, [f"c{layer}"], pads=[1] * 4))
        nodes.append(helper.make_node("Tanh", [f"c{layer}"], [f"t{layer}"]))
        tensor = f"t{layer}"
    return _model(nodes, weights, [1, CHANNELS, SIDE, SIDE], tensor)


def _model(
    nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], shape: list[int], last: str
) -> onnx.ModelProto:
    """Return a model with an input `x` and one output of the same shape."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", last)]
    graph = helper.make_graph(nodes, "graph", values[:1], values[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def measure_pair(model: onnx.ModelProto, folder: Path, *words: str, is_faulty: bool) -> list[Cost]:
    """Return the costs of `run` and `diagnose` of a model, measured in turns."""
    path = str(folder / "model.onnx")
    onnx.save(model, path)
    runs, diagnoses = [], []
    for _ in range(RUNS):
        runs.append(command("run", path, *BACKENDS, code=int(is_faulty)))
        diagnoses.append(command("diagnose", path, *BACKENDS, *words, code=int(is_faulty)))
    return [least(runs), least(diagnoses)]


def measure_golden(healthy: onnx.ModelProto, folder: Path, *, is_faulty: bool) -> list[Cost]:
    """Return the costs of `run` and `diagnose` against all saved tensors of a model."""
    path, saved, data = (str(folder / name) for name in ("model.onnx", "all.json", "in.json"))
    onnx.save(healthy, path)
    every = ("--onnxrt", "--onnx-outputs", "mark", "all")
    command("run", path, *every, "--save-outputs", saved, "--save-inputs", data, code=0)
    onnx.save(other_weight(healthy) if is_faulty else healthy, path)
    data_words, runs, diagnoses = ("--load-inputs", data), [], []
    for _ in range(RUNS):
        compared = ("--load-outputs", saved, *data_words)
        runs.append(command("run", path, *every, *compared, code=int(is_faulty)))
        words = ("diagnose", path, "--onnxrt", "--golden", saved, *data_words)
        diagnoses.append(command(*words, code=int(is_faulty)))
    return [least(runs), least(diagnoses)]


def measure_program(folder: Path, *, is_faulty: bool) -> list[Cost]:
    """Return the costs of `run` and `diagnose` against the PyTorch program of a model."""
    name = str(folder / "exported")
    subprocess.run([sys.executable, "-W", "ignore", "-c", EXPORT, name], check=True)
    if is_faulty:
        onnx.save(other_weight(onnx.load(f"{name}.onnx")), f"{name}.onnx")
    runs, diagnoses = [], []
    for _ in range(RUNS):
        words = (f"{name}.onnx", "--onnxrt", "--torch", f"{name}.pt2")
        runs.append(command("run", *words, "--rtol", "auto", code=int(is_faulty)))
        diagnoses.append(command("diagnose", *words, code=int(is_faulty)))
    return [least(runs), least(diagnoses)]


def show(label: str, costs: list[Cost], goal: str) -> None:
    """Print a row of the table with the costs of `run` and `diagnose`."""
    run, diagnosis = costs
    ratio = diagnosis.processor / run.processor
    more = (diagnosis.peak - run.peak) >> 20
    print(
        f"{label:<34} {run.processor:8.2f} {diagnosis.processor:9.2f} {ratio:6.2f}"
        f" {diagnosis.clock:9.2f} {more:9} {goal:>6}",
        flush=True,
    )


def main() -> None:
    """Measure, and print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(
            f"{'':<34} {'run, s':>8} {'diagnose':>9} {'ratio':>6} {'by clock':>9} {'MiB more':>9}"
            f" {'goal':>6}"
        )
        for label, make, is_faulty, goal in (
            ("ResNet-50, healthy", resnet50, False, "6x"),
            ("ResNet-50, wrong rewrite", lambda: faulty(resnet50()), True, "12x"),
            ("recognizer, healthy", recognizer, False, "6x"),
            ("recognizer, wrong rewrite", lambda: faulty(recognizer(), op="Mul"), True, "12x"),
            ("detector, healthy", detector, False, "6x"),
            ("detector, wrong rewrite", lambda: faulty(detector()), True, "12x"),
            (f"{NODES:,} nodes, healthy", lambda: chain(NODES), False, "60 s"),
            (f"{NODES:,} nodes, wrong rewrite", lambda: faulty(chain(NODES)), True, "60 s"),
        ):
            show(label, measure_pair(make(), folder, is_faulty=is_faulty), goal)
        for label, make in (("recognizer", recognizer), ("detector", detector)):
            for is_faulty, goal in ((False, "6x"), (True, "12x")):
                kind = f"{label}, all saved, {'a weight' if is_faulty else 'healthy'}"
                show(kind, measure_golden(make(), folder, is_faulty=is_faulty), goal)
        if importlib.util.find_spec("onnxscript"):
            for is_faulty in (False, True):
                kind = f"PyTorch's export, {'a weight' if is_faulty else 'healthy'}"
                show(kind, measure_program(folder, is_faulty=is_faulty), "6x")
        model = faulty(large_tensors(), 0.9)
        tensors = len(model.graph.node)
        print(f"\nA wrong rewrite among {tensors} tensors of {TENSOR >> 20} MiB, peaks in MiB")
        print(f"{'budget':>10} {'run':>8} {'diagnose':>9} {'above run':>10}")
        for budget in ("8G", *BUDGETS):
            words = ("--memory-budget", budget)
            run, diagnosis = measure_pair(model, folder, *words, is_faulty=True)
            peaks = [cost.peak >> 20 for cost in (run, diagnosis)]
            print(f"{budget:>10} {peaks[0]:8} {peaks[1]:9} {peaks[1] - peaks[0]:10}", flush=True)


if __name__ == "__main__":
    main()
