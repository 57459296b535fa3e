"""A faulty node that changes nothing, behind a node that the reference fuses with it."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.changes.divergence import find_divergences
from polygraphy.binding import bind, resolve
from polygraphy.diagnose import diagnose
from polygraphy.domain.errors import InconclusiveError
from polygraphy.ports.diagnosing import DiagnosisReports
from polygraphy.ports.editing import open_model
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept

SIZE = 6
ZEROS, ONES = np.zeros(SIZE, np.float32), np.ones(SIZE, np.float32)
BIASED = "g = Gemm(x,w0,b)"
ACTIVE = 'g = com.microsoft.FusedGemm<activation="Relu">(x,w0,b)'


def model_of(nodes: str, output: str, **changed: np.ndarray) -> onnx.ModelProto:
    """Return a model with further nodes behind, and random weights unless they are given."""
    tail = f"q = Tanh(g) r = MatMul(q,w1) t = Sin(r) v = MatMul(t,w2) {output} = Tanh(v)"
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        m (float[4,{SIZE}] x) => (float[4,{SIZE}] {output}) {{ {nodes} {tail} }}""")
    random = np.random.default_rng(7)
    weights = {f"w{i}": random.standard_normal((SIZE, SIZE)).astype(np.float32) for i in range(3)}
    weights |= {"b": random.standard_normal(SIZE).astype(np.float32)}
    weights |= {"s": random.uniform(0.5, 2, SIZE).astype(np.float32)}
    weights |= {"shape": np.array([4, SIZE]), "scaled": weights["w0"] * weights["s"]} | changed
    read = {name for node in model.graph.node for name in node.input}
    for name in read & weights.keys():
        model.graph.initializer.append(numpy_helper.from_array(weights[name], name))
    for node in model.graph.node:
        node.name = f"{output}/{node.output[0]}"
    return model


def renamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose computed tensors have other names."""
    computed = {name for node in model.graph.node[:-1] for name in node.output}
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [f"other_{name}" if name in computed else name for name in names]
    return model


@pytest.mark.parametrize(
    ("nodes", "changed", "reference", "named"),
    [
        ("h = MatMul(x,w0) g = Add(h,b)", {"b": ZEROS}, BIASED, ["y/g"]),
        (
            "h = MatMul(x,w0) g = Add(h,b)",
            {"b": ZEROS},
            "p = Gemm(x,w0,b) g = Reshape(p,shape)",
            ["y/g"],
        ),
        ("h = Gemm(x,w0,b) g = Identity(h)", {}, ACTIVE, ["y/g"]),
        (
            "h = MatMul(x,w0) k = Mul(h,s) g = Add(k,b)",
            {"s": ONES, "b": ZEROS},
            "g = Gemm(x,scaled,b)",
            ["y/h", "y/k", "y/g"],
        ),
    ],
    ids=[
        "bias of zeros",
        "reshaped by the reference",
        "Identity in place of Relu",
        "two nodes at once",
    ],
)
def test_a_node_before_faulty_nodes_that_change_nothing_is_not_blamed(
    nodes: str, changed: dict[str, np.ndarray], reference: str, named: list[str]
) -> None:
    kept, feed = Kept(), np.random.default_rng(3).standard_normal((4, SIZE)).astype(np.float32)
    models = model_of(nodes, "y", **changed), renamed(model_of(reference, "z"))
    with bind(Findings, kept):
        try:
            diagnose(models[0], [OnnxrtParty()], [{"x": feed}], models[1])
        except InconclusiveError:
            assert len(named) > 1
    assert [culprit["nodes"] for culprit in kept.culprits] == [named]


def test_an_identity_behind_a_node_with_the_operator_of_the_reference_is_not_suspected() -> None:
    feed = {"x": np.random.default_rng(3).standard_normal((4, SIZE)).astype(np.float32)}
    texts = "h = MatMul(x,scaled) g = Identity(h)", "g = MatMul(x,w0)"
    model, reference = open_model(model_of(texts[0], "y")), renamed(model_of(texts[1], "z"))
    party = OnnxrtParty()
    case = Case(model, "m.onnx", [party], resolve(DiagnosisReports))
    goal = {"y": party.load(reference)(feed)["z"]}
    opened = open_model(reference)
    found = find_divergences(case, opened, party, feed, feed, goal, {"y": "z"})
    assert found is not None
    assert [place.border.tensor for place in found.places] == ["h"]


ATTENTION = """
    h = MatMul(x,w) hb = Add(h,b) r = Reshape(hb,parts) t = Transpose<perm=[1,2,0,3]>(r)
    qa = Slice(t,i0,i1,i0) q = Squeeze(qa,i0) ka = Slice(t,i1,i2,i0) k = Squeeze(ka,i0)
    va = Slice(t,i2,i3,i0) v = Squeeze(va,i0) m = Mul(q,f) kt = Transpose<perm=[0,2,1]>(k)
    sc = MatMul(m,kt) p = Softmax<axis=-1>(sc) o = MatMul(p,v) ot = Transpose<perm=[1,0,2]>(o)
    oo = Reshape(ot,shape) y = MatMul(oo,w2)"""
OTHER_ATTENTION = """
    h = Gemm(x,w,b) r = Reshape(h,parts) t = Transpose<perm=[1,0,2,3]>(r)
    qa = Gather<axis=0>(t,n0) ka = Gather<axis=0>(t,n1) va = Gather<axis=0>(t,n2)
    q = Transpose<perm=[1,0,2]>(qa) m = Mul(q,f) kt = Transpose<perm=[1,2,0]>(ka)
    sc = MatMul(m,kt) p = Softmax<axis=-1>(sc) v = Transpose<perm=[1,0,2]>(va)
    o = MatMul(p,v) ot = Transpose<perm=[1,0,2]>(o) oo = Reshape(ot,shape) y = MatMul(oo,w2)"""


def attention(nodes: str, factor: float) -> onnx.ModelProto:
    """Return an attention of two heads whose queries are multiplied by a factor."""
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        m (float[4,{SIZE}] x) => (float[4,{SIZE}] y) {{ {nodes} }}""")
    random = np.random.default_rng(5)
    weights: dict[str, np.ndarray] = {f"i{n}": np.array([n]) for n in range(4)}
    weights |= {f"n{n}": np.array(n) for n in range(3)}
    weights |= {"parts": np.array([4, 3, 2, 3]), "shape": np.array([4, SIZE])}
    for name, shape in {"w": (SIZE, 18), "b": (18,), "w2": (SIZE, SIZE)}.items():
        weights[name] = random.standard_normal(shape).astype(np.float32)
    weights["f"] = np.array(factor, np.float32)
    read = {name for node in model.graph.node for name in node.input}
    for name in read & weights.keys():
        model.graph.initializer.append(numpy_helper.from_array(weights[name], name))
    return model


def test_a_factor_of_one_is_not_called_a_missing_node_beside_a_slice() -> None:
    kept, feed = Kept(), np.random.default_rng(3).standard_normal((4, SIZE)).astype(np.float32)
    model, reference = attention(ATTENTION, 1.0), renamed(attention(OTHER_ATTENTION, 0.5))
    reference.graph.node[-1].output[0] = reference.graph.output[0].name = "z"
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(model, [OnnxrtParty()], [{"x": feed}], reference)
    assert [culprit["nodes"] for culprit in kept.culprits] == [["m"]]
