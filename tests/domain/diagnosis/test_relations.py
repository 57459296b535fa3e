"""Saved outputs that follow from the computed ones by a simple relation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polygraphy.domain.data.usual_scaling import usual_scalings
from polygraphy.domain.diagnosis.solving.relations import find_relation

VALUE = np.random.default_rng(2).normal(size=(4, 5)).astype(np.float32)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda value: value + 0.5, "has_offset"),
        (lambda value: value * 3, "has_factor"),
        (lambda value: value * 2 - 1, "has_factor_and_offset"),
        (lambda value: value / np.linalg.norm(value, axis=1, keepdims=True), "lacks_operator"),
        (lambda value: value.T, "has_other_axes"),
        (lambda value: value[:, ::-1], "is_reversed"),
        (np.round, None),
    ],
)
def test_a_simple_relation_is_found(change: Callable[[Any], Any], kind: str | None) -> None:
    relation = find_relation("y", VALUE, change(VALUE))
    assert (None if relation is None else relation.kind) == kind


def test_an_operator_of_the_computed_output_is_too_many() -> None:
    relation = find_relation("y", 1 / (1 + np.exp(-VALUE)), VALUE)
    assert relation is not None and relation.values == {"name": "y", "op": "Sigmoid"}


@pytest.mark.parametrize("value", [np.ones((4, 5)), np.arange(5.0), np.full((4, 5), np.nan)])
def test_constants_and_few_elements_prove_no_offset(value: Any) -> None:
    assert find_relation("y", value, value + 1) is None


def test_images_are_scaled_in_the_usual_ways() -> None:
    images = np.full((1, 3, 2, 2), 255.0, np.float32)
    scaled = {formula: feed["x"] for formula, feed in usual_scalings({"x": images, "n": 3})}
    assert scaled["(x - 127.5) / 127.5"].max() == 1
    assert scaled["x / 255"].dtype == np.float32
    assert [*usual_scalings({"ids": np.ones((2, 3), np.float32)})] == []
