"""A model that an optimizer rewrote, in float32 and in half precision, beside its float32 source."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.backend.onnx import ConvertToFp16
from polygraphy.binding import bind
from polygraphy.diagnose import diagnose
from polygraphy.domain.errors import InconclusiveError
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept

DRAW = np.random.default_rng(6)
QUERY, KEY, VALUE, LAST = (DRAW.uniform(-0.3, 0.3, (6, 6)).astype(np.float32) for _ in range(4))
FEED = {"x": DRAW.standard_normal((5, 6)).astype(np.float32)}
SOURCE = """q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv) qk = Mul(q, k) h = Add(qk, v)
    t = Tanh(h) y = MatMul(t, last)"""
SHORT = "q = MatMul(x, wq) t = Tanh(q) y = MatMul(t, last)"
REWRITTEN = """all = MatMul(x, w) q, k, v = Split<axis=1, num_outputs=3>(all) qk = Mul(q, k)
    h = Add(qk, v) t = Tanh(h) y = MatMul(t, last)"""


def network(nodes: str, **weights: Any) -> onnx.ModelProto:
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 18]>
        m (float[5, 6] x) => (float[5, 6] y) {{ {nodes} }}""")
    for node in model.graph.node:
        node.name = node.output[0]
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def findings(model: onnx.ModelProto, reference: onnx.ModelProto) -> Kept:
    kept = Kept()
    with bind(Findings, kept):
        try:
            diagnose(model, [OnnxrtParty()], [FEED], reference=reference)
        except InconclusiveError:
            assert kept.verdict == "inconclusive"
    return kept


@pytest.mark.parametrize("is_half", [False, True])
def test_a_wrong_weight_is_named_that_was_joined_of_three(is_half: bool) -> None:
    joined = np.concatenate([QUERY, KEY, VALUE], axis=1)
    joined[:, 7] *= 3
    model = network(REWRITTEN, w=joined, last=LAST)
    reference = network(SOURCE, wq=QUERY, wk=KEY, wv=VALUE, last=LAST)
    kept = findings(ConvertToFp16(model)() if is_half else model, reference)
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["all"], "weight")


def test_nodes_that_are_known_in_float32_are_named_for_a_model_in_half_precision() -> None:
    nodes = SHORT.replace("t = Tanh(q)", "s = Sin(q) p = Softplus(s) t = Neg(p)")
    wrong = ConvertToFp16(network(nodes, wq=QUERY, last=LAST))()
    kept = findings(wrong, network(SHORT, wq=QUERY, last=LAST))
    [culprit] = kept.culprits
    assert kept.verdict == "inconclusive" and {"s", "p", "t"} <= {*culprit["nodes"]}


def test_a_wrong_weight_is_solved_that_the_reference_stores_as_two_factors() -> None:
    start, factor = "f = MatMul(x, narrow) n = Tanh(f)", np.float32([1.5, 0.7, 1.2, -0.8, 0.6, 1.1])
    wrong = np.round(KEY[:3] * factor * 8) / 8
    one, two = (start + " q = MatMul(n, w)", start + " qm = MatMul(n, w) q = Mul(qm, factor)")
    for before, after in ("qr", "rs", "sy"):
        one += f" {after}t = Tanh({before}) {after} = MatMul({after}t, last)"
        two += f" {after}t = Tanh({before}) {after}m = MatMul({after}t, last)"
        two += f" {after} = Mul({after}m, factor)"
    model = network(one, narrow=QUERY[:, :3], w=wrong.astype(np.float32), last=LAST * factor)
    reference = network(two, narrow=QUERY[:, :3], w=KEY[:3], last=LAST, factor=factor)
    kept = findings(model, reference)
    [culprit] = kept.culprits
    assert (kept.verdict, culprit["nodes"], culprit["cause"]) == ("fault", ["q"], "weight")
