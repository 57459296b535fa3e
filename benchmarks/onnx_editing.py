"""Measures the editing of large ONNX models from the command line, beside NVIDIA's tool where it is
installed.

Run with ``python benchmarks/onnx_editing.py``. `POLYGRAPHY_NVIDIA_PYTHON` names the Python of a
virtual environment that has NVIDIA's Polygraphy. The floor is a process that loads and saves the
model.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

REPEATS = 3
FLOOR = "import onnx, sys; onnx.save(onnx.load(sys.argv[1]), sys.argv[2])"


def main() -> None:
    """Print the times of edits in both libraries."""
    nvidia = os.environ.get("POLYGRAPHY_NVIDIA_PYTHON")
    with tempfile.TemporaryDirectory() as folder:
        for name, build, parts in (
            ("20,000 nodes", many_nodes, (("x", "h_667"), ("h_999", "h_1333"))),
            ("BERT-base", bert, (("layer5_out", "layer9_out"),)),
        ):
            path = Path(folder) / "model.onnx"
            onnx.save(build(), path)
            print(f"{name}: {path.stat().st_size / 1e6:.0f} MB")
            out = str(Path(folder) / "out.onnx")
            report("load and save", [sys.executable, "-c", FLOOR, str(path), out], out)
            for what, words in (
                ("fold", ["sanitize", str(path), "--fold-constants", "-o", out]),
                *(
                    (
                        f"extract {first}..{last}",
                        f"extract {path} --inputs {first}:auto:auto --outputs {last}:auto"
                        f" -o {out}".split(),
                    )
                    for first, last in parts
                ),
            ):
                ours = report(what, [sys.executable, "-m", "polygraphy", "surgeon", *words], out)
                if nvidia:
                    library_seconds = report(
                        f"{what}, NVIDIA",
                        [str(Path(nvidia).with_name("polygraphy")), "surgeon", *words],
                        out,
                    )
                    print(f"    factor {library_seconds / ours:.1f}")


def report(what: str, command: list[str], out: str) -> float:
    """Run a command several times; print its cost and result, and return its median seconds."""
    seconds = []
    for _ in range(REPEATS):
        Path(out).unlink(missing_ok=True)
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, cwd=Path(out).parent)
        seconds.append(time.perf_counter() - start)
    nodes = len(onnx.load(out).graph.node)
    median = statistics.median(seconds)
    print(f"  {what:30} {median:7.2f} s, {peak(command):5d} MB, {nodes} nodes left")
    return median


def peak(command: list[str]) -> int:
    """Return the peak memory of a command in MB."""
    script = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], capture_output=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *command],
        check=True,
        capture_output=True,
        text=True,
        cwd=tempfile.gettempdir(),
    )
    return int(done.stdout) // 1024


class Builder:
    """Collects nodes and weights."""

    def __init__(self) -> None:
        """Start an empty graph."""
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(0)

    def add(self, op: str, inputs: list[str], output: str, **attributes: object) -> str:
        """Add a node, and return the name of its output."""
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def weight(self, name: str, *shape: int) -> str:
        """Add a random weight, and return its name."""
        values = self._random.standard_normal(shape, np.float32) * np.float32(0.02)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def constant(self, name: str, values: object) -> str:
        """Add a Constant node, and return the name of its output."""
        self.nodes.append(
            helper.make_node(
                "Constant", [], [name], name=name, value=numpy_helper.from_array(np.array(values))
            )
        )
        return name

    def dim(self, source: str, index: int, name: str) -> str:
        """Add nodes that read one dimension of a tensor, as exporters do; return its name."""
        shape = self.add("Shape", [source], f"{name}_shape")
        output = self.add(
            "Gather", [shape, self.constant(f"{name}_index", np.int64(index))], f"{name}_dim"
        )
        return self.add("Unsqueeze", [output, self.constant(f"{name}_axes", [0])], f"{name}_axis")

    def model(
        self, shape: list[object], inputs: TensorProto.DataType, out: str, hidden: int
    ) -> onnx.ModelProto:
        """Return the model of the graph."""
        graph = helper.make_graph(
            self.nodes,
            "benchmark",
            [helper.make_tensor_value_info("x", inputs, shape)],
            [
                helper.make_tensor_value_info(
                    out, TensorProto.FLOAT, [*shape[: 2 - (hidden == 8)], hidden]
                )
            ],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def many_nodes(blocks: int = 1333) -> onnx.ModelProto:
    """Return a model with 15 nodes per block, half of which compute a mostly known shape."""
    builder, tensor = Builder(), "x"
    builder.constant("bias", np.ones(8, np.float32))
    for index in range(blocks):
        prefix = f"b{index}"
        batch = builder.dim(tensor, 0, f"{prefix}_batch")
        width = builder.dim(tensor, 1, f"{prefix}_width")
        target = builder.add("Concat", [batch, width], f"{prefix}_target", axis=0)
        tensor = builder.add("Reshape", [tensor, target], f"{prefix}_same")
        scaled = builder.add("Add", ["bias", "bias"], f"{prefix}_bias")
        tensor = builder.add("Add", [tensor, scaled], f"{prefix}_sum")
        tensor = builder.add("Relu", [tensor], f"h_{index + 1}")
    return builder.model(["batch", 8], TensorProto.FLOAT, tensor, 8)


def bert(layers: int = 12, hidden: int = 768, heads: int = 12) -> onnx.ModelProto:
    """Return an encoder of BERT's size with the shape arithmetic of exporters."""
    builder = Builder()
    table = builder.weight("embeddings", 30522, hidden)
    tensor = builder.add("Gather", [table, "x"], "embedded")
    for index in range(layers):
        name = f"layer{index}"
        parts = []
        for part in "qkv":
            weight = builder.weight(f"{name}_{part}_weight", hidden, hidden)
            flat = builder.add("MatMul", [tensor, weight], f"{name}_{part}_flat")
            flat = builder.add(
                "Add", [flat, builder.weight(f"{name}_{part}_bias", hidden)], f"{flat}b"
            )
            target = builder.add(
                "Concat",
                [
                    builder.dim(flat, 0, f"{name}_{part}_b"),
                    builder.dim(flat, 1, f"{name}_{part}_s"),
                    builder.constant(f"{name}_{part}_heads", [heads]),
                    builder.constant(f"{name}_{part}_size", [hidden // heads]),
                ],
                f"{name}_{part}_target",
                axis=0,
            )
            split = builder.add("Reshape", [flat, target], f"{name}_{part}_split")
            perm = [0, 2, 3, 1] if part == "k" else [0, 2, 1, 3]
            parts.append(builder.add("Transpose", [split], f"{name}_{part}", perm=perm))
        scores = builder.add("MatMul", parts[:2], f"{name}_scores")
        size = builder.constant(f"{name}_scale", np.float32(hidden / heads))
        root = builder.add("Sqrt", [size], f"{name}_root")
        scaled = builder.add("Div", [scores, root], f"{name}_scaled")
        shares = builder.add("Softmax", [scaled], f"{name}_shares", axis=-1)
        mixed = builder.add("MatMul", [shares, parts[2]], f"{name}_mixed")
        mixed = builder.add("Transpose", [mixed], f"{name}_merged", perm=[0, 2, 1, 3])
        joined = builder.add(
            "Concat",
            [
                builder.dim(mixed, 0, f"{name}_jb"),
                builder.dim(mixed, 1, f"{name}_js"),
                builder.constant(f"{name}_hidden", [hidden]),
            ],
            f"{name}_join",
            axis=0,
        )
        mixed = builder.add("Reshape", [mixed, joined], f"{name}_joined")
        out = builder.add(
            "MatMul", [mixed, builder.weight(f"{name}_o", hidden, hidden)], f"{name}_attended"
        )
        tensor = builder.add("Add", [tensor, out], f"{name}_residual")
        wide = builder.add(
            "MatMul", [tensor, builder.weight(f"{name}_up", hidden, 4 * hidden)], f"{name}_wide"
        )
        wide = builder.add("Relu", [wide], f"{name}_active")
        down = builder.weight(f"{name}_down", 4 * hidden, hidden)
        narrow = builder.add("MatMul", [wide, down], f"{name}_narrow")
        tensor = builder.add("Add", [tensor, narrow], f"{name}_out")
    return builder.model(["batch", "sequence"], TensorProto.INT64, tensor, hidden)


if __name__ == "__main__":
    print(f"peak memory counts everything in the process; {resource.getpagesize()} byte pages")
    main()
