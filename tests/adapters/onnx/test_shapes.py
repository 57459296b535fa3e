"""Inferred shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper, parser

from polygraphy.adapters.onnx.graph import shapes
from polygraphy.adapters.onnx.storage.weights import all_tensors
from polygraphy.backend.onnx import infer_shapes, save_onnx
from polygraphy.binding import bind
from polygraphy.domain.errors import BackendError, MissingDependencyError, ModelError
from polygraphy.ports.editing import infer_symbolic_shapes
from tests.support import models


def known(model: onnx.ModelProto) -> dict[str, list[Any]]:
    return {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in model.graph.value_info
    }


SHAPES = {
    "conv_output": ["batch", 8, 16, 16],
    "relu_output": ["batch", 8, 16, 16],
    "pool_output": ["batch", 8, 1, 1],
    "features": ["batch", 8],
}


def contradictory() -> onnx.ModelProto:
    """Return a model whose addition cannot be: of 2 and of 3 elements."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        "g",
        [models.value("a", [2]), models.value("b", [3])],
        [models.value("y", [2])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


class FakeShapeInference:
    """Gives what a function makes of a copy of the model, or fails.

    Attributes:
        models: the models that were given.
    """

    def __init__(
        self,
        change: Callable[[Any], None] | None = None,
        error: Exception | None = None,
    ) -> None:
        """Set what is done to the copy, or what is raised instead."""
        self.models: list[Any] = []
        self._change = change
        self._error = error

    def __call__(self, model: Any) -> Any:
        """Return a changed copy of the model."""
        self.models.append(model)
        if self._error is not None:
            raise self._error
        copied = type(model)()
        copied.CopyFrom(model)
        if self._change is not None:
            self._change(copied)
        return copied


def missing() -> FakeShapeInference:
    return FakeShapeInference(error=MissingDependencyError("sympy is not installed."))


def test_shapes_are_added_to_another_model() -> None:
    model = infer_shapes(models.conv_net(), allow_onnxruntime=False)
    assert known(model) == SHAPES
    assert model.graph.initializer == models.conv_net().graph.initializer


def test_a_path_is_loaded_with_its_weights(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    save_onnx(models.conv_net(), str(path), "w.bin", size_threshold=0)
    (tmp_path / "w").mkdir()
    (tmp_path / "w.bin").rename(tmp_path / "w" / "w.bin")
    model = infer_shapes(str(path), external_data_dir=str(tmp_path / "w"), allow_onnxruntime=False)
    assert known(model) == SHAPES
    assert model.graph.initializer == models.conv_net().graph.initializer


def test_large_weights_are_left_out_above_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    infer = shapes._infer_by_onnx

    def spy(model: onnx.ModelProto, *, strict: bool) -> onnx.ModelProto:
        seen.append(model.ByteSize())
        return infer(model, strict=strict)

    monkeypatch.setattr(shapes, "_infer_by_onnx", spy)
    for threshold in (None, 1):
        model = models.mlp(features=512, hidden=512)
        model = infer_shapes(model, save_to_disk_threshold_bytes=threshold, allow_onnxruntime=False)
        assert known(model) == {"h": ["batch", 512], "h_relu": ["batch", 512]}
        assert model.graph.initializer == models.mlp(features=512, hidden=512).graph.initializer
    assert seen[0] > 1_000_000
    assert seen[1] < 10_000


def test_values_that_shapes_depend_on_are_never_left_out() -> None:
    import numpy as np

    model = models.make(
        "reshape",
        [helper.make_node("Reshape", ["x", "to"], ["r"]), helper.make_node("Relu", ["r"], ["y"])],
        [models.value("x", [6])],
        [models.value("y", [2, 3])],
        weights={"to": np.array([2, 3])},
    )
    model = infer_shapes(model, save_to_disk_threshold_bytes=0, allow_onnxruntime=False)
    assert known(model) == {"r": [2, 3]}


def test_outputs_get_what_is_found_out_about_them() -> None:
    model = models.conv_net()
    model.graph.output[0].type.Clear()
    model = infer_shapes(model, allow_onnxruntime=False)
    assert model.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT


def data_dependent() -> onnx.ModelProto:
    """Return a model with a dimension that the onnx package makes up a name for."""
    return models.make(
        "data_dependent",
        [helper.make_node("NonZero", ["x"], ["at"]), helper.make_node("Neg", ["at"], ["y"])],
        [models.value("x", [4])],
        [models.value("y", [1, None], TensorProto.INT64)],
    )


def test_symbolic_inference_is_asked_for_dimensions_only_when_it_is_wanted() -> None:
    def claim(model: onnx.ModelProto) -> None:
        model.graph.value_info.append(models.value("at", [1, "symbolic"], TensorProto.INT64))

    fake = FakeShapeInference(claim)
    with bind(infer_symbolic_shapes, fake):
        infer_shapes(data_dependent())
        assert not fake.models, "it takes seconds for models whose dimensions have no numbers"
        model = infer_shapes(data_dependent(), allow_onnxruntime=True)
        assert known(model) == {"at": [1, 0]}, "a name that is not the model's claims too much"
        infer_shapes(data_dependent(), allow_onnxruntime=False)
        assert len(fake.models) == 1
        assert known(infer_shapes(models.conv_net(), allow_onnxruntime=True)) == SHAPES
        assert len(fake.models) == 1, "the onnx package knows all about that"


def test_symbolic_inference_is_asked_for_ranks() -> None:
    def claim(model: onnx.ModelProto) -> None:
        model.graph.value_info.append(models.value("r", [None, None]))

    inputs = [models.value("x", [4]), models.value("to", [None], TensorProto.INT64)]
    nodes = [helper.make_node("Reshape", ["x", "to"], ["r"]), helper.make_node("Neg", ["r"], ["y"])]
    model = models.make("ranks", nodes, inputs, [models.value("y", [None, None])])
    with bind(infer_symbolic_shapes, FakeShapeInference(claim)):
        assert known(infer_shapes(model, allow_onnxruntime=False)) == {"r": []}
        assert known(infer_shapes(model)) == {"r": [0, 0]}


def test_symbolic_inference_is_given_nodes_in_order() -> None:
    # ONNX Runtime's goes through all nodes once for each that is not: hours for 100,000.
    model = data_dependent()
    model.graph.node.sort(key=lambda node: node.op_type)
    before = model.graph.node[:]
    fake = FakeShapeInference()
    with bind(infer_symbolic_shapes, fake):
        infer_shapes(model, allow_onnxruntime=True)
    assert [node.op_type for node in before] == ["Neg", "NonZero"]
    assert [node.op_type for node in fake.models[0].graph.node] == ["NonZero", "Neg"]
    assert model.graph.node[:] == before


def test_without_it_the_onnx_package_infers_and_nobody_is_alarmed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with bind(infer_symbolic_shapes, missing()):
        assert known(infer_shapes(data_dependent(), allow_onnxruntime=True))["at"][0] == 1
    assert "[W]" not in capsys.readouterr().out


def test_when_it_gives_up_the_onnx_package_infers(capsys: pytest.CaptureFixture[str]) -> None:
    with bind(infer_symbolic_shapes, FakeShapeInference(error=BackendError("gave up."))):
        infer_shapes(data_dependent(), allow_onnxruntime=True)
    assert "gave up" in capsys.readouterr().out


def test_contradictions_matter_only_where_they_are_asked_about() -> None:
    model = contradictory()
    assert infer_shapes(model, allow_onnxruntime=False) == model
    with pytest.raises(ModelError, match="cannot be inferred"):
        infer_shapes(contradictory(), error_ok=False, allow_onnxruntime=False)


def test_what_cannot_be_inferred_at_all_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(model: object, *, strict: bool) -> None:
        raise ModelError("no")

    monkeypatch.setattr(shapes, "_infer_by_onnx", fail)
    assert infer_shapes(models.conv_net(), allow_onnxruntime=False) == models.conv_net()
    assert "Continuing without it" in capsys.readouterr().out


def test_a_vector_that_claims_to_be_endless_does_not_take_all_memory() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    m (float[N] x) => (float[N] y) <float w = {1.0}> { y = Mul(x, w) }"""
    model = parser.parse_model(text)
    model.graph.initializer[0].dims.append(2**40)
    inferred = infer_shapes(model, allow_onnxruntime=False)
    assert [value.name for value in inferred.graph.output] == ["y"]


ENDLESS = {
    "weight": "<float w = {1.0}> { y = Mul(x, w) }",
    "constant": "{ w = Constant<value = float {1.0}>()  y = Mul(x, w) }",
    "branch": """{ y = If(c) <
        then_branch = g () => (float[N] a) <float w = {1.0}> { a = Mul(x, w) },
        else_branch = h () => (float[N] b) { b = Neg(x) }> }""",
}


@pytest.mark.parametrize("place", ENDLESS)
def test_values_are_not_propagated_where_a_vector_claims_to_be_endless(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = onnx.shape_inference.infer_shapes, []

    def infer(model: onnx.ModelProto, *, data_prop: bool, strict_mode: bool) -> onnx.ModelProto:
        asked.append(data_prop)
        return real(model, data_prop=data_prop, strict_mode=strict_mode)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", infer)
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> m (float[N] x, bool c) => (float[N] y)'
        + ENDLESS[place]
    )
    infer_shapes(model, allow_onnxruntime=False)
    [tensor] = all_tensors(model)
    tensor.dims.append(2**40)
    infer_shapes(model, allow_onnxruntime=False)
    assert asked == [False, True, False, False]  # Declared types are checked without values.
