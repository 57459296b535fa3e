"""What `polygraphy run MODEL --openvino` costs, over a script of OpenVINO's own API.

python benchmarks/openvino_run.py [MODEL...] [--iterations N] [--repeats N]

Both make their own inputs from a seed, compile the model as OpenVINO does by default, run it as
often, and end. The least processor seconds and the most memory of each process, in turn, because
others disturb both alike. The goal: 1.25 times, and 100 MB more. Without models it makes two: 40
convolutions of 64 channels, and a stack of products of matrices with 160 MB of weights.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = """
import sys
import numpy as np
import openvino
path, iterations = sys.argv[1], int(sys.argv[2])
core = openvino.Core()
compiled = core.compile_model(core.read_model(path), "CPU")
request = compiled.create_infer_request()
rng = np.random.RandomState(1)
for _ in range(iterations):
    feed = {}
    for value in compiled.inputs:
        shape = [1 if one.is_dynamic else one.get_length() for one in value.partial_shape]
        kind = value.element_type.to_dtype()
        feed[value.any_name] = rng.rand(*shape).astype(kind)
    outputs = {value.any_name: array for value, array in request.infer(feed).items()}
for name, array in outputs.items():
    print(name, array.shape, float(np.asarray(array, np.float64).mean()))
"""

MODELS = """
import sys
import numpy as np
import onnx
from onnx import helper, numpy_helper

def save(op, shape, weight, scale, count, activation, path, **attributes):
    rng = np.random.RandomState(0)
    nodes, weights, last = [], [], "x"
    for i in range(count):
        weights.append(numpy_helper.from_array((rng.randn(*weight) * scale).astype("f"), f"w{i}"))
        nodes.append(helper.make_node(op, [last, f"w{i}"], [f"a{i}"], **attributes))
        nodes.append(helper.make_node(activation, [f"a{i}"], [f"b{i}"]))
        last = f"b{i}"
    ends = [helper.make_tensor_value_info(name, 1, shape) for name in ("x", last)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)

folder = sys.argv[1] + "/"
save("Conv", [1, 64, 56, 56], (64, 64, 3, 3), 1 / 24, 40, "Relu", folder + "convolutions.onnx",
     pads=[1, 1, 1, 1])
save("MatMul", [64, 2048], (2048, 2048), 1 / 45, 10, "Tanh", folder + "products.onnx")
"""


def cost(command: list[str]) -> tuple[float, float]:
    """Return the CPU seconds of a command, and its peak memory in MB."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def measure(path: str, iterations: int, repeats: int) -> None:
    """Print seconds and memory of a plain script and of `run`."""
    by_hand = [sys.executable, "-c", SCRIPT, path, str(iterations)]
    ours = [sys.executable, "-m", "polygraphy", "run", path, "--openvino"]
    ours += ["--iterations", str(iterations)]
    costs: dict[str, list[tuple[float, float]]] = {"script": [], "run": []}
    for turn in range(repeats + 1):
        for name, command in (("script", by_hand), ("run", ours)):
            spent = cost(command)
            if turn:
                costs[name].append(spent)
    seconds = {name: min(figures[0] for figures in all_) for name, all_ in costs.items()}
    memory = {
        name: statistics.median(figures[1] for figures in all_) for name, all_ in costs.items()
    }
    print(
        f"{Path(path).name}, {iterations} iterations: {seconds['run']:.2f} s, script"
        f" {seconds['script']:.2f} s, ratio {seconds['run'] / seconds['script']:.2f} (goal 1.25);"
        f" {memory['run']:.0f} MB, script {memory['script']:.0f} MB,"
        f" {memory['run'] - memory['script']:+.0f} MB (goal +100)",
        flush=True,
    )


def main() -> None:
    """Measure the models of the command line, or generated ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = list(words.models)
        if not paths:
            # Create models in another process, because measured processes inherit the peak memory
            # of this one.
            subprocess.run([sys.executable, "-c", MODELS, folder], check=True)
            paths = [f"{folder}/convolutions.onnx", f"{folder}/products.onnx"]
        for path in paths:
            measure(path, words.iterations, words.repeats)


if __name__ == "__main__":
    main()
