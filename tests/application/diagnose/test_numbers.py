from __future__ import annotations

from contextlib import suppress
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from attrs import evolve
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.tensor_trace import Trace
from polygraphy.application.diagnose.wrong_nodes import first_non_finite
from polygraphy.binding import bind, resolve
from polygraphy.diagnose import diagnose
from polygraphy.domain.diagnosis.closeness import introduces_nan
from polygraphy.domain.diagnosis.culprit import MODEL, Culprit, with_nan
from polygraphy.domain.diagnosis.words import evidence, remedies
from polygraphy.domain.errors import InconclusiveError
from polygraphy.ports.diagnosing import DiagnosisReports
from polygraphy.ports.editing import open_model
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.models import make, value

TYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


def traced(dtype: Any) -> tuple[Case, Trace]:
    """Return a model of two nodes, of which the second takes the logarithm of a negative number."""
    nodes = [
        helper.make_node("Neg", ["x"], ["n"], name="neg"),
        helper.make_node("Log", ["n"], ["y"], name="log"),
    ]
    shaped = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph(nodes, "logarithm", shaped[:1], shaped[1:])
    opened = open_model(helper.make_model(graph))
    case = Case(opened, "m.onnx", [], resolve(DiagnosisReports))
    values = {"n": np.array([-1, 1], dtype), "y": np.array([np.nan, 0], dtype)}
    party: Any = None
    return case, Trace(values, {"x": np.array([1, -1], dtype)}, party)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_first_node_that_makes_nan_is_named_in_every_type(dtype: Any) -> None:
    culprit = first_non_finite(*traced(dtype))
    assert culprit is not None
    assert (list(culprit.nodes), culprit.tensor, culprit.cause) == (["log"], "y", "nan")
    assert culprit.facts[-1] == evidence.input_range("n", -1.0, 1.0, 1, 0, 2)


def test_a_node_that_computes_nan_from_a_wrong_value_is_evidence_and_no_culprit() -> None:
    broken = first_non_finite(*traced(np.float32))
    assert broken is not None
    assert with_nan(broken, []) == [broken]
    [culprit] = with_nan(broken, [Culprit(["neg"], "n", MODEL, "structure")])
    assert culprit.nodes == ["neg"]
    assert culprit.facts == [evidence.creates_nan("Log", "log"), broken.facts[0]]
    [culprit] = with_nan(broken, [Culprit(["log"], "y", MODEL, "changed")])
    assert (culprit.nodes, culprit.cause) == (["log"], "nan")


def test_the_element_of_a_weight_that_makes_nan_is_said() -> None:
    shape, read = [1, 3, 2], ["x", "scale", "shift", "mean", "variance"]
    node = helper.make_node("BatchNormalization", read, ["y"], name="norm")
    weights = {name: np.ones(3, np.float32) for name in read[1:]}
    weights["variance"][1] = -0.5
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    made = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph([node], "norm", ends[:1], ends[1:], made)
    case = Case(open_model(helper.make_model(graph)), "m.onnx", [], resolve(DiagnosisReports))
    x = np.ones(shape, np.float32)
    party: Any = None
    y = np.where(np.arange(3)[:, None] == 1, np.nan, x).astype(np.float32)
    culprit = first_non_finite(case, Trace({"y": y}, {"x": x}, party))
    assert culprit is not None
    assert culprit.facts[-1] == evidence.bad_weight("variance", -0.5, (1,), "negative", 1, 3)


@pytest.mark.parametrize("dtype", TYPES)
def test_nan_that_should_not_be_there_breaks_outputs_of_every_type(dtype: Any) -> None:
    good, bad = np.array([1.0], dtype), np.array([np.nan], dtype)
    assert introduces_nan({"y": bad}, {"y": good})
    assert not introduces_nan({"y": good}, {"y": good})
    assert not introduces_nan({"y": bad}, {"y": bad})


def masked(mask: float, *, divides: bool = False) -> tuple[Case, Trace]:
    """A softmax behind a mask, or behind a division by zero."""
    first = helper.make_node(
        "Div" if divides else "Add", ["x", "zero" if divides else "mask"], ["m"], name="first"
    )
    nodes = [first, helper.make_node("Softmax", ["m"], ["y"], name="softmax")]
    shaped = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    weights = {"mask": np.full(2, mask, np.float32), "zero": np.zeros(2, np.float32)}
    made = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "masked", shaped[:1], shaped[1:], made)
    case = Case(open_model(helper.make_model(graph)), "m.onnx", [], resolve(
        DiagnosisReports
    ))  # fmt: skip
    values = {"m": np.full(2, np.inf if divides else mask, np.float32), "y": np.full(2, np.nan)}
    party: Any = None
    return case, Trace(values, {"x": np.ones(2, np.float32)}, party)


def test_a_mask_is_not_where_nan_comes_from_but_what_reads_only_that() -> None:
    culprit = first_non_finite(*masked(-np.inf))
    assert culprit is not None
    assert (list(culprit.nodes), culprit.tensor) == (["softmax"], "y")


def test_an_infinity_that_is_made_of_numbers_is() -> None:
    culprit = first_non_finite(*masked(0.0, divides=True))
    assert culprit is not None
    assert list(culprit.nodes) == ["first"]
    weight = culprit.facts[-1].values
    assert (weight["problem"], weight["count"], weight["elements"]) == ("zero", 2, 2)


def test_it_is_said_that_data_were_made_up() -> None:
    case, known = masked(-np.inf)
    case = evolve(case, is_made_up=True)
    culprit = first_non_finite(case, known)
    assert culprit is not None
    assert culprit.remedy.note == remedies.USE_REAL_DATA


@pytest.mark.parametrize("is_missing", [True, False])
def test_missing_values_that_a_model_fills_with_nan_blame_no_node(is_missing: bool) -> None:
    """Where all values are NaN, a mask is wrong."""
    nan = helper.make_tensor("nan", TensorProto.FLOAT, [1], [np.nan])
    nodes = [
        helper.make_node("Shape", ["x"], ["size"], "shape"),
        helper.make_node("ConstantOfShape", ["size"], ["nan"], "fill", value=nan),
        helper.make_node("Where", ["known", "x", "nan"], ["y"], "mask"),
    ]
    known = np.array([True, False, True]) if is_missing else np.zeros(3, bool)
    model = make("missing", nodes, [value("x", (3,))], [value("y", (3,))], weights={"known": known})
    kept = Kept()
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(model, [OnnxParty()], [{"x": np.ones(3, np.float32)}])
    assert kept.verdict == ("inconclusive" if is_missing else "fault")
    assert ("NaN by design" in kept.summary) is is_missing


@pytest.mark.parametrize("makes_nan", [False, True])
def test_a_scale_of_zero_is_named_and_not_the_node_that_divides_by_its_zeros(
    makes_nan: bool,
) -> None:
    last = "[norm] y = Div(d, d)" if makes_nan else "[last] y = Relu(d)"
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> quantized (float[4] x) => (float[4] y)
        <float s = {0}, uint8 z = {0}> {
            [write] q = QuantizeLinear(x, s, z) [read] d = DequantizeLinear(q, s, z) """
        + last
        + " }"
    )
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(model, [OnnxParty()], data_loader=[{"x": np.ones(4, np.float32)}])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["party"], culprit["cause"]) == (["write"], "model", "scale")
    assert culprit["evidence"][0] == "Its scale 's' is 0, which is not a positive number."
    assert culprit["evidence"][1:] == (
        ["Div 'norm' then computes NaN or infinity."] if makes_nan else []
    )


def test_a_scale_of_zero_in_a_branch_is_named_with_its_place() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> branches (float[4] x, bool b) => (float[4] y)
        <float s = {0}, uint8 z = {0}> { [if] y = If(b) <
        then_branch = t() => (float[4] d) {
            [write] q = QuantizeLinear(x, s, z) [read] d = DequantizeLinear(q, s, z) },
        else_branch = e() => (float[4] i) { i = Identity(x) }> }"""
    )
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(
            model, [OnnxParty()], data_loader=[{"x": np.ones(4, np.float32), "b": np.array(True)}]
        )
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["if"], "scale")
    assert "QuantizeLinear is the node 'write'" in culprit["evidence"][0]
