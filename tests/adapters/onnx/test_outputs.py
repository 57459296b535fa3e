"""Which tensors of an ONNX model become its outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from polygraphy import constants
from polygraphy.backend.onnx import ModifyOutputs, modify_outputs
from polygraphy.domain.errors import UnknownNameError, UsageError
from tests.support import models
from tests.support.examples import scaled

LAYERS = ["conv_output", "relu_output", "pool_output", "features", "y"]


def outputs(model: onnx.ModelProto) -> list[str]:
    return [value.name for value in model.graph.output]


def described(model: onnx.ModelProto) -> dict[str, tuple[int, list[Any]]]:
    return {
        value.name: (
            value.type.tensor_type.elem_type,
            [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim],
        )
        for value in model.graph.output
    }


def with_constant() -> onnx.ModelProto:
    """Return a model with a constant node, a branch with tensors of its own, and a sequence."""
    branch = helper.make_graph(
        [helper.make_node("Add", ["t", "one"], ["inner"])],
        "branch",
        [],
        [models.value("inner", [2])],
    )
    nodes = [
        helper.make_node(
            "Constant", [], ["one"], value=onnx.numpy_helper.from_array(np.ones(2, np.float32))
        ),
        helper.make_node("Mul", ["x", "scale"], ["t"], name="mul"),
        helper.make_node("If", ["flag"], ["z"], then_branch=branch, else_branch=branch, name="if"),
        helper.make_node("SequenceConstruct", ["t", "z"], ["pair"]),
        helper.make_node("ConcatFromSequence", ["pair"], ["y"], axis=0),
    ]
    return models.make(
        "with_constant",
        nodes,
        [models.value("x", [2]), models.value("flag", [], TensorProto.BOOL)],
        [models.value("y", [4])],
        weights={"scale": np.ones(2, np.float32)},
    )


def test_nothing_to_change_changes_nothing() -> None:
    model = models.conv_net()
    assert modify_outputs(model) is model
    assert outputs(model) == ["y"]


def test_the_given_tensors_become_the_outputs_in_the_order_of_the_graph() -> None:
    model = modify_outputs(models.conv_net(), outputs=["features", "conv_output"])
    assert outputs(model) == ["conv_output", "features"]
    onnx.checker.check_model(model, full_check=True)


@settings(max_examples=scaled(25), deadline=None)
@given(st.sets(st.sampled_from(LAYERS), min_size=1).map(sorted), st.randoms())
def test_any_choice_is_in_order(chosen: list[str], random: Any) -> None:
    random.shuffle(chosen)
    found = outputs(modify_outputs(models.conv_net(), outputs=chosen))
    assert found == [name for name in LAYERS if name in chosen]


def test_outputs_have_types_and_shapes() -> None:
    model = modify_outputs(models.conv_net(), outputs=constants.MARK_ALL)
    assert described(model) == {
        "conv_output": (TensorProto.FLOAT, ["batch", 8, 16, 16]),
        "relu_output": (TensorProto.FLOAT, ["batch", 8, 16, 16]),
        "pool_output": (TensorProto.FLOAT, ["batch", 8, 1, 1]),
        "features": (TensorProto.FLOAT, ["batch", 8]),
        "y": (TensorProto.FLOAT, ["batch", 5]),
    }


def test_what_was_an_output_keeps_its_type() -> None:
    model = modify_outputs(models.conv_net(), outputs=["features"])
    assert [value.name for value in model.graph.value_info] == ["y"]
    back = modify_outputs(model, outputs=["y"])
    assert described(back) == described(models.conv_net())


def test_an_output_of_unknown_type_is_left_to_the_backend() -> None:
    model = modify_outputs(models.custom_op(), outputs=["t", "y"])
    assert outputs(model) == ["t", "y"]
    assert model.graph.output[0].type.WhichOneof("value") is None


def test_patterns() -> None:
    assert outputs(modify_outputs(models.conv_net(), outputs=["*_output", "y"])) == [
        "conv_output", "relu_output", "pool_output", "y",
    ]  # fmt: skip
    with pytest.raises(UnknownNameError, match=r"'q\*' does not exist"):
        modify_outputs(models.conv_net(), outputs=["q*"])


def test_types_in_any_case_instead_of_the_present_outputs_or_besides_others() -> None:
    assert outputs(modify_outputs(models.conv_net(), mark_types=["relu"])) == ["relu_output"]
    both = modify_outputs(models.conv_net(), outputs=["y"], mark_types=["Relu", "CONV"])
    assert outputs(both) == ["conv_output", "relu_output", "y"]
    with pytest.raises(UnknownNameError) as error:
        modify_outputs(models.conv_net(), mark_types=["Convolution"])
    assert error.value.exit_code == 2
    assert "Available: 'Conv'" in str(error.value)


def test_exclusions_come_last() -> None:
    every = modify_outputs(
        models.conv_net(), outputs=constants.MARK_ALL, exclude_outputs=["*_output", "y"]
    )
    assert outputs(every) == ["features"]
    by_type = modify_outputs(
        models.conv_net(), mark_types=["Conv", "Relu"], exclude_outputs=["conv_output"]
    )
    assert outputs(by_type) == ["relu_output"]
    assert outputs(modify_outputs(models.conv_net(), exclude_outputs=["features"])) == ["y"]


def test_an_exclusion_of_what_there_is_not_is_a_mistake() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'features'"):
        modify_outputs(models.conv_net(), exclude_outputs=["feature"])


def test_a_model_keeps_an_output() -> None:
    with pytest.raises(UsageError, match="No output"):
        modify_outputs(models.conv_net(), exclude_outputs=["y"])
    model = models.conv_net()
    with pytest.raises(UsageError):
        modify_outputs(model, outputs=["y"], exclude_outputs=["*"])
    assert model == models.conv_net()


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(UnknownNameError) as error:
        modify_outputs(models.conv_net(), outputs=["relu_outptu"])
    assert error.value.matches[0] == "relu_output"
    assert set(LAYERS) < set(error.value.known)


def test_constants_are_marked_by_their_full_name_only() -> None:
    for words in (constants.MARK_ALL, ["*"]):
        assert "one" not in outputs(modify_outputs(with_constant(), outputs=words))
    assert outputs(modify_outputs(with_constant(), outputs=["one"])) == ["one"]


def test_inputs_are_marked_by_their_full_name_only() -> None:
    assert outputs(modify_outputs(models.conv_net(), outputs=["y", "x"])) == ["x", "y"]
    assert "x" not in outputs(modify_outputs(models.conv_net(), outputs=["*"]))


def test_weights_cannot_be_outputs() -> None:
    with pytest.raises(UsageError, match=r"'scale' is a weight"):
        modify_outputs(with_constant(), outputs=["scale"])


def test_tensors_in_sub_graphs_cannot_be_outputs_and_it_is_said_what_can() -> None:
    with pytest.raises(UsageError) as error:
        modify_outputs(with_constant(), outputs=["inner"])
    assert "in a subgraph of the If node 'if'" in str(error.value)
    assert "'z'" in str(error.value)


def test_every_tensor_is_every_tensor_that_can_be_compared() -> None:
    assert outputs(modify_outputs(with_constant(), outputs=constants.MARK_ALL)) == ["t", "z", "y"]


def test_the_model_is_changed_in_place_unless_a_copy_is_asked_for() -> None:
    model = models.conv_net()
    copied = modify_outputs(model, outputs=["features"], copy=True)
    assert outputs(copied) == ["features"]
    assert model == models.conv_net()
    assert modify_outputs(model, outputs=["features"]) is model
    assert outputs(model) == ["features"]


def test_a_loader_is_called_when_the_loader_is() -> None:
    calls: list[int] = []

    def load() -> onnx.ModelProto:
        calls.append(1)
        return models.conv_net()

    loader = ModifyOutputs(load, outputs=["features"])
    assert calls == []
    assert outputs(loader()) == ["features"]
    assert calls == [1]


def test_an_initializer_that_is_an_output_stays_one() -> None:
    model = models.make(
        "weight_out",
        [helper.make_node("Relu", ["x"], ["y"])],
        [models.value("x", [2])],
        [models.value("y", [2]), models.value("w", [2])],
        weights={"w": np.ones(2, np.float32)},
    )
    assert outputs(modify_outputs(model, outputs=constants.MARK_ALL)) == ["y", "w"]


def test_maps_of_a_classifier_stay_outputs() -> None:
    marked = modify_outputs(models.classifier(), outputs=constants.MARK_ALL)
    assert outputs(marked) == ["s", "y"]
