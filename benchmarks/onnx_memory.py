"""Measures the peak memory of editing an ONNX model whose weights are in another file.

Run with ``python benchmarks/onnx_memory.py [GIGABYTES [EDIT ...]]``, 3 and all unless given.
The weights are zeros, which the file system need not store; results take as much disk as they do.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onnx
from onnx import helper

SIDE = 4096
_BYTES = 4 * SIDE * SIDE
EDITS = {
    "inspect": "inspect model {}",
    "lint": "check lint {} --ignore-external-data",
    "fold constants": "surgeon sanitize {} --fold-constants",
    "extract half": "surgeon extract {} --inputs {middle}:auto:auto",
    "insert a node": "surgeon insert {} --inputs {middle} --outputs {middle} --op Identity",
    "strip weights": "surgeon weight-strip {}",
    "prune weights": "surgeon prune {}",
    "cast to float16": "convert {} --fp-to-fp16",
    "save in other files": "convert {} --save-external-data weights.out",
    "make weights up": "surgeon weight-reconstruct {stripped}",
}
_MEASURED = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, capture_output=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""


def main() -> None:
    """Print the peak memory of edits of a large model."""
    layers = round(float(sys.argv[1] if len(sys.argv) > 1 else 3) * 1e9 / _BYTES)
    chosen = sys.argv[2:] or list(EDITS)
    with tempfile.TemporaryDirectory() as folder:
        path = save_model(Path(folder), layers)
        size = layers * _BYTES / 1e6
        print(f"{layers} weights of {_BYTES / 1e6:.0f} MB each, {size:.0f} MB together")
        stripped = path.with_name("stripped.onnx")
        if "make weights up" in chosen:
            words = ["surgeon", "weight-strip", str(path), "-o", str(stripped)]
            subprocess.run(
                [sys.executable, "-m", "polygraphy", *words], check=True, capture_output=True
            )
        for what in chosen:
            command = EDITS[what].format(path, middle=f"h{layers // 2}", stripped=stripped).split()
            if command[0] not in ("inspect", "check"):
                command += ["-o", "out.onnx"]
            start = time.perf_counter()
            megabytes = peak(command, Path(folder) / "out")
            seconds = time.perf_counter() - start
            print(
                f"  {what:20} {megabytes:6d} MB, {seconds:6.1f} s,"
                f" {size / megabytes:5.1f} times less"
            )


def save_model(folder: Path, layers: int) -> Path:
    """Save a model of products with shape arithmetic between them; return its path."""
    weights, nodes, tensor = [], [], "x"
    with (folder / "weights").open("wb") as stream:
        stream.truncate(layers * _BYTES)
    for index in range(layers):
        weight = onnx.TensorProto(name=f"w{index}", data_type=1, dims=[SIDE, SIDE])
        weight.data_location = onnx.TensorProto.EXTERNAL
        place = {"location": "weights", "offset": index * _BYTES, "length": _BYTES}
        for key, value in place.items():
            weight.external_data.add(key=key, value=str(value))
        weights.append(weight)
        nodes += [
            helper.make_node("Shape", [tensor], [f"s{index}"]),
            helper.make_node("Reshape", [tensor, f"s{index}"], [f"r{index}"]),
            helper.make_node("MatMul", [f"r{index}", f"w{index}"], [f"h{index}"]),
        ]
        tensor = f"h{index}"
    described = [helper.make_tensor_value_info(name, 1, ["n", SIDE]) for name in ("x", tensor)]
    graph = helper.make_graph(nodes, "stack", described[:1], described[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "model.onnx"))
    return folder / "model.onnx"


def peak(words: list[str], folder: Path) -> int:
    """Return the peak memory of a command in MB, run in an empty folder."""
    folder.mkdir()
    command = [sys.executable, "-c", _MEASURED, sys.executable, "-m", "polygraphy", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    return int(done.stdout)


if __name__ == "__main__":
    main()
