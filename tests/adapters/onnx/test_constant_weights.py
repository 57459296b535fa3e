"""A model is the same to every edit and every look at it, whether its weights
are initializers or Constant nodes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from polygraphy.adapters.onnx.describe.reading import describe_model
from polygraphy.adapters.onnx.edit.stripping import (
    prunable_axes,
    prune_weights,
    reconstruct_weights,
    restore_weights,
    strip_weights,
    strippable_weights,
)
from polygraphy.backend.onnx import convert_to_bf16, convert_to_fp16, fold_constants
from polygraphy.domain.model import Detail
from polygraphy.domain.model.drawing import draw
from polygraphy.domain.model.statistics import statistics_of
from polygraphy.inspect import inspect_sparsity
from tests.adapters.onnx.running import copied, run

OPS = ("Add", "MatMul", "Mul", "Sub", "Max")
X = np.linspace(-2, 2, 64, dtype=np.float32).reshape(8, 8)


def with_constants(model: onnx.ModelProto, form: str = "value") -> onnx.ModelProto:
    """Return a model in which Constant nodes take the place of its initializers."""
    made = copied(model)
    _replace(made.graph, form)
    return made


def _replace(graph: onnx.GraphProto, form: str) -> None:
    constants = []
    for tensor in graph.initializer:
        array = numpy_helper.to_array(tensor)
        if form == "numbers" and array.dtype == np.float32 and array.ndim == 1:
            made = helper.make_node("Constant", [], [tensor.name], value_floats=array.tolist())
        elif form == "numbers" and array.dtype == np.float32 and array.ndim == 0:
            made = helper.make_node("Constant", [], [tensor.name], value_float=float(array))
        else:
            unnamed = numpy_helper.from_array(array)
            made = helper.make_node("Constant", [], [tensor.name], value=unnamed)
        constants.append(made)
    nodes = [*constants, *graph.node]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.initializer[:], graph.node[:]
    graph.node.extend(copies)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                _replace(attribute.g, form)


@st.composite
def networks(draw_: Any) -> onnx.ModelProto:
    """Return a model of random nodes over square matrices, with an If whose branches have weights
    of their own and read one of the graph around them.
    """
    count = draw_(st.integers(2, 6))
    seed = draw_(st.integers(0, 2**32 - 1))
    scales = draw_(st.lists(st.sampled_from([1e-9, 0.1, 1.0, 9e7]), min_size=count, max_size=count))
    rng = np.random.default_rng(seed)
    nodes, weights, last = [], [], "x"
    for index in range(count):
        shape = draw_(st.sampled_from([(8, 8), (8,), ()]))
        op = draw_(st.sampled_from(OPS if shape == (8, 8) else ("Add", "Mul")))
        array = (rng.standard_normal(shape) * scales[index]).astype(np.float32)
        weights.append(numpy_helper.from_array(array, f"w{index}"))
        # Some weights have a second reader.
        second = draw_(st.integers(0, index))
        nodes.append(helper.make_node(op, [last, f"w{index}"], [f"a{index}"], f"n{index}"))
        nodes.append(
            helper.make_node("Add", [f"a{index}", f"w{second}"], [f"b{index}"], f"m{index}")
        )
        nodes.append(helper.make_node("Tanh", [f"b{index}"], [f"c{index}"], f"t{index}"))
        last = f"c{index}"
    branches = {}
    for name in ("then", "else"):
        own = numpy_helper.from_array(rng.standard_normal((8, 8)).astype(np.float32), f"{name}_w")
        inner = [
            helper.make_node("MatMul", [last, f"{name}_w"], [f"{name}_a"], f"{name}_n"),
            helper.make_node("Add", [f"{name}_a", "w0"], [f"{name}_y"], f"{name}_m"),
        ]
        result = [helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, [8, 8])]
        branches[f"{name}_branch"] = helper.make_graph(inner, name, [], result, [own])
    nodes.append(helper.make_node("If", ["c"], ["y"], "choice", **branches))
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 8]),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 8])],
        weights,
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model, full_check=True)
    return model


FORMS = st.sampled_from(["value", "numbers"])


def results(model: onnx.ModelProto) -> list[dict[str, Any]]:
    onnx.checker.check_model(model, full_check=True)
    return [run(model, x=X, c=np.array(choice)) for choice in (True, False)]


def same(one: onnx.ModelProto, other: onnx.ModelProto) -> bool:
    return all(
        a.keys() == b.keys() and all(np.array_equal(a[name], b[name], equal_nan=True) for name in a)
        for a, b in zip(results(one), results(other))
    )


@given(networks(), FORMS, st.data())
def test_casts_are_alike_wherever_weights_stand(
    model: onnx.ModelProto, form: str, data: Any
) -> None:
    names = [node.name for node in model.graph.node] + ["then_n", "else_m"]
    some = st.lists(st.sampled_from(names), max_size=3)
    ops = st.lists(st.sampled_from(sorted({n.op_type for n in model.graph.node})), max_size=2)
    options = {
        "keep_nodes": data.draw(some),
        "keep_ops": data.draw(ops),
        "only_nodes": data.draw(some),
        "only_ops": data.draw(ops),
    }
    convert = data.draw(st.sampled_from([convert_to_fp16, convert_to_bf16]))
    if convert is convert_to_bf16:  # ONNX Runtime cannot run most of it: the weights are compared.
        one = convert(copied(model), **options)
        other = convert(with_constants(model, form), **options)
        assert stored(one) == stored(other)
        return
    one = convert(copied(model), **options)
    other = convert(with_constants(model, form), **options)
    assert stored(one) == stored(other)
    assert same(one, other)


def stored(model: onnx.ModelProto) -> dict[str, tuple[int, bytes]]:
    """Return type and elements of every weight, of both forms, by name."""
    found: dict[str, tuple[int, bytes]] = {}

    def walk(graph: onnx.GraphProto) -> None:
        tensors = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            for attribute in node.attribute:
                if node.op_type == "Constant":
                    value = helper.get_attribute_value(attribute)
                    tensors[node.output[0]] = (
                        value
                        if isinstance(value, TensorProto)
                        else numpy_helper.from_array(np.array(value, np.float32))
                    )
                elif attribute.type == AttributeProto.GRAPH:
                    walk(attribute.g)
        for name, tensor in tensors.items():
            found[name] = tensor.data_type, numpy_helper.to_array(tensor).tobytes()

    walk(model.graph)
    return found


@given(networks(), FORMS)
def test_stripping_is_alike_wherever_weights_stand(model: onnx.ModelProto, form: str) -> None:
    other = with_constants(model, form)
    assert strippable_weights(model) == strippable_weights(other)
    assert prunable_axes(model) == prunable_axes(other)
    bare, other_bare = strip_weights(copied(model)), strip_weights(copied(other))
    assert stripped(bare) == stripped(other_bare)
    assert same(restore_weights(other_bare, other), model)
    assert same(reconstruct_weights(bare), reconstruct_weights(other_bare))
    assert same(prune_weights(copied(model)), prune_weights(copied(other)))
    assert same(fold_constants(copied(other)), model)


def stripped(model: onnx.ModelProto) -> dict[str, str]:
    return {t.name: t.doc_string for t in model.graph.initializer if t.doc_string}


@given(networks(), FORMS)
def test_statistics_and_page_are_alike_wherever_weights_stand(
    model: onnx.ModelProto, form: str
) -> None:
    one, other = (
        describe_model(onnx.shape_inference.infer_shapes(each), "", Detail(layers=True, attrs=True))
        for each in (model, with_constants(model, form))
    )
    mine, theirs = statistics_of(one), statistics_of(other)
    assert mine.parameters == theirs.parameters > 0
    assert mine.weight_bytes == theirs.weight_bytes > 0
    assert (mine.macs, mine.activation_peak) == (theirs.macs, theirs.activation_peak)
    assert mine.tensors_unknown == theirs.tensors_unknown
    for left, right in zip(draw(one), draw(other)):
        assert (left.wires, left.layout) == (right.wires, right.layout)
        assert [node.op for node in left.graph.nodes] == [node.op for node in right.graph.nodes]
        weights = (
            {w.name: (w.dtype, w.shape, w.nbytes) for w in g.graph.weights} for g in (left, right)
        )
        assert next(weights) == next(weights)


MODEL = """
<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
m (float[2] x) => (float[2] y)
{
    y = own.Shift(x)
}
<domain: "own", opset_import: ["" : 17]>
Shift (x) => (y)
{
    c = Constant <value = float[2] {9.8e7, 1.96e8}> ()
    d = Constant <value_float = 9.8e6> ()
    a = Div(c, d)
    y = Add(x, a)
}
"""


@pytest.mark.parametrize("options", [{"keep_nodes": ["a"]}, {"keep_ops": ["Div"]}])
def test_a_kept_node_of_a_function_keeps_its_constant(options: dict[str, Any]) -> None:
    model = onnx.parser.parse_model(MODEL)
    x = np.array([8, 16], np.float32)
    assert run(convert_to_fp16(copied(model), **options), x=x)["y"].tolist() == [18, 36]
    # Where they are narrowed, both are clipped.
    assert run(convert_to_fp16(copied(model)), x=x)["y"].tolist() == [9, 17]


def test_only_what_is_narrowed_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    weights = {"huge": 9.8e7, "also": -1e6, "tiny": 1e-9, "kept": 1e8}
    nodes = [helper.make_node("Constant", [], [name], value_float=v) for name, v in weights.items()]
    nodes += [
        helper.make_node("Add", ["x", "tiny"], ["a"], "first"),
        helper.make_node("Add", ["a", "kept"], ["b"], "stays"),
        helper.make_node("Min", ["b", "huge", "also"], ["y"], "last"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", 1, [2])], [value("y", 1, [2])])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    model = convert_to_fp16(model, keep_nodes=["stays"])
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("[W]")]
    assert [line.split("'")[1] for line in said] == ["huge", "also", "tiny"]
    assert all("does not fit" in line and "Min node 'last'" in line for line in said[:2])
    assert "does not fit" not in said[2] and "Add node 'first'" in said[2]
    kinds = {node.output[0]: node.attribute[0] for node in model.graph.node if not node.input}
    assert kinds["kept"].f == np.float32(1e8) and kinds["huge"].t.data_type == TensorProto.FLOAT16


def test_a_branch_that_gives_a_constant_is_clipped_alike() -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    m (float[2] x, bool c) => (float[2] y)
    {
        a = If (c) <then_branch = g1 () => (float[2] t) { t = Constant <value = float[2] {-3e38, 1}> () },
                    else_branch = g2 () => (float[2] e) { e = Identity(x) }>
        y = Max(a, x)
    }
    """
    model = convert_to_fp16(onnx.parser.parse_model(text))
    onnx.checker.check_model(model, full_check=True)
    x = np.array([-1e9, 2], np.float32)
    got = run(model, x=np.clip(x, -65504, None), c=np.array(True))["y"]
    assert got.tolist() == [-65504, 2]


def test_sparsity_of_constants_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    array = np.ones((8, 8), np.float32)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(array)),
            helper.make_node("MatMul", ["x", "w"], ["y"]),
        ],
        "g", [value("x", 1, [8, 8])], [value("y", 1, [8, 8])],
    )  # fmt: skip
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "m.onnx")
    inspect_sparsity(str(tmp_path / "m.onnx"))
    assert "w" in capsys.readouterr().out.split()


@pytest.mark.parametrize("in_constants", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_branches_use_the_weights_around_them(depth: int, in_constants: bool) -> None:
    """A branch may read a weight of any graph around it, sliced or transposed on the way."""
    random = np.random.default_rng(0)
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["a"]),
        helper.make_node("Slice", ["big", "start", "stop"], ["s"]),
        helper.make_node("Add", ["a", "s"], ["y0"]),
    ]
    for level in range(depth):
        inner = helper.make_graph(nodes, f"b{level}", [], [value(f"y{level}", 1, None)])
        branch = {"then_branch": inner, "else_branch": inner}
        nodes = [helper.make_node("If", ["is"], [f"y{level + 1}"], **branch)]
    weights = {
        "w": random.normal(size=(8, 8)).astype(np.float32),
        "big": random.normal(size=(1024, 8)).astype(np.float32),
        "start": np.array([0], np.int64),
        "stop": np.array([8], np.int64),
        "is": np.array(True),
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", 1, [8, 8])],
        [value(f"y{depth}", 1, [8, 8])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = with_constants(model) if in_constants else model
    assert strippable_weights(model) == {"w", "big"}
    stripped = strip_weights(copied(model))
    assert len(stripped.SerializeToString()) < 0.1 * len(model.SerializeToString())
    restored = restore_weights(stripped, model)
    [[before], [after]] = ([*run(each, x=X).values()] for each in (model, restored))
    np.testing.assert_array_equal(before, after)
    assert run(reconstruct_weights(copied(stripped)), x=X)


@pytest.mark.parametrize("in_constants", [False, True])
@pytest.mark.parametrize(("variance", "is_kept"), [(9.8e7, True), (4.0, False)])
def test_a_variance_that_float16_cannot_hold_stays(
    variance: float, is_kept: bool, in_constants: bool
) -> None:
    weights = {
        "scale": np.full(3, 2.0, np.float32),
        "bias": np.ones(3, np.float32),
        "mean": np.zeros(3, np.float32),
        "var": np.full(3, variance, np.float32),
    }
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["r"], name="relu"),
            helper.make_node("BatchNormalization", ["r", *weights], ["y"], name="norm"),
        ],
        "g",
        [value("x", 1, [2, 3, 4])],
        [value("y", 1, [2, 3, 4])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
    model = with_constants(model) if in_constants else model
    x = np.random.default_rng(0).normal(0, 9e3, (2, 3, 4)).astype(np.float32)
    halved = convert_to_fp16(model)
    [[before], [after]] = ([*run(each, x=x).values()] for each in (model, halved))
    np.testing.assert_allclose(after, before, rtol=3e-3, atol=1e-3)
    types = {t.data_type for t in halved.graph.initializer}
    types |= {n.attribute[0].t.data_type for n in halved.graph.node if n.op_type == "Constant"}
    assert types == {TensorProto.FLOAT if is_kept else TensorProto.FLOAT16}


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_weights_of_recurrent_operators_are_left_out(op: str) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> m (float[2,1,3] x) => (float[] y)
        <float[1,2,3] w = {{1,2,3,4,5,6}}, float[1,2,2] r = {{1,2,3,4}}, float[1,4] b = {{1,2,3,4}},
         float[1,1,2] start = {{0,0}}> {{ y = {op}<hidden_size=2>(x, w, r, b, , start) }}"""
    )
    assert strippable_weights(model) == {"w", "r", "b"}
