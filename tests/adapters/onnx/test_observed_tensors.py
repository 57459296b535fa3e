"""How tensors of a model are observed."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from polygraphy.domain.errors import BackendError, UnknownNameError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.ports.running import input_metadata, observe_tensors, output_names
from tests.support import classifier_files, models

FEED = {"image": np.full((2, 3, 4, 4), 0.5, np.float32), "mask": np.ones((2, 1, 4, 4), np.float32)}


def test_inputs_and_outputs_are_described() -> None:
    inputs = input_metadata(classifier_files.masked_mean())
    assert list(inputs) == ["image", "mask"] and inputs["mask"].dtype == DataType.FLOAT32
    assert inputs["mask"].shape == ["b", 1, 224, 224]
    assert output_names(classifier_files.masked_mean()) == ["output"]


def test_tensors_are_observed_wherever_they_are() -> None:
    model = classifier_files.masked_mean()
    before = model.SerializeToString(deterministic=True)
    found = observe_tensors(model, FEED, ["output", "masked", "image"])
    assert list(found) == ["output", "masked", "image"]
    assert found["output"].shape == (2, 3, 1, 1) and (found["masked"] == 0.5).all()
    assert found["image"] is FEED["image"]
    assert model.SerializeToString(deterministic=True) == before


def test_scalars_stay_scalars() -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"])
    model = models.make("scalar", [node], [models.value("x", ())], [models.value("y", ())])
    assert observe_tensors(model, {"x": np.float32(2)}, ["y"])["y"].shape == ()
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    model = models.make("turned", [node], [models.value("x", (3, 2))], [models.value("y", (3, 2))])
    assert (observe_tensors(model, {"x": turned}, ["y"])["y"] == 2 * turned).all()


def test_what_cannot_be_observed_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="'nope'"):
        observe_tensors(classifier_files.masked_mean(), FEED, ["nope"])
    with pytest.raises(BackendError):
        observe_tensors(models.custom_op(), {"x": np.ones((1, 4), np.float32)}, ["y"])
