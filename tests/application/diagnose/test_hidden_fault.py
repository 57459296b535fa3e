"""A weight that differs from the reference, with outputs that match within the rounding limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.backend.onnx import ConvertToFp16
from polygraphy.binding import bind
from polygraphy.diagnose import diagnose
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.facts import facts_of
from tests.support.models import make, value

RANDOM = np.random.default_rng(5)
WEIGHTS = {
    "w0": (RANDOM.normal(size=(8, 8)) * 0.4).astype(np.float32),
    "w1": (RANDOM.normal(size=(8, 6)) * 0.4).astype(np.float32),
    "large": (RANDOM.normal(size=(6, 6)) * 1e4).astype(np.float32),
    "rows": np.array([[0], [2]]),
}
FEED = {"x": RANDOM.normal(size=(2, 8)).astype(np.float32)}


def network(is_scattered: bool = False, **weights: Any) -> onnx.ModelProto:
    """Return two layers, whose result may replace two rows of a table of large numbers."""
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], "first"),
        helper.make_node("Tanh", ["a"], ["b"], "tanh"),
        helper.make_node("MatMul", ["b", "w1"], ["c" if is_scattered else "y"], "second"),
    ]
    if is_scattered:
        nodes.append(helper.make_node("ScatterND", ["large", "rows", "c"], ["y"], "scatter"))
    read = {name for node in nodes for name in node.input}
    held = {name: array for name, array in {**WEIGHTS, **weights}.items() if name in read}
    y = value("y", [6 if is_scattered else 2, 6])
    return make("network", nodes, [value("x", [2, 8])], [y], weights=held)


def half(model: onnx.ModelProto) -> onnx.ModelProto:
    made: onnx.ModelProto = ConvertToFp16(model, cast_io=True)()
    return made


def found(model: onnx.ModelProto, reference: onnx.ModelProto) -> Kept:
    kept = Kept()
    with bind(Findings, kept):
        diagnose(model, [OnnxrtParty()], [FEED], reference=reference)
    return kept


@pytest.mark.parametrize("is_half", [False, True])
def test_a_weight_that_differs_by_little_is_named_in_half_precision(is_half: bool) -> None:
    """Whatever the precision of the reference is: the error is clear of that of rounding."""
    reference = half(network()) if is_half else network()
    assert found(half(network()), reference).verdict == "agree"
    kept = found(half(network(w1=WEIGHTS["w1"] * np.float32(1.006))), reference)
    assert kept.verdict == "fault"
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["second"], "weight")
    facts = facts_of(culprit)
    assert facts["larger_than_rounding"]["effect"] > 4 * facts["larger_than_rounding"]["rest"]
    assert facts["accepted_by_run"]["dtype"] == "float16"


def test_a_weight_is_named_that_only_changes_small_elements_among_large_ones() -> None:
    wrong = WEIGHTS["w1"] + np.float32(0.003)
    kept = found(network(True, w1=wrong), network(True))
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["second"], "weight")
    assert facts_of(culprit)["accepted_by_run"]["dtype"] == "float32"


def test_a_weight_that_rounding_hides_is_no_fault() -> None:
    wrong = WEIGHTS["w0"].copy()
    wrong[3, 3] *= np.float32(1.0005)
    assert found(half(network(w0=wrong)), network()).verdict == "agree"
