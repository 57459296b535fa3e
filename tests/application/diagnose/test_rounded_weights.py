"""Weights and states of a float32 model that are those of its reference in half precision."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.binding import bind
from polygraphy.diagnose import diagnose
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.models import make, value


def model(rounded: type | None = None, *, is_wrong: bool = False) -> onnx.ModelProto:
    """Return a network, with rounded weights, and one of them with a wrong row if `is_wrong`."""
    draw = np.random.default_rng(3)
    weights = {f"w{i}": draw.normal(size=(8, 8)).astype(np.float32) for i in range(3)}
    if rounded is not None:
        weights = {n: w.astype(rounded).astype(np.float32) for n, w in weights.items()}
    if is_wrong:
        weights["w1"][2] *= 1.5
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], "first"),
        helper.make_node("Tanh", ["a"], ["b"], "tanh"),
        helper.make_node("MatMul", ["b", "w1"], ["c"], "second"),
        helper.make_node("MatMul", ["c", "w2"], ["y"], "third"),
    ]
    return make("net", nodes, [value("x", [4, 8])], [value("y", [4, 8])], weights=weights)


def diagnosed(wrong: onnx.ModelProto) -> Kept:
    kept = Kept()
    feed = {"x": np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)}
    with bind(Findings, kept):
        diagnose(wrong, [OnnxrtParty()], [feed], reference=model())
    return kept


@pytest.mark.parametrize("rounded", [np.float16, ml_dtypes.bfloat16])
def test_weights_that_were_rounded_are_no_fault(rounded: type) -> None:
    kept = diagnosed(model(rounded))
    assert (kept.verdict, kept.culprits) == ("agree", [])
    assert f"The model rounds 3 weights to {rounded.__name__}" in kept.summary


@pytest.mark.parametrize("is_wrong", [False, True])
def test_rounded_weights_are_known_beside_fused_nodes(is_wrong: bool) -> None:
    plain, fused = model(np.float16, is_wrong=is_wrong), model()
    for proto in (plain, fused):
        proto.graph.initializer.append(numpy_helper.from_array(np.full(8, 0.1, np.float32), "bias"))
    for number, node in enumerate([*fused.graph.node]):
        if node.op_type == "MatMul":
            node.op_type = "Gemm"
            node.input.append("bias")
            twin = next(each for each in plain.graph.node if each.name == node.name)
            result, twin.output[0] = twin.output[0], f"product_{number}"
            plain.graph.node.append(
                helper.make_node("Add", [twin.output[0], "bias"], [result], f"add_{number}")
            )
    kept = Kept()
    feed = {"x": np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)}
    with bind(Findings, kept):
        diagnose(plain, [OnnxrtParty()], [feed], reference=fused)
    assert [culprit["nodes"] for culprit in kept.culprits] == ([["second"]] if is_wrong else [])
    assert kept.verdict == ("fault" if is_wrong else "agree")


def test_a_wrong_weight_among_rounded_ones_is_the_only_culprit() -> None:
    kept = diagnosed(model(np.float16, is_wrong=True))
    assert kept.verdict == "fault"
    assert [[*culprit["nodes"]] for culprit in kept.culprits] == [["second"]]


def test_rounding_that_loses_too_much_is_a_fault() -> None:
    wrong = model()
    small = numpy_helper.to_array(wrong.graph.initializer[2]) * np.float32(1e-8)
    reference = model()
    for proto, array in ((reference, small), (wrong, small.astype(np.float16).astype(np.float32))):
        proto.graph.initializer[2].CopyFrom(numpy_helper.from_array(array, "w2"))
    kept = Kept()
    feed = {"x": np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)}
    with bind(Findings, kept):
        diagnose(wrong, [OnnxrtParty()], [feed], reference=reference)
    assert [[*culprit["nodes"]] for culprit in kept.culprits] == [["third"]]


def cached(dtype: int = onnx.TensorProto.FLOAT, *, is_wrong: bool = False) -> onnx.ModelProto:
    """Return one layer of a decoder whose cache has a type of its own."""
    draw = np.random.default_rng(3)
    weights = {n: draw.normal(size=(8, 8)).astype(np.float32) for n in ("k", "out", "head")}
    weights["head"] *= 100
    if is_wrong:
        weights["k"][2] *= 1.5
    nodes = [
        helper.make_node("MatMul", ["x", "k"], ["key"], "keys"),
        helper.make_node("Cast", ["key"], ["slot"], "store", to=dtype),
        helper.make_node("Concat", ["past", "slot"], ["present"], "join", axis=0),
        helper.make_node("Cast", ["present"], ["all"], "load", to=onnx.TensorProto.FLOAT),
        helper.make_node("Transpose", ["all"], ["turned"], "turn"),
        helper.make_node("MatMul", ["x", "turned"], ["scores"], "scores"),
        helper.make_node("MatMul", ["scores", "all"], ["mixed"], "mix"),
        helper.make_node("MatMul", ["mixed", "head"], ["y"], "project"),
    ]
    if dtype == onnx.TensorProto.FLOAT:
        for index, name in ((3, "present"), (1, "key")):
            old = nodes.pop(index).output[0]
            for node in nodes:
                node.input[:] = [name if each == old else each for each in node.input]
    ends = [value("past", [2, 8], dtype)], [value("y", [4, 8]), value("present", [6, 8], dtype)]
    return make("decoder", nodes, [value("x", [4, 8]), *ends[0]], ends[1], weights=weights)


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_cache_in_half_precision_is_no_fault_and_hides_none(is_wrong: bool) -> None:
    kept = Kept()
    draw = np.random.default_rng(1)
    feed = {"x": draw.normal(size=(4, 8)), "past": draw.normal(size=(2, 8)).astype(np.float16)}
    feed["x"] = feed["x"].astype(np.float32)
    wrong = cached(onnx.TensorProto.FLOAT16, is_wrong=is_wrong)
    with bind(Findings, kept):
        diagnose(wrong, [OnnxrtParty()], [feed], reference=cached())
    assert kept.verdict == ("fault" if is_wrong else "agree"), kept.summary
    assert [[*culprit["nodes"]] for culprit in kept.culprits] == ([["keys"]] if is_wrong else [])
