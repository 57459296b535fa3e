"""Nodes that the reference has other nodes for, behind a node that both have."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.binding import bind
from polygraphy.diagnose import diagnose
from polygraphy.domain.errors import InconclusiveError
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept

SIZE = 6
BEHIND = " q = MatMul(a,w1) t = Tanh(q) last = MatMul(t,w2)"


def model_of(nodes: str, prefix: str) -> onnx.ModelProto:
    """Return a model whose tensors and nodes have a prefix."""
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 18]>
        m (float[4,{SIZE}] x) => (float[4,{SIZE}] last) {{ {nodes} }}""")
    random = np.random.default_rng(7)
    weights = {f"w{i}": random.standard_normal((SIZE, SIZE)).astype(np.float32) for i in range(4)}
    weights |= {"one": np.float32(1), "minus": np.float32(-1), "half": np.float32(0.5)}
    read = {name for node in model.graph.node for name in node.input}
    for name in sorted(read & weights.keys()):
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(weights[name]), name))
    computed = {name for node in model.graph.node for name in node.output} - {"last"}
    for node in model.graph.node:
        node.name = node.output[0]
        for names in (node.input, node.output):
            names[:] = [f"{prefix}/{name}" if name in computed else name for name in names]
    return model


@pytest.mark.parametrize(
    ("nodes", "reference", "verdict", "named"),
    [
        (
            "h = MatMul(x,w0) a = Tanh(h)" + BEHIND,
            "h = MatMul(x,w0) i = Max(h,minus) a = Min(i,one)" + BEHIND,
            "fault",
            {"a"},
        ),
        (
            "h = MatMul(x,w0) e = Erf(h) f = Add(e,one) g = Mul(h,f) a = Mul(g,half)" + BEHIND,
            "h = MatMul(x,w0) v = Sigmoid(h) a = Mul(h,v)" + BEHIND,
            "inconclusive",
            {"e", "f", "g", "a"},
        ),
        (
            "h = MatMul(x,w0) s = HardSwish(h) e = MatMul(s,w3) k = Sigmoid(e) q = MatMul(s,w1)"
            " l = HardSwish(q) m = MatMul(l,w1) n = HardSwish(m) last = MatMul(n,w2)",
            "h = MatMul(x,w0) u = HardSigmoid<alpha=0.16666667>(h) s = Mul(h,u) e = MatMul(s,w3)"
            " k = Sigmoid(e) a = Mul(s,k) q = MatMul(a,w1) b = HardSigmoid<alpha=0.16666667>(q)"
            " l = Mul(q,b) m = MatMul(l,w1) c = HardSigmoid<alpha=0.16666667>(m) n = Mul(m,c)"
            " last = MatMul(n,w2)",
            "fault",
            {"q"},
        ),
        (
            "h = MatMul(x,w0) a = HardSwish(h)" + BEHIND,
            "h = MatMul(x,w0) u = Mul(h,half) v = Sigmoid(u) a = Mul(h,v)" + BEHIND,
            "inconclusive",
            {"h", "a"},
        ),
    ],
    ids=[
        "other activation",
        "other nodes",
        "skipped product of a node with another spelling",
        "unknown change before an output with the same name",
    ],
)
def test_the_node_before_nodes_that_differ_is_not_blamed(
    nodes: str, reference: str, verdict: str, named: set[str]
) -> None:
    kept = Kept()
    feed = {"x": np.random.default_rng(3).standard_normal((4, SIZE)).astype(np.float32)}
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(model_of(nodes, "m"), [OnnxrtParty()], [feed], model_of(reference, "r"))
    assert kept.verdict == verdict
    assert {name for culprit in kept.culprits for name in culprit["nodes"]} == named
