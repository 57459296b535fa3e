"""The data that a diagnosis runs models on."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from polygraphy.adapters.onnx.run.half_precision import OnnxNarrowModels
from polygraphy.application.diagnose.data import feeds_of
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.tensors.datatype import DataType
from tests.support.models import make, value


def test_data_are_of_several_seeds_and_both_signs() -> None:
    nodes = [helper.make_node("Gather", ["x", "i"], ["y"])]
    inputs = [value("x", (5, 40)), value("i", (3,), TensorProto.INT64)]
    model = OnnxNarrowModels().open(
        make("data", nodes, inputs, [value("y", (3, 40))]), DataType.FLOAT16
    )
    for given in (None, DataLoader(), DataLoader(seed=7)):
        plain, signed, wide = feeds_of(model, given)
        assert plain["x"].min() >= 0
        assert -1 <= signed["x"].min() < -0.5 < 0.5 < signed["x"].max() <= 1
        assert np.abs(wide["x"]).max() > 2
        assert all((feed["i"] >= 0).all() for feed in (plain, signed, wide))
    chosen = feeds_of(model, DataLoader(val_range=(5.0, 6.0)))
    assert [feed["x"].min() >= 5 for feed in chosen] == [True]
