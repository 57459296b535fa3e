"""Models for pages: one with graphs inside nodes and names that look like markup, and a long one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

__all__ = ["MARKUP", "MARKUP_NAME", "chain", "nested", "save"]

MARKUP = (
    '</script><!--<script>window.pwned = 1</script><img src=x onerror="window.pwned = 1">'
    "{{ 7 * 7 }}\u2028&amp;"
)
MARKUP_NAME = f"__proto__ {MARKUP}"


def _value(name: str, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, [2])


def _graph(name: str, nodes: list[NodeProto], output: str) -> GraphProto:
    return helper.make_graph(nodes, name, [], [_value(output)])


def nested() -> ModelProto:
    """An If with an If in its else-branch, a call of a function, and markup wherever text can be."""
    then = _graph("then", [helper.make_node("Add", ["x", "w"], ["a"], name=MARKUP)], "a")
    inner_then = _graph("inner then", [helper.make_node("Neg", ["x"], ["b"])], "b")
    inner_else = _graph("inner else", [helper.make_node("Abs", ["x"], ["deep"])], "deep")
    inner = helper.make_node(
        "If", ["c"], ["d"], name="inner", then_branch=inner_then, else_branch=inner_else
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="first"),
        helper.make_node(
            "If",
            ["c"],
            ["y"],
            name="outer",
            then_branch=then,
            else_branch=_graph("else", [inner], "d"),
        ),
        helper.make_node("Add", ["y", "r"], [MARKUP_NAME], doc_string=MARKUP),
        helper.make_node("Call", [MARKUP_NAME], ["z"], name="call", domain="own", note=MARKUP),
    ]
    weight = numpy_helper.from_array(np.linspace(-1, 1, 40, dtype=np.float32).reshape(20, 2), "w")
    graph = helper.make_graph(
        nodes,
        MARKUP,
        [_value("x"), helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [_value("z")],
        [weight, numpy_helper.from_array(np.zeros(2, np.float32), MARKUP)],
        doc_string=MARKUP,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    body = [helper.make_node("Sigmoid", ["p"], ["q"], name="in function")]
    function = helper.make_function("own", "Call", ["p"], ["q"], body, opsets[:1])
    model = helper.make_model(
        graph, opset_imports=opsets, functions=[function], producer_name=MARKUP
    )
    model.metadata_props.add(key=MARKUP, value=MARKUP)
    return model


def chain(count: int) -> ModelProto:
    """Nodes behind each other, every fifth of which also takes what was computed four before."""
    nodes = [helper.make_node("Relu", ["x"], ["t0"], name="node_0")]
    for i in range(1, count):
        skips = i % 5 == 0
        inputs = [f"t{i - 1}", f"t{i - 4}"] if skips else [f"t{i - 1}"]
        nodes.append(
            helper.make_node("Add" if skips else "Relu", inputs, [f"t{i}"], name=f"node_{i}")
        )
    graph = helper.make_graph(nodes, "chain", [_value("x")], [_value(f"t{count - 1}")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def save(model: ModelProto, path: Path) -> str:
    onnx.save(model, path)
    return str(path)
