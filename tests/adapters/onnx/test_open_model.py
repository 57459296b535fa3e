"""Models that are opened: some of their nodes as models of their own."""

from __future__ import annotations

import pickle
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, parser

from polygraphy.adapters.onnx.run.opening import open_model, save_to_file
from polygraphy.domain.diagnosis.pairing import pair_graphs
from polygraphy.domain.model.graph import attribute_digests
from tests.support import models


def names(values: object) -> list[str]:
    return [value.name for value in values]  # type: ignore[attr-defined]


def run(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    evaluator = onnx.reference.ReferenceEvaluator(model)
    return dict(zip(evaluator.output_names, evaluator.run(None, feed)))


def extract_nodes(model: onnx.ModelProto, nodes: Collection[int]) -> onnx.ModelProto:
    part: onnx.ModelProto = open_model(model, as_it_is=True).part(nodes)
    return part


def test_a_model_is_opened_as_it_is_or_with_its_functions_as_nodes() -> None:
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17, "local": 1]>
        g (float[2] x) => (float[2] y) { y = local.Twice(x) }
        <domain: "local", opset_import: ["": 17]>
        Twice (x) => (y) { y = Add(x, x) }
    """)
    assert open_model(model, as_it_is=True).operators == ["Twice"]
    assert open_model(model).operators == ["Add"]


def test_operators_are_reported() -> None:
    assert open_model(models.custom_op()).operators == ["CustomOp", "Relu"]


@given(st.integers(1, 4))
def test_two_halves_compute_what_the_whole_does(cut: int) -> None:
    model = models.conv_net()
    x = np.random.RandomState(0).standard_normal((2, 3, 16, 16)).astype(np.float32)
    first = extract_nodes(model, range(cut))
    second = extract_nodes(model, range(cut, 5))
    for half in (first, second):
        onnx.checker.check_model(half, full_check=True)
    assert names(first.graph.output) == names(second.graph.input)
    assert run(second, run(first, {"x": x}))["y"].tolist() == run(model, {"x": x})["y"].tolist()
    kept = names(first.graph.initializer) + names(second.graph.initializer)
    assert sorted(kept) == sorted(names(model.graph.initializer))


def test_types_that_nobody_knows_are_left_out() -> None:
    part = extract_nodes(models.custom_op(), [1])
    [given] = part.graph.input
    assert (given.name, given.type.WhichOneof("value")) == ("t", None)
    [made] = part.graph.output
    assert made.type.tensor_type.elem_type == onnx.TensorProto.FLOAT


def test_what_graphs_inside_nodes_read_is_an_input() -> None:
    branch = helper.make_graph(
        [helper.make_node("Add", ["h", "own"], ["o"])],
        "branch",
        [],
        [models.value("o", [2])],
        [onnx.numpy_helper.from_array(np.ones(2, np.float32), "own")],
    )
    model = models.make(
        "with_if",
        [
            helper.make_node("Relu", ["x"], ["h"]),
            helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
        ],
        [models.value("x", [2]), models.value("c", [], onnx.TensorProto.BOOL)],
        [models.value("y", [2])],
    )
    assert names(extract_nodes(model, [1]).graph.input) == ["c", "h"]
    assert names(extract_nodes(model, [0]).graph.output) == ["h"]


def test_a_part_is_saved_with_its_weights_beside_it(tmp_path: Path) -> None:
    part = extract_nodes(models.mlp(), [0, 1])
    path = str(tmp_path / "part.onnx")
    save_to_file(part, path, external_data_path="part_ext_data", size_threshold=0)
    assert (tmp_path / "part_ext_data").stat().st_size > 0
    assert onnx.load(path).graph.node[1].op_type == "Relu"


@pytest.mark.parametrize(
    ("op", "opset", "stated", "is_equal"),
    [
        ("Softmax", 17, {"axis": -1}, True),
        ("Softmax", 11, {"axis": -1}, False),
        ("Softmax", 11, {"axis": 1}, False),  # A newer Softmax would take another axis.
        ("LeakyRelu", 17, {"alpha": 0.01}, True),
        ("LeakyRelu", 17, {"alpha": 0.02}, False),
        ("MaxPool", 17, {"strides": [1, 1], "pads": [0, 0, 0, 0], "ceil_mode": 0}, True),
        ("MaxPool", 17, {"strides": [2, 1]}, False),
    ],
)
def test_nodes_with_defaults_spelled_out_are_equal(
    op: str, opset: int, stated: dict[str, Any], is_equal: bool
) -> None:
    own = {"kernel_shape": [2, 2]} if op == "MaxPool" else {}
    nodes = [
        helper.make_node(op, ["x"], [f"y{at}"], **own, **more)
        for at, more in enumerate(({}, stated))
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("x", "y0", "y1")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    opened = open_model(model)
    assert (opened.nodes[0].settings == opened.nodes[1].settings) == is_equal
    first, second = (attribute_digests(node) for node in opened.graph.nodes)
    assert (first == second) == is_equal


def test_a_paired_graph_has_the_numbering_of_the_opened_model() -> None:
    """Also with Constant nodes, and with casts that a model in half precision has beside those of
    its reference.
    """
    head = """<ir_version: 8, opset_import: ["": 17]> m (float[2] x) => (float[2] y)"""
    model = parser.parse_model(head + """ <float16[2] w = {1, 2}> { n = Constant<value_float=2.0>()
        h = Cast<to=10>(x)  a = Mul(h, w)  f = Cast<to=1>(a)  y = Div(f, n) }""")
    reference = parser.parse_model(head + """ <float[2] w = {1, 2}> {
        n = Constant<value_float=2.0>()  a = Mul(x, w)  y = Div(a, n) }""")
    opened, twin = open_model(model), open_model(reference)
    assert opened.graph.nodes is opened.nodes
    assert [*opened.graph.operations] == [1, 2, 3, 4]
    assert (opened.graph.producers["n"], "n" in opened.graph.operation_producers) == (0, False)
    pairing = pair_graphs(opened.graph, twin.graph)
    assert pairing.nodes == {2: 1, 4: 2}
    assert [node.outputs for node in pairing.model.nodes] == [node.outputs for node in opened.nodes]
    assert [node.is_discontinuous for node in opened.nodes] == [False] * 5
    copied = pickle.loads(pickle.dumps(opened.graph))  # Weights are read later, also in a copy.
    assert copied.constants["n"].values == 2
    assert copied.digest("w") == opened.graph.digest("w")
