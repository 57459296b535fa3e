"""Weights with which a node computes what is expected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygraphy.domain.diagnosis.solving import solve_weights
from polygraphy.domain.model.graph import Attribute, Graph, Node, Tensor, Weight


@pytest.mark.parametrize(
    ("op", "factors", "turns"),
    [("MatMul", {}, False), ("Gemm", {"alpha": 2.0}, False), ("Gemm", {"alpha": 0.5}, True)],
)
def test_the_weight_of_a_product_is_solved_with_its_factor_and_order(
    op: str, factors: dict[str, float], turns: bool
) -> None:
    draw = np.random.default_rng(1)
    x, stored, right = (draw.standard_normal(shape) for shape in ((9, 4), (4, 3), (4, 3)))
    alpha = factors.get("alpha", 1.0)
    attributes: tuple[Attribute, ...] = (Attribute("alpha", "float", alpha),) if factors else ()
    if turns:
        attributes = (*attributes, Attribute("transB", "int", 1))
        stored, right = stored.T, right.T

    def output(weight: Any) -> Any:
        return alpha * x @ (weight.T if turns else weight)

    graph = Graph(
        inputs=(Tensor("x"),),
        weights=(Weight("w", "float64", stored.shape, values=stored),),
        nodes=(Node("product", op, "", ("x", "w"), ("y",), attributes),),
    )
    found = [*solve_weights(graph, 0, {"x": x}, output(stored), output(right))]
    assert any(np.allclose(variant.weights["w"], right) for variant in found)
