"""The evaluator around the operators: loops, functions, folding, and what its errors say."""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model

from polygraphy.adapters.onnx.run.reference import evaluate_constants
from polygraphy.adapters.onnx_common.evaluator import evaluator_of
from polygraphy.backend.onnx import OnnxReferenceRunner
from polygraphy.backend.pluginref import PluginRefRunner
from polygraphy.exception import BackendError
from polygraphy.logger import G_LOGGER

ort = pytest.importorskip("onnxruntime")


def evaluated(model: onnx.ModelProto, **feed: Any) -> dict[str, Any]:
    with OnnxReferenceRunner(model) as runner:
        return dict(runner.infer(feed))


def assert_as_in_onnx_runtime(model: onnx.ModelProto | str, **feed: Any) -> dict[str, Any]:
    model = parse_model(model) if isinstance(model, str) else model
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = dict(zip([value.name for value in model.graph.output], session.run(None, feed)))
    found = evaluated(model, **feed)
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name, strict=True)
    return found


STUMP = {
    "nodes_falsenodeids": [2, 0, 0],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_nodeids": [0, 1, 2],
    "nodes_treeids": [0, 0, 0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_values": [0.0, 0.0, 0.0],
    "target_ids": [0, 1, 0],
    "target_nodeids": [1, 1, 2],
    "target_treeids": [0, 0, 0],
    "target_weights": [1.5, -2.0, 0.5],
    "n_targets": 2,
}


@pytest.mark.parametrize("transform", ["LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_the_scores_of_trees_are_transformed(transform: str) -> None:
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", post_transform=transform,
        aggregate_function="SUM", **STUMP,
    )  # fmt: skip
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, size])]
        for name, size in (("x", 1), ("y", 2))
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([node], "g", *ends)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    assert_as_in_onnx_runtime(model, x=np.float32([[-1], [1]]))


def test_an_evaluator_that_nobody_uses_is_gone_with_its_weights() -> None:
    model = parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { h = Add(x, w) y = Relu(h) }""")
    evaluator = ref(evaluator_of(model))
    assert evaluator() is None, "without the collector of cycles"


LOOP = """
<ir_version: 8, opset_import: ["" : {opset}]>
g (int64 n, float[2, 3] x) => (float last, float[s] scalars, float[t, 2, 3] matrices) {{
    go = Constant <value_ints = [1]> ()
    first = Constant <value_float = 1.5> ()
    last, scalars, matrices = Loop (n, {condition}, first) <body = b
        (int64 i, bool before, float now) => (bool after, float next, float scalar, float[2, 3] matrix)
        {{
            after = Identity (before)
            next = Add (now, now)
            scalar = Identity (next)
            matrix = Mul (x, next)
        }}>
}}
"""


@pytest.mark.parametrize("opset", [11, 13, 16, 19])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_a_loop_stacks_what_its_body_returns(opset: int, rounds: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    if opset < 12:
        text = LOOP.replace("go = Constant <value_ints = [1]> ()\n", "").replace(
            "Constant <value_float = 1.5> ()", "Constant <value = float {{1.5}}> ()"
        )
    else:
        text = LOOP
    found = assert_as_in_onnx_runtime(
        text.format(opset=opset, condition=""), n=np.array(rounds), x=x
    )
    assert found["scalars"].shape == (rounds,)
    assert found["matrices"].shape == (rounds, 2, 3)


def test_a_loop_ends_when_its_body_says_so() -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 16]>
    g (float limit, bool go) => (float last, int64[s] counted) {
        first = Constant <value_float = 1.0> ()
        last, counted = Loop (none, go, first) <body = b
            (int64 i, bool before, float now) => (bool after, float next, int64 count)
            {
                next = Add (now, now)
                after = Less (next, limit)
                count = Identity (i)
            }>
    }
    """
    model = parse_model(text)
    model.graph.node[1].input[0] = ""
    found = assert_as_in_onnx_runtime(model, limit=np.array(10, np.float32), go=np.array(True))
    assert found["counted"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("axis, backward", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_a_scan_goes_along_any_axis_both_ways(axis: int, backward: int) -> None:
    text = f"""
    <ir_version: 8, opset_import: ["" : 16]>
    g (float[3] first, float[3, 3] x) => (float[3] last, float[3, 3] sums) {{
        last, sums = Scan (first, x) <num_scan_inputs = 1, scan_input_axes = [{axis}],
            scan_input_directions = [{backward}], scan_output_axes = [{1 - axis}],
            scan_output_directions = [{backward}], body = b
            (float[3] total, float[3] row) => (float[3] next, float[3] out)
            {{
                next = Add (total, row)
                out = Identity (next)
            }}>
    }}
    """
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    assert_as_in_onnx_runtime(text, first=np.ones(3, np.float32), x=x)


def test_a_scan_of_opset_8_has_a_batch() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["total", "row"], ["next"]),
            helper.make_node("Identity", ["next"], ["out"]),
        ],
        "b",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("total", "row")],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("next", "out")],
    )
    node = helper.make_node(
        "Scan", ["lens", "first", "x"], ["last", "sums"], body=body, num_scan_inputs=1
    )
    values = {"lens": (TensorProto.INT64, [2]), "first": (1, [2, 2]), "x": (1, [2, 3, 2])}
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, *value) for name, value in values.items()],
        [helper.make_empty_tensor_value_info(name) for name in ("last", "sums")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3)
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    found = evaluated(model, lens=np.array([3, 2]), first=np.zeros((2, 2), np.float32), x=x)
    np.testing.assert_array_equal(found["last"], [x[0].sum(0), x[1, :2].sum(0)])
    np.testing.assert_array_equal(found["sums"][1], [x[1, 0], x[1, 0] + x[1, 1], [0, 0]])


def batch_norm(opset: int) -> onnx.ModelProto:
    return parse_model(f"""
    <ir_version: 8, opset_import: ["" : {opset}]>
    g () => (float[1, 2, 2] y)
    <float[1, 2, 2] x = {{1, 2, 3, 4}}, float[2] s = {{1, 2}}, float[2] b = {{0, 1}},
     float[2] m = {{1, 3}}, float[2] v = {{4, 1}}>
    {{
        y = BatchNormalization <epsilon = 0.0> (x, s, b, m, v)
    }}
    """)


@pytest.mark.parametrize("opset", [7, 8, 9, 13, 14, 15])
def test_constants_are_folded_by_the_same_evaluator(opset: int) -> None:
    values = evaluate_constants(batch_norm(opset), ["y"])
    np.testing.assert_allclose(values["y"], [[[0, 0.5], [1, 3]]])


def test_plugin_references_stand_in_the_same_evaluator() -> None:
    model = parse_model("""
    <ir_version: 8, opset_import: ["" : 12, "mine" : 1]>
    g (float[2, 2, 2] x) => (float[2, 2, 2] y) { a = mine.Twice (x)  y = Softmax (a) }
    """)
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    with PluginRefRunner(model, references={"Twice": lambda attrs, x: [2 * x]}) as runner:
        found = runner.infer({"x": x})["y"]
    wanted = np.exp(2 * x) / np.exp(2 * x).sum(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_function_computes_in_the_opset_that_it_imports() -> None:
    model = parse_model("""
    <ir_version: 8, opset_import: ["" : 13, "mine" : 1]>
    g (float[2, 2, 2] x) => (float[2, 2, 2] old, float[2, 2, 2] new) {
        old = mine.Old (x)
        new = Softmax (x)
    }
    <domain: "mine", opset_import: ["" : 12]>
    Old (x) => (y) { y = Softmax (x) }
    """)
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    found = evaluated(model, x=x)
    np.testing.assert_allclose(found["old"].sum(axis=(1, 2)), 1, rtol=1e-6)
    np.testing.assert_allclose(found["new"].sum(axis=2), 1, rtol=1e-6)


FAILING = "shape = Constant <value_ints = [7]> () z = Reshape (a, shape)"


@pytest.mark.parametrize(
    "body",
    [
        f"g (float[2, 3] x, bool c) => (float[n] y) {{ a = Relu (x) {FAILING} y = Identity (z) }}",
        "g (float[2, 3] x, bool c) => (float[n] y) { a = Relu (x) y = If (c) <then_branch = t () =>"
        f" (float[n] z) {{ {FAILING} }}, else_branch = e () => (float[n] z) {{ {FAILING} }}> }}",
        "g (float[2, 3] x, bool c) => (float[n] y) { y = mine.Inner (x) }"
        ' <domain: "mine", opset_import: ["" : 15]>'
        f" Inner (x) => (y) {{ a = Relu (x) {FAILING} y = Identity (z) }}",
    ],
    ids=["graph", "subgraph", "function"],
)
def test_errors_name_the_node_its_operator_and_its_inputs(body: str) -> None:
    model = parse_model(f'<ir_version: 8, opset_import: ["" : 15, "mine" : 1]> {body}')
    feed = {"x": np.zeros((2, 3), np.float32), "c": np.array(True)}
    with pytest.raises(BackendError) as caught:
        evaluated(model, **feed)
    said = str(caught.value)
    call = "y/" if "Inner" in body else ""  # The node is named with the call that it belongs to.
    node = f"node that computes '{call}z' (Reshape, opset 15)"
    assert f"{node} on {call}a float32[2,3], {call}shape int64[1]" in said
    assert said.count("node") == 1


def test_errors_name_the_node_that_has_no_implementation() -> None:
    model = parse_model("""
    <ir_version: 8, opset_import: ["" : 15, "mine" : 1]>
    g (float[2] x) => (float[2] y) { y = mine.Unheard (x) }
    """)
    model.graph.node[0].name = "the_node"
    with pytest.raises(BackendError, match=r"node 'the_node' \(mine.Unheard, opset 1\)"):
        evaluated(model, x=np.zeros(2, np.float32))


def test_errors_say_what_an_implementation_raised_and_not_that_types_are_wrong() -> None:
    model = parse_model("""
    <ir_version: 8, opset_import: ["" : 15]>
    g (float[n] x, float[m] z) => (float[k] y) { y = Add (x, z) }
    """)
    with pytest.raises(BackendError, match="ValueError: operands could not be broadcast"):
        evaluated(model, x=np.zeros(2, np.float32), z=np.zeros(3, np.float32))


@pytest.mark.parametrize(
    "text, said",
    [
        ("y = RandomNormalLike (x)", "RandomNormalLike (opset 6) uses random numbers"),
        ("y = Dropout (x)", "Dropout (opset 6) is computed in inference mode"),
        ("y = Dropout <is_test = 1> (x)", ""),
    ],
)
def test_what_cannot_agree_is_said(
    text: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(G_LOGGER, "_logged_once", set())
    model = parse_model(f"""
    <ir_version: 3, opset_import: ["" : 6]> g (float[2] x) => (float[2] y) {{ {text} }}
    """)
    evaluated(model, x=np.zeros(2, np.float32))
    warnings = [line for line in capsys.readouterr().out.splitlines() if line.startswith("[W]")]
    assert len(warnings) == bool(said)
    assert said in "".join(warnings)


def test_an_optional_value_is_what_it_holds() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
        held (float[2] x) => (float[2] y, bool is) {
            held = Optional(x)
            is = OptionalHasElement(held)
            got = OptionalGetElement(held)
            y = Neg(got)
        }"""
    made = assert_as_in_onnx_runtime(text, x=np.float32([1, 2]))
    assert made["is"]


def test_an_omitted_output_is_no_input_of_a_later_node() -> None:
    model = parse_model("""<ir_version: 8, opset_import: ["": 18]>
        m (float[2,1,4] x, float most) => (float[1,1,3] h, float[2,1,4] y)
        { "", h = LSTM<hidden_size = 3>(x, w, r) y = Clip(x, "", most) }""")
    for name, size in (("w", 4), ("r", 3)):
        weights = np.linspace(-1, 1, 12 * size, dtype=np.float32).reshape(1, 12, size)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    x = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 1, 4)
    made = assert_as_in_onnx_runtime(model, x=x, most=np.array(0.5, np.float32))
    assert made["y"].min() == -2
