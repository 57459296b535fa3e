"""What looking into models costs, beside a process that only loads them with onnx.

python benchmarks/inspect_model.py

With POLYGRAPHY_NVIDIA_PYTHON, NVIDIA's Polygraphy is measured in the same run.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NVIDIA = os.environ.get("POLYGRAPHY_NVIDIA_PYTHON")
REPEATS = 5
GIB_OF_WEIGHTS = float(os.environ.get("BENCHMARK_GIB", "2.5"))
LOAD = "import onnx, sys; onnx.load(sys.argv[1])"
NUMPY_PASS = """
import numpy as np, onnx, sys, time
from onnx import numpy_helper
model = onnx.load(sys.argv[1])
arrays = [numpy_helper.to_array(tensor) for tensor in model.graph.initializer]
start = time.perf_counter()
for array in arrays:
    np.count_nonzero(array)
print(time.perf_counter() - start)
"""


def nvidia(python: str) -> list[str]:
    """Return the command of NVIDIA's Polygraphy in the folder of an interpreter."""
    return [str(Path(python).with_name("polygraphy"))]


def value(name: str, shape: list[object]) -> onnx.ValueInfoProto:
    """Return the description of a float32 tensor."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def save_chain(path: Path, nodes: int) -> None:
    """Save a model of many small nodes with one weight each."""
    rng = np.random.RandomState(0)
    chain, weights, last = [], [], "x"
    for index in range(nodes):
        if index % 2:
            chain.append(helper.make_node("Relu", [last], [f"t{index}"], name=f"relu_{index}"))
        else:
            array = rng.rand(16).astype(np.float32)
            weights.append(numpy_helper.from_array(array, f"w{index}"))
            chain.append(
                helper.make_node("Add", [last, f"w{index}"], [f"t{index}"], name=f"add_{index}")
            )
        last = f"t{index}"
    graph = helper.make_graph(
        chain, "chain", [value("x", ["n", 16])], [value(last, ["n", 16])], weights
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def save_layers(path: Path, size: int, layers: int, *, external: bool) -> None:
    """Save a model of matrix products with random weights."""
    rng = np.random.RandomState(0)
    array = rng.rand(size, size).astype(np.float32)
    # Two of four elements are zero, so that the search for 2:4 sparsity must check all groups.
    array[::2] = 0
    nodes, weights, last = [], [], "x"
    for index in range(layers):
        tensor = numpy_helper.from_array(array, f"w{index}")
        if external:
            raw = tensor.raw_data
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            place = {"location": "weights.bin", "offset": index * len(raw), "length": len(raw)}
            for key, number in place.items():
                tensor.external_data.add(key=key, value=str(number))
            with (path.parent / "weights.bin").open("ab") as stream:
                stream.write(raw)
        weights.append(tensor)
        nodes.append(
            helper.make_node("MatMul", [last, f"w{index}"], [f"t{index}"], name=f"m{index}")
        )
        last = f"t{index}"
    graph = helper.make_graph(
        nodes, "layers", [value("x", ["n", size])], [value(last, ["n", size])], weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path.write_bytes(model.SerializeToString())


def save_all(chain: Path, large: Path, embedded: Path, layers: int) -> None:
    """Save all models that are measured."""
    save_chain(chain, 20_000)
    save_layers(large, 4096, layers, external=True)
    save_layers(embedded, 4096, 6, external=False)


def measure_command(argv: list[str]) -> tuple[float, float]:
    """Return the median seconds of a process, and its peak memory in MiB."""
    seconds = []
    peak = 0.0
    for _ in range(REPEATS):
        start = time.perf_counter()
        pid = os.posix_spawn(
            argv[0],
            argv,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
        )
        _, _, usage = os.wait4(pid, 0)
        seconds.append(time.perf_counter() - start)
        peak = max(peak, usage.ru_maxrss / 1024)
    return statistics.median(seconds), peak


def main() -> None:
    """Print seconds and memory of each command."""
    with tempfile.TemporaryDirectory() as folder:
        chain, large, embedded = (
            Path(folder) / f"{n}.onnx" for n in ("chain", "large", "embedded")
        )
        layers = max(1, int(GIB_OF_WEIGHTS * 2**30 / (4 * 4096 * 4096)))
        # Build models in a separate process, because measured processes inherit the peak memory of
        # this one.
        building = multiprocessing.get_context("fork").Process(
            target=save_all, args=(chain, large, embedded, layers)
        )
        building.start()
        building.join()
        cases = {
            "20,000 nodes": [str(chain)],
            "20,000 nodes, --show layers": [str(chain), "--show", "layers"],
            f"{layers * 64 / 1024:.1f} GiB of weights in a file": [str(large)],
            "0.4 GiB of weights in the model": [str(embedded)],
        }
        for label, words in cases.items():
            ours = measure_command([sys.executable, "-m", "polygraphy", "inspect", "model", *words])
            line = f"{label}: {ours[0]:.3f} s, {ours[1]:.0f} MiB"
            floor = measure_command([sys.executable, "-c", LOAD, words[0]])
            line += f"; onnx.load {floor[0]:.3f} s, {floor[1]:.0f} MiB; {ours[0] / floor[0]:.2f}"
            if NVIDIA:
                nvidia_figures = measure_command([*nvidia(NVIDIA), "inspect", "model", *words])
                line += f"; NVIDIA {nvidia_figures[0]:.3f} s, {nvidia_figures[1]:.0f} MiB"
            print(line, flush=True)
        seconds, peak = measure_command(
            [sys.executable, "-m", "polygraphy", "inspect", "sparsity", str(embedded)]
        )
        numpy_pass = subprocess.check_output(
            [sys.executable, "-c", NUMPY_PASS, str(embedded)], text=True
        )
        print(
            f"sparsity of 100 million weights: {seconds:.3f} s, {peak:.0f} MiB; one NumPy pass"
            f" {float(numpy_pass):.3f} s"
        )


if __name__ == "__main__":
    main()
