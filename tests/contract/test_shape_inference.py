"""What every shape inference promises, asked of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from polygraphy import mod
from polygraphy.adapters.fake import FakeShapeInference
from polygraphy.adapters.onnxruntime.trial import OnnxrtShapeInference
from polygraphy.domain.errors import BackendError, MissingDependencyError
from polygraphy.ports.binding import resolve
from polygraphy.ports.editing import ShapeInference
from tests.support import models

INFERENCES: dict[str, Callable[[], ShapeInference]] = {
    "onnxruntime": OnnxrtShapeInference,
    "fake": lambda: FakeShapeInference(
        lambda model: model.graph.value_info.append(models.value("h", ["batch", 16]))
    ),
}
needs_sympy = pytest.mark.skipif(not mod.has_mod("sympy"), reason="sympy is not installed")


@pytest.fixture(params=[pytest.param("onnxruntime", marks=needs_sympy), "fake"])
def inference(request: pytest.FixtureRequest) -> ShapeInference:
    return INFERENCES[request.param]()


def test_tensors_get_their_shapes(inference: ShapeInference) -> None:
    inferred = inference.infer(models.mlp())
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in inferred.graph.value_info
    }
    assert shapes["h"] == ["batch", 16]


def test_the_model_stays_as_it_is(inference: ShapeInference) -> None:
    model = models.mlp()
    inference.infer(model)
    assert model == models.mlp()


@needs_sympy
def test_what_it_does_not_understand_is_a_backend_error() -> None:
    model = models.mlp()
    model.graph.node[0].input[0] = "nowhere"
    with pytest.raises(BackendError, match="gave up"):
        OnnxrtShapeInference().infer(model)


@needs_sympy
def test_nothing_is_left_behind_where_it_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = models.mlp()
    model.graph.node[1].op_type = "Unheard"
    with pytest.raises(BackendError, match="Incomplete"):
        OnnxrtShapeInference().infer(model)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mod.LazyModule, "is_installed", lambda self: "sympy" not in repr(self))
    with pytest.raises(
        MissingDependencyError, match=r"sympy is not installed.*pip install sympy"
    ) as error:
        OnnxrtShapeInference().infer(models.mlp())
    assert error.value.module == "sympy"


def test_the_one_that_is_used() -> None:
    assert isinstance(resolve(ShapeInference), OnnxrtShapeInference)
