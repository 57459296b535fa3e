"""What it would cost to edit ONNX models as graphs of the onnx-ir package, and what would be lost.

    python benchmarks/graph_library.py          (pip install onnx-ir)

docs/editing.md says why models are edited as protobuf messages instead. This measures, on the model
of 20,000 nodes of onnx_editing.py, what comes on top with onnx-ir: importing it, making its graph,
and making a message of that again; and for parts of a model whether they survive that.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_editing import many_nodes

REPEATS = 5


def seconds(what: Callable[[], object]) -> float:
    """Return the median wall time of a function, in seconds."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        what()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def process(code: str) -> float:
    """Return the median wall time of a Python process that runs `code`, in seconds."""
    return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True))


def small_model() -> onnx.ModelProto:
    """Return a model with one node."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "s"], ["y"], name="add")], "g", values[:1], values[1:]
    )
    sparse = graph.sparse_initializer.add(dims=[4])
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(2, np.float32), "s"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([0, 2]), "s_indices"))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.training_info.add()
    graph = model.graph
    graph.value_info.add().CopyFrom(values[0])
    graph.quantization_annotation.add(tensor_name="later")
    # An unknown field, with the number 1023, which the ONNX format does not use.
    unknown = b"\xfa\x3f\x03new"
    graph.node[0].MergeFromString(unknown)
    model.MergeFromString(unknown)
    return model


def main() -> None:
    """Print the times of both libraries."""

    import onnx_ir

    model = many_nodes()
    graph = onnx_ir.from_proto(model)
    print(f"{len(model.graph.node)} nodes, onnx-ir {onnx_ir.__version__}; medians of {REPEATS}")
    bare, imported = process("import onnx"), process("import onnx, onnx_ir")
    print(f"  import onnx, a process        {bare:.2f} s")
    print(f"  import onnx_ir on top         {imported - bare:.2f} s")
    spent = seconds(lambda: onnx_ir.from_proto(model))
    print(f"  message to graph              {spent:.2f} s")
    back = seconds(lambda: onnx_ir.to_proto(graph))
    print(f"  graph to message              {back:.2f} s")
    print(f"  together                      {imported - bare + spent + back:.2f} s")
    before = small_model()
    after = onnx_ir.to_proto(onnx_ir.from_proto(before))
    parts: dict[str, Callable[[onnx.ModelProto], object]] = {
        "sparse initializers": lambda m: len(m.graph.sparse_initializer),
        "training information": lambda m: len(m.training_info),
        "types of inputs stated twice": lambda m: len(m.graph.value_info),
        "annotations of other tensors": lambda m: len(m.graph.quantization_annotation),
        "unknown fields of nodes": lambda m: b"new" in m.graph.node[0].SerializeToString(),
    }
    for name, look in parts.items():
        print(f"  {name:29} {'kept' if look(before) == look(after) else 'lost'}")


if __name__ == "__main__":
    main()
