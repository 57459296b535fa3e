"""What the tests of `application/diagnose/test_model_changes.py` and others share."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from tests.support.models import make, value

WIDTH = 8


def choosing(fault: str = "") -> onnx.ModelProto:
    """Return a network with an If, whose condition is computed from the data."""
    random = np.random.RandomState(2)
    weights = {name: random.randn(WIDTH, WIDTH).astype(np.float32) for name in ("w", "v")}
    weights |= {"low": np.float32(-9.0), "flat": np.array([], np.int64)}

    def branch(name: str, op: str) -> onnx.GraphProto:
        """Return a branch: a product, then an operator."""
        nodes = [
            helper.make_node("MatMul", ["h", "v"], [f"{name}_m"], f"{name}_product"),
            helper.make_node(op, [f"{name}_m"], [f"{name}_y"], f"{name}_op"),
        ]
        return helper.make_graph(nodes, name, [], [value(f"{name}_y", [2, WIDTH])])

    then = branch("then", "Tanh" if fault == "inside" else "Sigmoid")
    other = branch("other", "Neg")
    if fault == "inverted":
        then, other = other, then
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "first"),
        helper.make_node("ReduceMax", ["h"], ["top"], "top", keepdims=0),
        helper.make_node("Reshape", ["top", "flat"], ["number"], "number"),
        helper.make_node("Greater", ["number", "low"], ["flag"], "compare"),
        helper.make_node("If", ["flag"], ["c"], "choose", then_branch=then, else_branch=other),
        helper.make_node("Add", ["c", "h"], ["s"], "add"),
        helper.make_node("MatMul", ["s", "w"], ["y"], "last"),
    ]
    shape = [2, WIDTH]
    return make("choosing", nodes, [value("x", shape)], [value("y", shape)], weights=weights)
