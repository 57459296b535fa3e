"""A node is missing or too many, beside a reference whose products are Einsum nodes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.changes import model_changes
from polygraphy.application.diagnose.changes.divergence import Divergence, Divergences
from polygraphy.application.diagnose.changes.proven_differences import Differences
from polygraphy.binding import bind, resolve
from polygraphy.diagnose import diagnose
from polygraphy.domain.diagnosis.borrowed import Border
from polygraphy.domain.diagnosis.pairing import pair_graphs
from polygraphy.ports.diagnosing import DiagnosisReports
from polygraphy.ports.editing import OpenModel, open_model
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept

WIDTH = 6
FEED = {"x": np.random.default_rng(8).standard_normal((WIDTH, WIDTH)).astype(np.float32)}
LAYERS = 9
"""Layers behind, so that the models differ in more places than are restored one by one."""
CASES = {
    "before two readers": (
        "h = MatMul(x,w0) a = Add(h,b) r = Relu(a) p = MatMul(r,w1) q = MatMul(r,w2) s = Tanh(p)"
        " t = Add(s,q) v = Sin(t) last = MatMul(v,w3)",
        "h = MatMul(x,w0) a = Add(h,b) p = MatMul(a,w1) q = MatMul(a,w2) s = Tanh(p)"
        " t = Add(s,q) v = Sin(t) last = MatMul(v,w3)",
        {"a", "p", "q"},
    ),
    "behind a place": (
        "a = Tanh(x) v = Transpose(a) m = MatMul(v,w0) l = Add(m,b) s = Sin(l) last = MatMul(s,w3)",
        "a = Tanh(x) v = Transpose(a) l = Add(v,b) s = Sin(l) last = MatMul(s,w3)",
        {"l"},
    ),
    "too many before Relu": (
        "a = Tanh(x) c = MatMul(a,w0) r = Relu(c) m = MatMul(r,w1) s = Sin(m) last = MatMul(s,w3)",
        "a = Tanh(x) c = MatMul(a,w0) g = Gather<axis=1>(c,order) r = Relu(g) m = MatMul(r,w1)"
        " s = Sin(m) last = MatMul(s,w3)",
        {"g"},
    ),
    "a factor behind a place": (
        "a = Tanh(x) t = Transpose(a) m = Mul(t,factor) last = MatMul(m,w3)",
        "a = Tanh(x) t = Transpose(a) last = MatMul(t,w3)",
        {"last"},
    ),
    "before what has no further effect": (
        "s = Tanh(x) a = Add(x,s) r = ReduceMean<axes=[1]>(a) c = Sub(a,r)"
        " n = LpNormalization<axis=1>(c) v = Sin(n) last = MatMul(v,w0)",
        "r = ReduceMean<axes=[1]>(x) c = Sub(x,r) n = LpNormalization<axis=1>(c) v = Sin(n)"
        " last = MatMul(v,w0)",
        {"r"},
    ),
    "before a sum that reads another tensor": (
        "a = Tanh(x) k = Cos(x) z = Add(k,nothing) s = Sin(z) t = Mul(z,s) last = MatMul(t,w0)",
        "a = Tanh(x) k = Cos(x) z = Add(a,nothing) s = Sin(z) t = Mul(z,s) last = MatMul(t,w0)",
        {"z"},
    ),
    "behind a tensor that is read elsewhere": (
        "h = MatMul(x,w0) p = Transpose(h) k = Transpose(p) f = Exp(factor) m = Mul(k,f)"
        " equal = Tanh(p) last = MatMul(m,equal)",
        "h = MatMul(x,w0) p = Transpose(h) k = Transpose(p) m = Mul(k,other) equal = Tanh(p)"
        " last = MatMul(m,equal)",
        {"k", "m"},
    ),
}
"""The nodes of the healthy model, those of the faulty one, and which may be named."""


def model_of(nodes: str, rows: int = WIDTH) -> onnx.ModelProto:
    nodes += "".join(
        f" n{i} = MatMul({f'e{i - 1}' if i else 'last'},w{i % 4}) e{i} = Tanh(n{i})"
        for i in range(LAYERS)
    )
    nodes += f" y = Identity(e{LAYERS - 1})"
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        m (float[{rows},{WIDTH}] x) => (float[{rows},{WIDTH}] y) {{ {nodes} }}""")
    rng = np.random.default_rng(7)
    weights = {f"w{i}": rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) for i in range(4)}
    weights |= {
        "b": rng.standard_normal(WIDTH).astype(np.float32),
        "order": np.array([1, 0, 2, 5, 4, 3]),
        "factor": np.float32([0.25]),
        "other": np.exp(np.float32([0.25])) * 4,
        "nothing": np.float32([0]),
    }
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def spelled_otherwise(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with other names, whose products are Einsum nodes with half of the weights."""
    weights = {weight.name: weight for weight in model.graph.initializer}
    for name in [name for name in weights if name.startswith("w")]:
        half = numpy_helper.to_array(weights[name]) / np.float32(2)
        weights[name].CopyFrom(numpy_helper.from_array(half, name))
    two = numpy_helper.from_array(np.float32(2), "two")
    model.graph.initializer.append(two)
    nodes = []
    for node in model.graph.node:
        for tensors in (node.input, node.output):
            tensors[:] = [n if n in {*weights, "x", "y"} else f"other_{n}" for n in tensors]
        nodes.append(node)
        if node.op_type == "MatMul":
            node.op_type = "Einsum"
            node.attribute.append(onnx.helper.make_attribute("equation", "ij,jk->ik"))
            product = f"{node.output[0]}_half"
            nodes.append(onnx.helper.make_node("Mul", [product, "two"], [node.output[0]]))
            node.output[0] = product
    changed = onnx.ModelProto.FromString(model.SerializeToString())
    del changed.graph.node[:]
    changed.graph.node.extend(nodes)
    return changed


@pytest.mark.parametrize(
    ("case", "tensor", "twin", "given", "named"),
    [
        ("behind a place", "v", "m", "a", "l"),
        ("too many before Relu", "g", "r", "c", "g"),
        ("a factor behind a place", "t", "m", "a", "last"),
        ("before what has no further effect", "c", "n", "x", "r"),
    ],
)
def test_a_border_that_lies_too_late_in_the_reference_still_shows_the_change(
    monkeypatch: pytest.MonkeyPatch, case: str, tensor: str, twin: str, given: str, named: str
) -> None:
    changed = changes_between(monkeypatch, case, (given, given), (tensor, twin))
    assert [culprit.nodes for culprit in changed.culprits] == [[named]]
    assert not changed.is_open


def test_a_tensor_that_equals_an_earlier_one_is_computed_by_the_culprit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = "before a sum that reads another tensor"
    changed = changes_between(monkeypatch, case, ("z", "a"), ("t", "t"))
    assert [culprit.nodes for culprit in changed.culprits] == [["z"]]


def test_a_node_is_innocent_if_its_change_would_change_equal_tensors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = "behind a tensor that is read elsewhere"
    changed = changes_between(monkeypatch, case, ("h", "h"), ("m", "m"))
    assert {name for culprit in changed.culprits for name in culprit.nodes} <= CASES[case][-1]


def changes_between(
    monkeypatch: pytest.MonkeyPatch, case: str, equal: tuple[str, str], border: tuple[str, str]
) -> Differences:
    """Return the changes of the nodes between two pairs of tensors of both models."""
    healthy, faulty, _ = CASES[case]
    models = [open_model(model_of(nodes)) for nodes in (faulty, healthy)]
    own, theirs = [traced(model.proto) for model in models]
    between = names_between(models[1], equal[1], border[1])
    positions = tuple(
        map(models[0].graph.producers.get, names_between(models[0], equal[0], border[0]))
    )
    place = Divergence(Border(positions, *border), theirs[border[1]], positions, between, equal[:1])
    values = {**FEED, **own, border[0]: theirs[border[1]]}
    same = {name: name for name in ("x", "equal") if name in values}
    found = Divergences([place], values, theirs, {**same, equal[0]: equal[1]})
    monkeypatch.setattr(model_changes, "find_divergences", lambda *_: found)
    return model_changes.find_changes(
        Case(models[0], "m.onnx", [OnnxrtParty()], resolve(DiagnosisReports)),
        models[1],
        pair_graphs(models[0].graph, models[1].graph),
        OnnxrtParty(),
        (FEED, FEED),
        {"y": theirs["y"]},
        [],
    )


def names_between(model: OpenModel, given: str, last: str) -> tuple[str, ...]:
    """Return the tensors that a model computes after one, up to another."""
    computed = model.graph.producers
    first = computed.get(given, -1)
    return tuple(name for name, at in computed.items() if first < at <= computed[last])


def traced(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    marked = onnx.ModelProto.FromString(model.SerializeToString())
    names = [name for node in model.graph.node for name in node.output if name != "y"]
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return dict(OnnxrtParty().load(marked)(FEED))


@pytest.mark.slow
def test_a_missing_or_extra_node_is_named_without_its_neighbors() -> None:
    healthy, faulty, names = CASES["before two readers"]
    feed = {"x": FEED["x"][:5]}
    reference = spelled_otherwise(model_of(healthy, 5))
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(model_of(faulty, 5), [OnnxrtParty()], [feed], reference)
    assert kept.verdict == "fault"
    assert {name for culprit in kept.culprits for name in culprit["nodes"]} <= names


def test_a_size_that_a_tool_froze_is_a_fault_of_the_node_that_reads_it() -> None:
    """What computes the size reads integers, which are no weights that could be the fault too."""

    def reshaping(nodes: str, sizes: str) -> onnx.ModelProto:
        return parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
            m (float[n,4,6] x) => (float[a,b] y) <int64[1] last = {{-1}}, {sizes}> {{
            r = Relu(x) {nodes} y = Reshape(r,s) }}""")

    computed = "z = Shape(r) k = Gather(z,first) k1 = Unsqueeze(k,axis) s = Concat<axis=0>(k1,last)"
    reference = reshaping(computed, "int64 first = {0}, int64[1] axis = {0}")
    model = reshaping("", "int64[2] s = {1, 24}")
    kept = Kept()
    with bind(Findings, kept):
        feed = {"x": np.random.default_rng(1).normal(size=(3, 4, 6)).astype(np.float32)}
        model.graph.initializer[-1].CopyFrom(numpy_helper.from_array(np.array([-1, 72]), "s"))
        assert not diagnose(model, [OnnxrtParty()], [feed], reference)
    assert [culprit["nodes"] for culprit in kept.culprits] == [["y"]]


def test_a_constant_in_place_of_a_tensor_that_is_still_computed_is_named() -> None:
    def net(reads: str) -> onnx.ModelProto:
        return parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
            m (float[2,2] x) => (float[2,2] y) <float[2,2] frozen = {{1, 2, 3, 4}}> {{
            a = Tanh(x) b = Sin(a) c = Add(a, {reads}) y = Neg(c) }}""")

    kept = Kept()
    with bind(Findings, kept):
        feed = {"x": np.random.default_rng(1).normal(size=(2, 2)).astype(np.float32)}
        assert not diagnose(net("frozen"), [OnnxrtParty()], [feed], net("b"))
    assert [culprit["nodes"] for culprit in kept.culprits] == [["c"]]
    assert "but the reference computes it with Sin" in str(kept.culprits)
