"""What everyone promises who tries parts of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from polygraphy.adapters.onnx.run.reference import ReferenceTrial
from polygraphy.adapters.onnxruntime.trial import OnnxrtTrial
from polygraphy.binding import resolve
from polygraphy.domain.errors import BackendError, UnknownNameError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.ports.models import ModelTrial
from tests.support import models

TRIALS: dict[str, Callable[[], ModelTrial]] = {"onnxrt": OnnxrtTrial, "onnx": ReferenceTrial}


@pytest.fixture(params=TRIALS)
def trial(request: pytest.FixtureRequest) -> ModelTrial:
    return TRIALS[request.param]()


def small(*nodes: onnx.NodeProto, elem_type: int = TensorProto.FLOAT) -> bytes:
    """Return a model of which the types of outputs are not stated, as parts of models are."""
    graph = helper.make_graph(list(nodes), "g", [models.value("x", [2], elem_type)], [])
    for node in nodes:
        for name in node.output:
            graph.output.add(name=name)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def test_what_was_computed_can_be_given(trial: ModelTrial) -> None:
    first = trial.run(
        small(helper.make_node("Abs", ["x"], ["y"])), {"x": np.array([-1, 2], np.float32)}, ["y"]
    )
    assert (first["y"].dtype, first["y"].shape) == (DataType.FLOAT32, (2,))
    again = small(helper.make_node("Neg", ["x"], ["y"]))
    assert trial.run(again, {"x": first["y"]}, ["y"])["y"].shape == (2,)


def test_sequences_and_data_that_are_not_asked_for(trial: ModelTrial) -> None:
    node = helper.make_node("SequenceConstruct", ["x", "x"], ["s"])
    found = trial.run(small(node), {"x": np.ones(2, np.float32), "other": np.ones(1)}, ["s"])
    assert (found["s"].dtype, found["s"].shape) == (DataType.FLOAT32, None)


def test_data_of_four_bits(trial: ModelTrial) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    model = onnx.ModelProto.FromString(small(node, elem_type=TensorProto.UINT4))
    model.opset_import[0].version, model.ir_version = 21, 10
    data = {"x": np.array([1, 7], DataType.UINT4.numpy())}
    assert trial.run(model.SerializeToString(), data, ["y"])["y"].dtype == DataType.FLOAT32


@pytest.mark.parametrize(
    "array", [np.array(["a", "b"]), np.array([1, 2], np.int64), np.array([True, False])]
)
def test_data_types(trial: ModelTrial, array: Any) -> None:
    elem_type = DataType.from_dtype(array.dtype).onnx()
    node = helper.make_node("Identity", ["x"], ["y"])
    found = trial.run(small(node, elem_type=elem_type), {"x": array}, ["y"])
    assert found["y"].dtype == DataType.from_dtype(array.dtype)


def test_a_reason_is_one_line(trial: ModelTrial) -> None:
    for node in (
        helper.make_node("Unheard", ["x"], ["y"]),
        helper.make_node("Reshape", ["x", "x"], ["y"]),
    ):
        with pytest.raises(BackendError) as error:
            trial.run(small(node), {"x": np.ones(2, np.float32)}, ["y"])
        assert "\n" not in str(error.value)


def test_onnx_runtime_comes_to_the_point() -> None:
    node = helper.make_node("Unheard", ["x"], ["y"])
    with pytest.raises(BackendError) as error:
        OnnxrtTrial().run(small(node), {"x": np.ones(2, np.float32)}, ["y"])
    assert str(error.value).startswith("No Op registered for Unheard")


def test_how_models_are_run(trial: ModelTrial) -> None:
    model = small(helper.make_node("Abs", ["x"], ["y"]))
    data = {"x": np.ones(2, np.float32)}
    assert trial.with_settings(None, "DISABLE_ALL").run(model, data, ["y"])["y"].shape == (2,)
    with pytest.raises(UnknownNameError, match="nonsense"):
        OnnxrtTrial().with_settings(["nonsense"], None).run(model, data, ["y"])


def test_the_ones_that_are_used() -> None:
    for name, made in TRIALS.items():
        assert isinstance(resolve(ModelTrial, name), made)  # type: ignore[arg-type]
