"""What every evaluator of constants promises, asked of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from polygraphy.adapters.onnx.run import reference
from polygraphy.adapters.onnxruntime import trial
from polygraphy.binding import function_for, resolve
from polygraphy.domain.errors import BackendError
from polygraphy.ports.editing import evaluate_constants
from tests.support import models

Evaluate = Callable[[Any, Sequence[str]], dict[str, Any]]
EVALUATORS: dict[str, Evaluate] = {
    "onnxruntime": trial.evaluate_constants,
    "onnx": reference.evaluate_constants,
}


@pytest.fixture(params=EVALUATORS)
def evaluate(request: pytest.FixtureRequest) -> Evaluate:
    return EVALUATORS[request.param]


def constants() -> onnx.ModelProto:
    """Return a model without inputs: its outputs are those of `EXPECTED`."""
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"]),
        helper.make_node("Identity", ["c"], ["scalar"]),
        helper.make_node("Slice", ["row", "zero", "zero", "zero"], ["empty"]),
        helper.make_node("Cast", ["a"], ["flags"], to=TensorProto.BOOL),
        helper.make_node("Split", ["a"], ["left", "right"]),
    ]
    outputs = [
        models.value("sum", [2], TensorProto.INT64),
        models.value("scalar", []),
        models.value("empty", [0, 2], TensorProto.INT64),
        models.value("flags", [2], TensorProto.BOOL),
        models.value("left", [1], TensorProto.INT64),
        models.value("right", [1], TensorProto.INT64),
    ]
    weights: dict[str, Any] = {
        "a": np.array([1, 2], dtype=np.int64),
        "b": np.array([10, 20], dtype=np.int64),
        "c": np.array(2.5, dtype=np.float32),
        "row": np.ones((1, 2), dtype=np.int64),
        "zero": np.array([0], dtype=np.int64),
    }
    return models.make("constants", nodes, [], outputs, weights=weights, opset=13)


EXPECTED = {
    "sum": np.array([11, 22], dtype=np.int64),
    "scalar": np.array(2.5, dtype=np.float32),
    "empty": np.zeros((0, 2), dtype=np.int64),
    "flags": np.array([True, True]),
    "left": np.array([1], dtype=np.int64),
    "right": np.array([2], dtype=np.int64),
}


def test_the_port_is_bound_and_has_a_second_choice() -> None:
    assert resolve(evaluate_constants) is trial.evaluate_constants  # type: ignore[arg-type]
    assert function_for(evaluate_constants, "onnx") is reference.evaluate_constants


@pytest.mark.parametrize(
    "outputs", [list(EXPECTED), list(EXPECTED)[::-1], ["scalar"], ("right", "sum"), []], ids=str
)
def test_computes_what_is_asked_for_in_that_order(
    evaluate: Evaluate, outputs: Sequence[str]
) -> None:
    values = evaluate(constants(), outputs)
    assert list(values) == list(outputs)
    for name, value in values.items():
        assert type(value) is np.ndarray
        np.testing.assert_array_equal(value, EXPECTED[name], strict=True)


def test_the_model_is_left_alone(evaluate: Evaluate) -> None:
    model = constants()
    before = model.SerializeToString(deterministic=True)
    values = evaluate(model, list(EXPECTED))
    assert model.SerializeToString(deterministic=True) == before
    for value in values.values():
        if value.flags.writeable:
            value[...] = 0
    again = evaluate(model, list(EXPECTED))
    np.testing.assert_array_equal(again["sum"], EXPECTED["sum"])
    assert model.SerializeToString(deterministic=True) == before


def test_an_unknown_operator_is_a_backend_error(evaluate: Evaluate) -> None:
    model = constants()
    node = helper.make_node("Unheard", ["a"], ["left_out"], domain=models.CUSTOM_DOMAIN)
    model.graph.node.append(node)
    model.graph.output.append(models.value("left_out", [2], TensorProto.INT64))
    model.opset_import.append(helper.make_opsetid(models.CUSTOM_DOMAIN, 1))
    with pytest.raises(BackendError, match="Unheard"):
        evaluate(model, ["left_out"])


def test_a_failing_operator_is_a_backend_error(evaluate: Evaluate) -> None:
    model = models.make(
        "failing",
        [helper.make_node("Reshape", ["a", "shape"], ["y"])],
        [],
        [models.value("y", ["n"], TensorProto.INT64)],
        weights={"a": np.array([1, 2]), "shape": np.array([-1])},
    )
    model.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(np.array([3]), "shape"))
    with pytest.raises(BackendError):
        evaluate(model, ["y"])


def test_a_tensor_that_is_not_there_is_a_backend_error(evaluate: Evaluate) -> None:
    with pytest.raises(BackendError):
        evaluate(constants(), ["nowhere"])
