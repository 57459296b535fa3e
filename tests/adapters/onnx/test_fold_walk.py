"""Folding in one walk: chains of any length, graphs inside, and nothing that is not true."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, parser

from polygraphy.adapters.onnx.fold import folding, walk
from polygraphy.adapters.onnx.fold.folding import fold_constants
from tests.adapters.onnx.running import alike, copied, run
from tests.support import models
from tests.support.examples import scaled

BLOCK = """s{i} = Shape(t{i})  d{i} = Gather(s{i}, zero)  m{i} = Mul(d{i}, two)  q{i} = Div(m{i}, two)
u{i} = Unsqueeze(q{i}, axes)  c{i} = Concat<axis=0>(u{i}, rest)  r{i} = Reshape(t{i}, c{i})
t{j} = {last}(r{i})"""
WEIGHTS = "int64 zero = {0}, int64 two = {2}, int64[1] axes = {0}, int64[1] rest = {-1}"


def parsed(body: str, header: str = "float[4,6] x", weights: str = WEIGHTS) -> onnx.ModelProto:
    inner = f"<{weights}>" if weights else ""
    text = f'<ir_version: 8, opset_import: ["": 17]> m ({header}) => (float[?,?] y) {inner} {{ {body} }}'
    return parser.parse_model(text)


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def blocks(count: int) -> onnx.ModelProto:
    """Return a model of blocks in which each computes shapes from the result of the one before."""
    bodies = [
        BLOCK.format(i=i, j=i + 1, last="Relu" if i % 2 else "Abs").replace(f"t{count} ", "y ")
        for i in range(count)
    ]
    return parsed("\n".join(bodies).replace("t0", "x"))


def test_a_chain_is_folded_however_long_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    whole = folding.inferred_value_infos
    monkeypatch.setattr(
        folding, "inferred_value_infos", lambda *a, **k: calls.append(a) or whole(*a, **k)
    )
    made = fold_constants(blocks(120))
    assert ops(made) == ["Reshape", "Abs", "Reshape", "Relu"] * 60
    assert len(calls) == 1, "shapes of the whole model are inferred once"


def test_each_node_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    rule = walk.made_elements

    def counted(node: onnx.NodeProto, *given: Any) -> Any:
        seen.append(node.output[0])
        return rule(node, *given)

    monkeypatch.setattr(walk, "made_elements", counted)
    model = blocks(30)
    fold_constants(model)
    assert sorted(seen) == sorted(node.output[0] for node in model.graph.node)


def test_passes_are_bounded_for_those_who_bound_them() -> None:
    left = [len(fold_constants(blocks(30), num_passes=count).graph.node) for count in (0, 1, 2)]
    assert left[0] == 240 > left[1] > left[2] > len(fold_constants(blocks(30)).graph.node)


FLOATS = """s = Shape(x)  f = Cast<to=1>(s)  h = Mul(f, half)  k = Floor(h)  i = Cast<to=7>(k)
n = ReduceSum<keepdims=1>(i)  b = Concat<axis=0>(n, rest)  r = Expand(one, b)  e = Shape(r)
g = Cast<to=1>(e)  w = ReduceSum<keepdims=0>(g)  y = Mul(x, w)"""


def test_what_takes_floats_to_compute_is_known_in_time() -> None:
    model = parsed(
        FLOATS, weights="float half = {0.5}, int64[1] rest = {3}, float[1,1] one = {1.0}"
    )
    made = fold_constants(copied(model))
    assert ops(made) == ["Mul"]
    x = np.ones((4, 6), np.float32)
    assert alike(run(model, x=x), run(made, x=x))


def test_expand_as_exporters_write_it() -> None:
    body = """s = Shape(x)  n = Gather(s, first)  t = Concat<axis=0>(n, three)
    l = Shape(t)  ones = ConstantOfShape<value=int64[1] {1}>(l)  minus = Mul(ones, neg)
    e = Equal(t, minus)  w = Where(e, ones, t)  v = Gather(w, second)  z = Cast<to=1>(v)
    y = Mul(x, z)"""
    weights = "int64[1] first = {0}, int64[1] second = {1}, int64[1] three = {3}, int64 neg = {-1}"
    model = parsed(body, "float[N,6] x", weights)
    made = fold_constants(copied(model))
    assert ops(made) == ["Mul"], "a dimension is never -1"
    x = np.ones((5, 6), np.float32)
    assert alike(run(model, x=x), run(made, x=x))


BRANCHES = """s = Shape(x)  d = Gather(s, zero)  c = Equal(d, two)
h = If(flag) <then_branch = t () => (float[?,?] p) {
    a = Relu(x)  b = Shape(a)  e = Gather(b, zero)  g = Equal(e, two)
    p = If(g) <then_branch = tt () => (float[?,?] i) { i = Neg(a) },
               else_branch = te () => (float[?,?] i) { i = Abs(a) }> },
  else_branch = f () => (float[?,?] p) { p = Neg(x) }>
k = Shape(h)  l = Gather(k, zero)  o = Equal(l, two)
y = If(o) <then_branch = yt () => (float[?,?] q) { q = Neg(h) },
           else_branch = yf () => (float[?,?] q) { q = Abs(h) }>"""


def test_graphs_inside_are_walked_over_and_say_what_comes_out() -> None:
    model = parsed(BRANCHES, "float[4,6] x, bool flag")
    made = fold_constants(copied(model))
    assert ops(made) == ["If", "Abs"], "both branches make four rows"
    then = made.graph.node[0].attribute[0].g
    assert [node.op_type for node in then.node] == ["Relu", "Abs"]
    x = np.ones((4, 6), np.float32)
    for flag in (True, False):
        feed = {"x": x, "flag": np.array(flag)}
        assert alike(run(model, **feed), run(made, **feed))


def test_what_a_loop_carries_may_change() -> None:
    body = """y = Loop(trips, yes, x) <body = b (int64 i, bool c, float[?,?] a) => (bool o, float[?,?] n) {
    o = Identity(c)  n = Concat<axis=0>(a, a) }>"""
    tail = """  s = Shape(z)  f = Cast<to=1>(s)  m = ReduceSum<keepdims=0>(f)  y = Mul(z, m)"""
    model = parsed(
        body.replace("y = Loop", "z = Loop") + tail,
        weights="int64 trips = {2}, bool yes = {1}",
    )
    made = fold_constants(copied(model))
    x = np.ones((4, 6), np.float32)
    assert alike(run(model, x=x), run(made, x=x))


def test_room_for_constants_is_one_for_all_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polygraphy.config.EXPANSION_LIMIT_MB", 0.1)
    branch = "{{ b = ConstantOfShape(large)  {0} = ReduceSum<keepdims=0>(b) }}"
    body = " ".join(f"""h{i} = If(flag) <then_branch = t{i} () => (float p) {branch.format('p')},
        else_branch = e{i} () => (float q) {branch.format('q')}>""" for i in range(2))
    text = body + " k = Add(h0, h1)  y = Mul(x, k)"
    model = parsed(text, "float[4,6] x, bool flag", "int64[1] large = {20000}")
    made = fold_constants(copied(model))
    inside = [
        [node.op_type for node in attribute.g.node]
        for node in made.graph.node
        for attribute in node.attribute
    ]
    assert inside == [[], ["ConstantOfShape", "ReduceSum"]] + [["ConstantOfShape", "ReduceSum"]] * 2


class Random:
    """Draws graphs that compute shapes; each operator is applied to tensors that it fits, at the
    sizes of one example of the inputs.
    """

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray[Any, Any]] = {}
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.lists: dict[str, np.ndarray[Any, Any]] = {}

    def draw(self, values: Any) -> Any:
        return self.data.draw(st.sampled_from(sorted(values)))

    def constant(self, *values: int) -> str:
        name = f"k{len(self.weights)}"
        self.weights[name] = np.array(values)
        return name

    def add(self, op: str, inputs: list[str], made: Any, **attributes: Any) -> None:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        made = np.asarray(made)
        (self.lists if made.dtype == np.int64 else self.arrays)[name] = made

    def step(self) -> None:
        x = self.draw(self.arrays)
        array = self.arrays[x]
        kind = self.data.draw(st.sampled_from(STEPS))
        if kind == "Shape":
            self.add("Shape", [x], np.array(array.shape, np.int64))
        elif kind == "Relu":
            self.add("Relu", [x], np.maximum(array, 0))
        elif kind == "Flat":
            self.add("Reshape", [x, self.constant(-1, 1)], array.reshape(-1, 1))
        elif kind == "Transpose":
            self.add("Transpose", [x], array.T)
        elif kind == "Concat":
            self.add("Concat", [x, x], np.concatenate([array, array]), axis=0)
        elif self.lists:
            self.list_step(kind, x)

    def list_step(self, kind: str, x: str) -> None:
        array = self.arrays[x]
        one, other = self.draw(self.lists), self.draw(self.lists)
        left, right = self.lists[one], self.lists[other]
        broadcasts = (
            left.size and right.size and (1 in (left.size, right.size) or left.size == right.size)
        )
        if kind == "Gather" and left.size:
            index = self.data.draw(st.integers(-left.size, left.size - 1))
            self.add("Gather", [one, self.constant(index)], left[[index]])
        elif kind == "Slice":
            start, end = (self.data.draw(st.integers(-3, 3)) for _ in range(2))
            names = [self.constant(start), self.constant(end)]
            self.add("Slice", [one, *names], left[start:end])
        elif kind == "Join" and left.size + right.size < 5:
            self.add("Concat", [one, other], np.concatenate([left, right]), axis=0)
        elif kind == "Product":
            axes = self.constant(0)
            self.add("ReduceSum", [one, axes], left.sum(keepdims=True).astype(np.int64))
        elif kind in ("Add", "Sub", "Mul", "Max") and broadcasts:
            made = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum}[kind]
            self.add(kind, [one, other], made(left, right))
        elif kind == "Half":
            self.add("Div", [one, self.constant(2)], (left / 2).astype(np.int64))
        elif kind == "Where" and broadcasts:
            name = f"t{len(self.nodes)}"
            self.nodes.append(helper.make_node("Equal", [one, other], [name]))
            self.add("Where", [name, one, other], np.where(left == right, left, right))
        elif kind == "Reshape" and left.size < 4 and left.prod() == array.size and (left > 0).all():
            self.add("Reshape", [x, one], array.reshape(left))
        elif kind == "Partly" and 0 < left.size < 3 and (left > 0).all():
            if array.size % left.prod() == 0 and array.size:
                target = f"t{len(self.nodes)}"
                minus = self.constant(-1)
                self.nodes.append(helper.make_node("Concat", [one, minus], [target], axis=0))
                self.add("Reshape", [x, target], array.reshape([*left, -1]))
        elif kind == "Expand" and left.size and (left > 0).all() and left.prod() < 100:
            self.add("Expand", [self.constant_array(), one], np.ones(left, np.float32))

    def constant_array(self) -> str:
        self.weights.setdefault("one", np.ones(1, np.float32))
        return "one"


STEPS = (
    "Shape", "Relu", "Flat", "Transpose", "Concat", "Gather", "Slice", "Join", "Product", "Add",
    "Sub", "Mul", "Max", "Half", "Where", "Reshape", "Partly", "Expand",
)  # fmt: skip


@settings(max_examples=scaled(150), deadline=None)
@given(data=st.data())
def test_random_graphs_compute_the_same_at_every_shape(data: st.DataObject) -> None:
    """Whatever is folded where dimensions have no numbers, or only some, is right for each."""
    drawn = Random(data)
    stated = data.draw(st.lists(st.sampled_from(["N", "M", "?", 1, 2, 3]), min_size=1, max_size=3))
    shape = [dim if isinstance(dim, int) else 4 for dim in stated]
    drawn.arrays["x"] = np.zeros(shape, np.float32)
    for _ in range(data.draw(st.integers(4, 18))):
        drawn.step()
    outputs = [name for name in {**drawn.arrays, **drawn.lists} if name != "x"]
    if not outputs:
        return
    graph = helper.make_graph(
        drawn.nodes,
        "random",
        [models.value("x", stated)],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in drawn.weights.items()],
    )
    for name, value in zip(outputs, graph.output):
        kind = onnx.TensorProto.INT64 if name in drawn.lists else onnx.TensorProto.FLOAT
        value.type.tensor_type.elem_type = kind
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    made = fold_constants(copied(model))
    for n, m, further in ((4, 4, (4, 4, 4)), (1, 1, (1, 1, 1)), (2, 3, (5, 6, 7))):
        lengths = {"N": n, "M": m}  # What is no word need not be the same everywhere.
        sizes = [lengths.get(str(dim), further[i]) for i, dim in enumerate(stated)]
        x = np.ones([dim if isinstance(dim, int) else sizes[i] for i, dim in enumerate(stated)])
        x = x.astype(np.float32)
        try:
            expected = run(model, x=x)
        except Exception:  # The graph does not fit such an input.
            continue
        assert alike(expected, run(made, x=x))
