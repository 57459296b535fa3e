"""Folding in one walk: chains of any length, graphs inside, and nothing that is not true."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import parser

from polygraphy.adapters.onnx.fold import folding, walk
from polygraphy.adapters.onnx.fold.folding import fold_constants
from tests.adapters.onnx.running import alike, copied, run
from tests.adapters.onnx.shape_graphs import compute_the_same, random_model
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
    whole = folding.infer_value_infos
    monkeypatch.setattr(
        folding, "infer_value_infos", lambda *a, **k: calls.append(a) or whole(*a, **k)
    )
    made = fold_constants(blocks(120))
    assert ops(made) == ["Reshape", "Abs", "Reshape", "Relu"] * 60
    assert len(calls) == 1, "shapes of the whole model are inferred once"


def test_each_node_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    rule = walk.output_elements

    def counted(node: onnx.NodeProto, *given: Any) -> Any:
        seen.append(node.output[0])
        return rule(node, *given)

    monkeypatch.setattr(walk, "output_elements", counted)
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


@settings(max_examples=scaled(150), deadline=None)
@given(data=st.data())
def test_random_graphs_compute_the_same_at_every_shape(data: st.DataObject) -> None:
    """Whatever is folded where dimensions have no numbers, or only some, is right for each."""
    model, feeds = random_model(data)
    made = fold_constants(copied(model))
    compute_the_same(model, made, feeds)
