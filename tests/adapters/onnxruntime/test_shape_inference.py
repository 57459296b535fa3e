"""Shapes that ONNX Runtime infers."""

from __future__ import annotations

from pathlib import Path

import pytest

from polygraphy import mod
from polygraphy.adapters.onnxruntime.trial import infer_symbolic_shapes
from polygraphy.domain.errors import BackendError, MissingDependencyError
from tests.support import models

needs_sympy = pytest.mark.skipif(not mod.has_mod("sympy"), reason="sympy is not installed")


@needs_sympy
def test_tensors_get_their_shapes() -> None:
    inferred = infer_symbolic_shapes(models.mlp())
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in inferred.graph.value_info
    }
    assert shapes["h"] == ["batch", 16]


@needs_sympy
def test_the_model_stays_as_it_is() -> None:
    model = models.mlp()
    infer_symbolic_shapes(model)
    assert model == models.mlp()


@needs_sympy
def test_what_it_does_not_understand_is_a_backend_error() -> None:
    model = models.mlp()
    model.graph.node[0].input[0] = "nowhere"
    with pytest.raises(BackendError, match="symbolic shape inference failed"):
        infer_symbolic_shapes(model)


@needs_sympy
def test_nothing_is_left_behind_where_it_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = models.mlp()
    model.graph.node[1].op_type = "Unheard"
    with pytest.raises(BackendError, match="Incomplete"):
        infer_symbolic_shapes(model)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mod.LazyModule, "is_installed", lambda self: "sympy" not in repr(self))
    with pytest.raises(
        MissingDependencyError, match=r"requires sympy, which is not installed.*pip install sympy"
    ) as error:
        infer_symbolic_shapes(models.mlp())
    assert error.value.module == "sympy"
