"""What the tests of `adapters/onnx/test_inlining.py` and others share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.support.models import value

OWN = "own"


def refer_to_attribute(node: onnx.NodeProto, name: str, attribute: str) -> onnx.NodeProto:
    """Return a node with an attribute that refers to one of the function's call."""
    node.attribute.append(
        onnx.AttributeProto(name=name, ref_attr_name=attribute, type=onnx.AttributeProto.FLOAT)
    )
    return node


def block(opset: int = 17, body: Sequence[onnx.NodeProto] = ()) -> onnx.FunctionProto:
    """Return a function with two inputs, and an attribute with a default."""
    branch = helper.make_graph(
        [helper.make_node("Neg", ["e"], ["chosen"], name="neg")],
        "then", [], [value("chosen", [2, 4])],
    )  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("Add", ["e", "k"], ["chosen2"], name="more")],
        "else", [], [value("chosen2", [2, 4])],
    )  # fmt: skip
    two = numpy_helper.from_array(np.float32(2.5), "k")
    nodes = [
        helper.make_node("MatMul", ["a", "w"], ["m"], name="product"),
        refer_to_attribute(helper.make_node("Elu", ["m"], ["e"], name="elu"), "alpha", "alpha"),
        helper.make_node("Constant", [], ["k"], value=two),
        helper.make_node("ReduceMax", ["e"], ["top"], keepdims=0),
        helper.make_node("Less", ["top", "k"], ["low"]),
        helper.make_node(
            "If", ["low"], ["o"], name="choice", then_branch=branch, else_branch=other
        ),
        *body,
    ]
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(OWN, 1)]
    half = helper.make_attribute("alpha", 0.5)
    return helper.make_function(
        OWN, "Block", ["a", "w"], ["o"], nodes, imports, [], [half]
    )  # fmt: skip


def model_of(
    nodes: Sequence[onnx.NodeProto], functions: Sequence[onnx.FunctionProto]
) -> onnx.ModelProto:
    """Return a model that calls functions."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal((4, 4)).astype(np.float32), name)
        for name in ("w0", "w1")
    ]
    graph = helper.make_graph(nodes, "calls", [value("x", [2, 4])], [value("y", [2, 4])], weights)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(OWN, 1)]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=9)


def calling_model(*names: str) -> onnx.ModelProto:
    """Return a model that calls functions in order by name; an unnamed call works."""
    pair = helper.make_function(
        OWN, "Pair", ["a", "w"], ["o"],
        [
            helper.make_node("Block", ["a", "w"], ["i"], name="first", domain=OWN, alpha=0.3),
            helper.make_node("Block", ["i", "w"], ["o"], name="second", domain=OWN),
        ],
        [helper.make_opsetid("", 17), helper.make_opsetid(OWN, 1)],
    )  # fmt: skip
    nodes, last = [], "x"
    for number, name in enumerate(names):
        made = "y" if number == len(names) - 1 else f"t{number}"
        kind = "Pair" if number % 2 else "Block"
        weight = f"w{number % 2}"
        nodes.append(helper.make_node(kind, [last, weight], [made], name=name, domain=OWN))
        last = made
    return model_of(nodes, [block(), pair])
