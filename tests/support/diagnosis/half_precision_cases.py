"""What the tests of `application/diagnose/test_half.py` and others share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from tests.support.models import make, value

SIZE = 16


Step = tuple[str, str, float | None]


PLANTED: dict[str, Sequence[Step]] = {
    "overflow": [("Mul", "large", 1e6), ("Mul", "back", 1e-6)],
    "underflow": [("Mul", "small", 1e-6), ("Mul", "smaller", 1e-4), ("Mul", "back", 1e10)],
    "epsilon": [
        ("Mul", "zero", 0.0), ("Add", "safe", 1e-9), ("Sqrt", "root", None),
        ("Reciprocal", "turned", None), ("Mul", "back", 3e-5),
    ],
    "rounding": [("Add", "far", 3e4), ("Sub", "near", 3e4)],
}  # fmt: skip


BLAMED = {"overflow": "large", "underflow": "small", "epsilon": "safe", "rounding": "near"}


def network(kind: str | None, at: int = 1, layers: int = 4, seed: int = 0) -> onnx.ModelProto:
    """Return a residual network with a fault of a kind between two of its layers."""
    random = np.random.RandomState(seed)
    nodes, weights = [], {}
    last = "x"

    def add(op: str, name: str, *reads: str) -> str:
        """Add a node, and return the name of its output."""
        nodes.append(helper.make_node(op, reads, [f"{name}_out"], name=name))
        return f"{name}_out"

    for layer in range(layers):
        weights[f"w{layer}"] = (random.randn(SIZE, SIZE) / SIZE).astype(np.float32)
        made = add("Relu", f"relu{layer}", add("MatMul", f"matmul{layer}", last, f"w{layer}"))
        last = add("Add", f"add{layer}", last, made)
        for op, name, constant in PLANTED.get(kind or "", ()) if layer == at else ():
            reads = [last]
            if constant is not None:
                weights[f"{name}_w"] = np.array([constant], np.float32)
                reads.append(f"{name}_w")
            last = add(op, name, *reads)
    nodes.append(helper.make_node("Identity", [last], ["y"], name="end"))
    return make("net", nodes, [value("x", [2, SIZE])], [value("y", [2, SIZE])], weights=weights)
