"""The number of the opset was changed in a file, but not its nodes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.binding import bind
from polygraphy.diagnose import diagnose
from polygraphy.ports.editing import adopt_opset
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.facts import facts_of

MODELS = {
    "axis": "(float[2,3,4] x) => (float[2,3,4] y) { r = Relu(x) s = Softmax(r) y = Mul(s,x) }",
    "in a branch": (
        "(float[2,3,4] x, bool c) => (float[2,3,4] y) { r = Relu(x) y = If(c) <"
        " then_branch = t () => (float[2,3,4] a) { a = Softmax(r) },"
        " else_branch = e () => (float[2,3,4] b) { b = Neg(r) } > }"
    ),
}
FEED = {"x": np.random.default_rng(5).normal(size=(2, 3, 4)).astype(np.float32)}


def stating(opset: int, graph: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g {graph}')


@pytest.mark.parametrize("kind", MODELS)
def test_the_operator_that_another_opset_defines_differently_is_named(kind: str) -> None:
    model, reference = (stating(opset, MODELS[kind]) for opset in (13, 11))
    feed = {**FEED, "c": np.array(True)} if "branch" in kind else FEED
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(model, [OnnxrtParty()], [feed], reference)
    [culprit] = kept.culprits
    assert (culprit["party"], culprit["cause"]) == ("model", "opset")
    assert culprit["nodes"] == (["y"] if "branch" in kind else ["s"])
    fact = facts_of(culprit)["other_opset"]
    assert (fact["version"], fact["expected"]) == (13, 11)


def test_models_whose_nodes_mean_the_same_in_both_opsets_have_one_opset() -> None:
    model, same, newer = (
        stating(opset, "(float[2] x) => (float[2] y) { y = Sin(x) }") for opset in (13, 13, 17)
    )
    assert adopt_opset(model, same) is adopt_opset(model, newer) is None
    assert model.opset_import[0].version == 13
