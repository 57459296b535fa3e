"""Shape inference of the onnx package does not end the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs, helper, numpy_helper

from polygraphy.adapters.onnx_common.inference import (
    hide_crashing_nodes,
    infer_shapes,
    restore_nodes,
)
from polygraphy.adapters.processes.forked import call_isolated

_VALUES: dict[str, Any] = {
    "INT": 1, "INTS": [1], "FLOAT": 1.0, "FLOATS": [1.0], "STRING": "a", "STRINGS": ["a"],
    "TENSOR": numpy_helper.from_array(np.array([1], np.float32)),
    "GRAPH": helper.make_graph([], "b", [], []),
}  # fmt: skip


def model_with(schema: Any, kind: str) -> onnx.ModelProto:
    """Return a model of one operator, of whose inputs nothing is known."""
    count = min(schema.max_input, max(1, schema.min_input))
    names = [f"i{index}" for index in range(count)]
    node = helper.make_node(schema.name, names, ["o"], domain=schema.domain)
    for name, attribute in schema.attributes.items():
        kind_of_value = str(attribute.type).rpartition(".")[2]
        if attribute.required and kind_of_value in _VALUES:
            node.attribute.append(helper.make_attribute(name, _VALUES[kind_of_value]))
    nodes, inputs = [node], []
    if kind == "of an unknown operator":
        nodes.insert(0, helper.make_node("Foo", ["x"], names, domain="my"))
    elif kind == "without a type":
        inputs = [onnx.ValueInfoProto(name=name) for name in names]
    else:
        node.input[:] = [""] * count
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name="o")])
    imports = {schema.domain: schema.since_version, "my": 1}
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid(*e) for e in imports.items()]
    )


@pytest.mark.parametrize("kind", ["of an unknown operator", "without a type", "left out"])
def test_no_operator_crashes_where_nothing_is_known_of_its_inputs(kind: str) -> None:
    done: list[str] = []

    def infer_all() -> list[str]:
        for schema in defs.get_all_schemas_with_history():
            for data_prop in (False, True):
                with suppress(onnx.shape_inference.InferenceError):
                    infer_shapes(model_with(schema, kind), data_prop=data_prop)
            done.append(schema.name)
        return done

    assert len(call_isolated(infer_all, what="inference")) > 100


def _texts(nodes: str, values: str = "") -> onnx.ModelProto:
    text = f"m (string[3] x) => (bool[a] y) {values} {{ {nodes} }}"
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 20, "my" : 1]> {text}')


def _types(model: onnx.ModelProto) -> Iterator[str]:
    return (v.name for v in model.graph.value_info if v.type.WhichOneof("value"))


def test_what_is_known_is_inferred_all_the_same() -> None:
    known = _texts('a = Identity(x)  h = RegexFullMatch <pattern: string = "a"> (a)  y = Not(h)')
    assert list(_types(infer_shapes(known))) == ["a", "h"]
    unknown = _texts('a = my.Foo(x)  h = RegexFullMatch <pattern: string = "a"> (a)  y = Not(h)')
    made = infer_shapes(unknown)
    assert [node.domain for node in made.graph.node] == ["my", "", ""]
    assert [entry.domain for entry in made.opset_import] == ["", "my"]


@pytest.mark.parametrize(
    "nodes",
    [
        "a, b, y = Split <axis = 1, num_outputs = 2> (x)",
        "y = GatherND <batch_dims = -1> (x, i)",
        "a = my.Foo(x) y = EyeLike <dtype = 1> (a)",
    ],
)
def test_invalid_nodes_do_not_end_the_process(nodes: str) -> None:
    text = f"m (float[5, 6] x, int64[2, 1] i) => (float y) {{ {nodes} }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "my" : 1]> {text}')
    before = [node.op_type for node in model.graph.node]
    shapes = call_isolated(lambda: infer_shapes(model, data_prop=True), what="inference")
    assert [node.op_type for node in shapes.graph.node] == before


def test_hidden_nodes_come_back_in_branches_and_functions() -> None:
    inner = helper.make_node("LabelEncoder", ["x"], ["r"], domain="ai.onnx.ml")
    branch = helper.make_graph([inner], "b", [], [onnx.ValueInfoProto(name="r")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    function = helper.make_function("my", "F", ["x"], ["r"], [inner], imports)
    model = helper.make_model(
        helper.make_graph([node], "g", [], []), opset_imports=imports, functions=[function]
    )
    before = model.SerializeToString(deterministic=True)
    made = hide_crashing_nodes(model)
    assert made is not model and model.SerializeToString(deterministic=True) == before
    restore_nodes(made)
    assert made.SerializeToString(deterministic=True) == before
