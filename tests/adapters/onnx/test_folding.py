"""Folding constants, and the shapes that are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper, parser

from polygraphy.adapters.onnx.fold import folding
from polygraphy.adapters.onnx.fold.folding import fold_constants
from polygraphy.adapters.onnx.fold.shape_values import Elements, output_elements
from polygraphy.adapters.onnx.graph.shapes import infer_value_infos
from polygraphy.binding import bind
from polygraphy.domain.errors import BackendError, UsageError
from polygraphy.ports.editing import evaluate_constants
from tests.adapters.onnx.running import alike, copied, run
from tests.support import classifier_files, models
from tests.support.examples import scaled

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def parsed(
    body: str, output: str = "float[?,?] y", weights: str = "", ir: int = 8
) -> onnx.ModelProto:
    inner = f"<{weights}>" if weights else ""
    text = f'<ir_version: {ir}, opset_import: ["": 17]> m (float[N,3] x) => ({output}) {inner} {{ {body} }}'
    return parser.parse_model(text)


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def folded(model: onnx.ModelProto, **options: Any) -> onnx.ModelProto:
    made = fold_constants(copied(model), **options)
    onnx.checker.check_model(made)
    assert alike(run(model, x=X), run(made, x=X), rtol=1e-6)
    return made


SHAPE = """s = Shape(x)  i = Constant<value_int=1>()  w = Gather(s, i)  a = Constant<value_ints=[0]>()
w1 = Unsqueeze(w, a)  b = Constant<value_ints=[-1]>()  t = Concat<axis=0>(b, w1)  r = Reshape(x, t)
y = Relu(r)"""


def test_what_is_known_of_a_dynamic_shape_is_folded() -> None:
    model = parsed(SHAPE)
    assert ops(folded(model)) == ["Reshape", "Relu"]
    assert ops(folded(model, fold_shapes=False))[:3] == ["Shape", "Gather", "Unsqueeze"]


def test_shapes_of_tensors_inside_are_inferred_by_default() -> None:
    body = SHAPE.replace("Shape(x)", "Shape(h)").replace("s =", "h = Abs(x)  s =")
    assert ops(folded(parsed(body))) == ["Reshape", "Relu"]
    assert "Shape" in ops(folded(parsed(body), do_shape_inference=False))


def test_a_second_pass_finds_what_the_first_made_known() -> None:
    body = """z = Constant<value_ints=[2, 3]>()  o = Constant<value_ints=[1, 1]>()
    m = Mul(z, o)  k = Sub(m, o)  q = Add(k, o)  r = Reshape(x, q)  s = Shape(r)
    f = Cast<to=1>(s)  n = ReduceSum<keepdims=0>(f)  y = Mul(x, n)"""
    assert ops(folded(parsed(body))) == ["Mul"]
    assert len(ops(folded(parsed(body), num_passes=1))) >= 1


@pytest.mark.parametrize(
    ("body", "count"),
    [("y = Relu(x)", 1), ("o = Constant<value_floats=[1.0]>()  y = Add(x, o)", 1)],
)
def test_shapes_are_inferred_anew_only_where_something_changed(
    body: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []

    def counted(model: onnx.ModelProto, **options: bool) -> Any:
        calls.append(model)
        return infer_value_infos(model, **options)

    monkeypatch.setattr(folding, "infer_value_infos", counted)
    fold_constants(parsed(body))
    assert len(calls) == count


def test_constant_nodes_become_weights_and_everything_is_computed_at_once() -> None:
    class Counting:
        calls = 0

        def __call__(self, model: Any, outputs: Sequence[str]) -> dict[str, Any]:
            from onnx.reference import ReferenceEvaluator

            self.calls += 1
            return dict(zip(outputs, ReferenceEvaluator(model).run(list(outputs), {})))

    body = """a = Constant<value_floats=[1.0, 2.0, 3.0]>()  b = Exp(a)  c = Sqrt(a)
    d = Add(x, b)  e = Mul(d, c)  y = Sub(e, a)"""
    with bind(evaluate_constants, Counting()) as evaluator:
        made = fold_constants(parsed(body))
    assert ops(made) == ["Add", "Mul", "Sub"] and evaluator.calls == 1
    assert {tensor.name for tensor in made.graph.initializer} == {"a", "b", "c"}


def test_random_numbers_and_quantization_stay() -> None:
    body = """r = RandomNormal<shape=[1]>()  k = Constant<value_float=0.1>()
    z = Constant<value=int8 {0}>()  w = Constant<value_floats=[1.0, 2.0, 3.0]>()
    q = QuantizeLinear(w, k, z)  d = DequantizeLinear(q, k, z)  a = Add(x, d)
    o = Mul(r, k)  n = Sub(o, o)  y = Add(a, n)"""
    assert ops(folded(parsed(body))) == [
        "RandomNormal", "QuantizeLinear", "DequantizeLinear", "Add", "Mul", "Sub", "Add",
    ]  # fmt: skip


def test_large_values_are_left_as_they_are_computed() -> None:
    body = """s = Constant<value_ints=[100, 3]>()  big = ConstantOfShape<value=float[1] {1.5}>(s)
    small = ReduceMax<axes=[0], keepdims=0>(big)  a = Add(x, small)
    part = ReduceMax<axes=[0], keepdims=1>(big)  cut = Expand(part, s)  m = ReduceMax<axes=[0]>(cut)
    y = Add(a, m)"""
    assert ops(folded(parsed(body), size_threshold=1000)) == ["Add", "Add"]
    outputs = "float[?,?] y, float[100,3] big"
    assert "ConstantOfShape" in ops(folded(parsed(body, outputs), size_threshold=1000))
    assert "ConstantOfShape" not in ops(folded(parsed(body, outputs)))


def refusing(model: Any, outputs: Sequence[str]) -> dict[str, Any]:
    """Compute everything but what `Tan` is part of."""
    from onnx.reference import ReferenceEvaluator

    if any(node.op_type == "Tan" for node in model.graph.node):
        raise BackendError("there is no Tan")
    return dict(zip(outputs, ReferenceEvaluator(model).run(list(outputs), {})))


TAN = """a = Constant<value_floats=[1.0, 2.0, 3.0]>()  e = Exp(a)  t = Tan(e)  s = Sqrt(a)
b = Add(x, t)  y = Add(b, s)"""


@pytest.mark.parametrize(
    "partitioning, left",
    [
        (None, ["Constant", "Exp", "Tan", "Sqrt", "Add", "Add"]),
        ("basic", ["Exp", "Tan", "Add", "Add"]),
        ("recursive", ["Tan", "Add", "Add"]),
    ],
)
def test_partitioning_isolates_what_cannot_be_computed(
    partitioning: str | None, left: list[str]
) -> None:
    with bind(evaluate_constants, refusing):
        made = folded(parsed(TAN), partitioning=partitioning)
    assert [op for op in ops(made) if op != "Constant"] == [op for op in left if op != "Constant"]


def test_a_failure_is_an_error_only_when_asked_for() -> None:
    with bind(evaluate_constants, refusing):
        with pytest.raises(BackendError, match="no Tan"):
            fold_constants(parsed(TAN), error_ok=False)
        fold_constants(parsed(TAN))
    with pytest.raises(UsageError, match="halves"):
        fold_constants(parsed(TAN), partitioning="halves")


def test_sub_graphs_are_folded_with_constants_from_outside() -> None:
    body = """k = Constant<value_floats=[1.0, 2.0, 3.0]>()  e = Exp(k)  z = Constant<value_float=0.0>()
    m = ReduceMax<keepdims=0>(x)  c = Greater(m, z)
    y = If(c) <then_branch = t () => (float[?,?] p) { n = Neg(e)  o = Abs(n)  p = Add(x, o) },
    else_branch = f () => (float[?,?] q) { q = Sub(x, e) }>"""
    made = folded(parsed(body))
    branch = next(node for node in made.graph.node if node.op_type == "If").attribute[0].g
    assert [node.op_type for node in branch.node] == ["Add"]


def test_the_branch_that_is_taken_takes_the_place_of_its_if() -> None:
    body = """a = Constant<value_float=1.0>()  b = Constant<value_float=2.0>()  c = Less(a, b)
    h = If(c) <then_branch = t () => (float[?,?] p) { u = Neg(x)  p = Add(u, a) },
    else_branch = f () => (float[?,?] p) { u = Abs(x)  p = Identity(u) }>
    g = If(c) <then_branch = t () => (float[?,?] p) { p = Identity(h) },
    else_branch = f () => (float[?,?] p) { p = Identity(x) }>
    y = Relu(g)"""
    assert ops(folded(parsed(body))) == ["Neg", "Add", "Identity", "Relu"]


def test_models_of_old_versions_list_new_weights_among_the_inputs() -> None:
    made = folded(parsed("a = Constant<value_float=2.0>()  e = Exp(a)  y = Mul(x, e)", ir=3))
    assert [value.name for value in made.graph.input] == ["x", "e"]


def test_a_given_model_is_changed_when_asked_for_only() -> None:
    model = classifier_files.classifier()
    before = copied(model)
    made = fold_constants(model)
    assert model == before and len(made.graph.node) == len(model.graph.node) - 1
    assert fold_constants(model, copy=False) is model


def test_an_input_with_a_default_is_no_constant() -> None:
    model = models.make(
        "m",
        [helper.make_node("Exp", ["w"], ["e"]), helper.make_node("Add", ["x", "e"], ["y"])],
        [models.value("x", ("N", 3)), models.value("w", (3,))],
        [models.value("y", ("N", 3))],
        weights={"w": np.ones(3, np.float32)},
    )
    assert ops(folded(model)) == ["Exp", "Add"]


dims = st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=1, max_size=5)
numbers = st.integers(-6, 6)


@settings(max_examples=scaled(60), deadline=None)
@given(shape=dims, start=numbers, end=numbers, step=numbers.filter(bool), data=st.data())
def test_known_elements_are_those_that_are_computed(
    shape: list[int | None], start: int, end: int, step: int, data: st.DataObject
) -> None:
    """Whatever is said to be known of a shape is what the operators make of any such shape."""
    from onnx.reference import ReferenceEvaluator

    factor = data.draw(st.integers(-3, 3))
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "start", "end", "axes", "step"], ["t"]),
        helper.make_node("Mul", ["t", "factor"], ["m"]),
        helper.make_node("Concat", ["m", "s"], ["c"], axis=0),
        helper.make_node("Gather", ["c", "last"], ["g"]),
        helper.make_node("Size", ["x"], ["n"]),
        helper.make_node("Sub", ["n", "g"], ["d"]),
    ]
    constants = {
        "start": np.array([start]), "end": np.array([end]), "axes": np.array([0]),
        "step": np.array([step]), "factor": np.array([factor]), "last": np.array(-1),
    }  # fmt: skip
    graph = helper.make_graph(nodes, "g", [models.value("x", [None] * len(shape))], [])
    known = {name: Elements.of(array) for name, array in constants.items()}
    found = {}
    for node in nodes:
        made = output_elements(node, {"x": shape}.get, known.get)
        if made is not None:
            found[node.output[0]] = known[node.output[0]] = made
    concrete = [dim if dim is not None else data.draw(st.integers(1, 9)) for dim in shape]
    feed = {"x": np.zeros(concrete, np.float32), **constants}
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in found)
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    values = dict(zip(found, ReferenceEvaluator(model).run(None, feed)))
    assert found.keys() >= {"s", "t", "n"}
    assert not found["t"].values or found.keys() == {"s", "t", "m", "c", "g", "n", "d"}
    for name, elements in found.items():
        assert values[name].ndim == (0 if elements.is_scalar else 1)
        for known, computed in zip(elements.values, values[name].reshape(-1).tolist(), strict=True):
            assert known is None or known == computed


@given(st.lists(st.sampled_from(["add", "relu", ""]), min_size=2, max_size=4), st.booleans())
def test_nodes_of_branches_that_have_the_same_names_get_others(
    names: list[str], around: bool
) -> None:
    nodes, made = [], "x"
    for index, name in enumerate(names):
        inner = helper.make_node("Abs", [made], ["r"], name=name)
        value = helper.make_tensor_value_info("r", TensorProto.FLOAT, [2])
        branch = helper.make_graph([inner], "b", [], [value])
        made = f"y{index}"
        nodes.append(
            helper.make_node(
                "If", ["c"], [made], name=f"if{index}", then_branch=branch, else_branch=branch
            )
        )
    nodes.append(helper.make_node("Neg", [made], ["out"], name="add" if around else "neg"))
    x, out = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("x", "out"))
    condition = numpy_helper.from_array(np.array(True), "c")
    graph = helper.make_graph(nodes, "g", [x], [out], [condition])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feed = {"x": np.array([-1, 2], np.float32)}
    before = run(model, **feed)
    folded = fold_constants(model)
    assert [node.op_type for node in folded.graph.node] == ["Abs"] * len(names) + ["Neg"]
    given_names = [node.name for node in folded.graph.node if node.name]
    assert len(set(given_names)) == len(given_names) == sum(map(bool, names)) + 1
    assert alike(run(folded, **feed), before)
