"""The formulas that decide between two implementations, against the evaluator and ONNX Runtime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from polygraphy.adapters.onnx.run.reference import FormulaParty, PackageParty
from polygraphy.adapters.onnx_common.evaluator import evaluator_of, formula_evaluator
from polygraphy.adapters.onnx_common.formulas import FORMULAS
from polygraphy.domain.errors import BackendError
from tests.support import random_nodes
from tests.support.examples import scaled
from tests.support.models import make, value

KNOWN = [
    (op, v) for op in FORMULAS if op in random_nodes.OPERATORS for v in random_nodes.versions(op)
]


def results(evaluator: Any, feed: dict[str, Any]) -> Any:
    return np.asarray(evaluator.run(None, dict(feed))[0])


@settings(max_examples=scaled(300))
@given(known=st.sampled_from(KNOWN), seed=st.integers(0, 2**20))
def test_formulas_agree_with_the_evaluator(known: tuple[str, int], seed: int) -> None:
    op, version = known
    model, feed = random_nodes.random_node(op, version, seed)
    try:
        ours = results(formula_evaluator(model), feed)
    except Exception as error:
        assert "NotImplementedError" in repr(error)
        return
    expected = results(evaluator_of(model), feed)
    assert (ours.shape, ours.dtype) == (expected.shape, expected.dtype)
    if ours.dtype.kind == "f":
        np.testing.assert_allclose(ours, expected, rtol=2e-4, atol=2e-5)
    else:
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("op", ["Tanh", "Softmax", "Erf", "Sigmoid", "Exp"])
def test_they_are_computed_in_float64_and_given_in_the_type_of_the_inputs(op: str) -> None:
    x = np.linspace(-3, 3, 64, dtype=np.float32)[None]
    model = make("one", [helper.make_node(op, ["x"], ["y"])], [value("x", [1, 64])],
                 [value("y", [1, 64])])  # fmt: skip
    wide = {
        "Tanh": np.tanh, "Exp": np.exp, "Sigmoid": lambda v: 1 / (1 + np.exp(-v)),
        "Softmax": lambda v: np.exp(v) / np.exp(v).sum(),
        "Erf": np.vectorize(math.erf),
    }[op](x.astype(np.float64))  # fmt: skip
    made = FormulaParty().load(model)({"x": x})["y"]
    assert made.dtype == np.float32
    assert np.array_equal(made, wide.astype(np.float32))


def test_what_has_no_formula_is_refused() -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["y"])]
    model = make("one", nodes, [value("x", [4])], [value("y", [1, None], onnx.TensorProto.INT64)])
    with pytest.raises(BackendError, match="no formula for NonZero"):
        FormulaParty().load(model)
    with pytest.raises(BackendError, match="The reference has NonZero of the onnx package"):
        PackageParty().load(model)


def test_the_package_computes_what_the_reference_has_of_its_own() -> None:
    nodes = [helper.make_node("CumSum", ["x", "axis"], ["y"])]
    model = make("one", nodes, [value("x", [4])], [value("y", [4])], weights={"axis": np.int64(0)})
    made = PackageParty().load(model)({"x": np.array([0, 1, 0, 2], np.float32)})["y"]
    assert made.tolist() == [0, 1, 1, 3]


@pytest.mark.parametrize("op", ["ReduceL1", "ReduceMax", "ReduceProd", "ReduceSumSquare"])
def test_a_reduction_over_no_axes_reduces_every_element_alone(op: str) -> None:
    node = helper.make_node(op, ["x", "axes"], ["y"], keepdims=0, noop_with_empty_axes=1)
    inputs = [
        value("x", [2, 3], onnx.TensorProto.INT32),
        value("axes", [0], onnx.TensorProto.INT64),
    ]
    outputs = [value("y", [2, 3], onnx.TensorProto.INT32)]
    model = make("one", [node], inputs, outputs, opset=18)
    x = np.arange(-2, 4, dtype=np.int32).reshape(2, 3)
    made = FormulaParty().load(model)({"x": x, "axes": np.zeros(0, np.int64)})["y"]
    right = {"ReduceL1": abs(x), "ReduceSumSquare": x * x}.get(op, x)
    assert made.dtype == x.dtype
    np.testing.assert_array_equal(made, right)
