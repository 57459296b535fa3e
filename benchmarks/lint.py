"""What checking a model of 2000 nodes with several defects costs.

python benchmarks/lint.py

With POLYGRAPHY_NVIDIA_PYTHON, NVIDIA's Polygraphy is measured in the same run: about four minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NVIDIA = os.environ.get("POLYGRAPHY_NVIDIA_PYTHON")
NODES = int(os.environ.get("BENCHMARK_NODES", "2000"))
FLOOR = """
import onnx, sys
model = onnx.load(sys.argv[1])
onnx.shape_inference.infer_shapes(model)
"""


def save(path: Path) -> None:
    """Save a model of parallel chains, some of which end in an invalid node."""
    nodes, outputs = [], []
    for chain in range(NODES // 10):
        last = "x"
        for step in range(9):
            op = ("Relu", "Sigmoid", "Abs")[step % 3]
            nodes.append(
                helper.make_node(op, [last], [f"c{chain}_{step}"], name=f"{op}_{chain}_{step}")
            )
            last = f"c{chain}_{step}"
        op, inputs, domain = "MatMul", [last, "w"], ""
        if chain % 20 == 0:
            op, inputs, domain = (
                ("MatMul", [last, "wrong"], ""),
                ("Conv", [last], ""),
                ("Unheard", [last], ""),
                ("Custom", [last], "unknown.domain"),
            )[chain // 20 % 4]
        nodes.append(
            helper.make_node(op, inputs, [f"y{chain}"], name=f"{op}_{chain}", domain=domain)
        )
        outputs.append(helper.make_tensor_value_info(f"y{chain}", TensorProto.FLOAT, [2, 8]))
    weights = [
        numpy_helper.from_array(np.eye(8, dtype=np.float32), "w"),
        numpy_helper.from_array(np.ones((3, 8), np.float32), "wrong"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("unknown.domain", 1)]
    graph = helper.make_graph(nodes, "chains", [x], outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)


def seconds(argv: list[str]) -> float:
    """Return the wall time of a command, in seconds."""
    start = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def nodes_in_report(report: Path) -> set[str]:
    """Return the names of the nodes in a report."""
    entries = json.loads(report.read_text(encoding="utf-8"))["lint_entries"]
    return {
        name for entry in entries if entry["level"] != "info" for name in entry.get("nodes", ())
    }


def main() -> None:
    """Print the times of linting a large model."""
    with tempfile.TemporaryDirectory() as folder:
        model, ours, nvidia_file = (Path(folder) / name for name in ("m.onnx", "a.json", "b.json"))
        save(model)
        words = ["-m", "polygraphy", "check", "lint", str(model), "-o"]
        fastest = min(seconds([sys.executable, *words, str(ours)]) for _ in range(3))
        floor = min(seconds([sys.executable, "-c", FLOOR, str(model)]) for _ in range(3))
        print(f"{NODES} nodes: {fastest:.2f} s, {len(nodes_in_report(ours))} nodes named")
        print(f"onnx.load and shape inference alone: {floor:.2f} s; ratio {fastest / floor:.1f}")
        if NVIDIA:
            spent = seconds(
                [str(Path(NVIDIA).with_name("polygraphy")), *words[2:], str(nvidia_file)]
            )
            missed = sorted(nodes_in_report(nvidia_file) - nodes_in_report(ours))
            print(f"NVIDIA: {spent:.1f} s, {len(nodes_in_report(nvidia_file))} nodes named")
            print(f"Factor {spent / fastest:.0f}; found there and not here: {missed or 'nothing'}")


if __name__ == "__main__":
    main()
