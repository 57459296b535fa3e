"""In what a model and another export of its program differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import evolve

from polygraphy.domain.diagnosis.pairing import pair_graphs
from polygraphy.domain.diagnosis.twins import Spot, compare_twins, is_statistic
from polygraphy.domain.diagnosis.two_models import suspects
from polygraphy.domain.model.graph import (
    Attribute,
    Graph,
    Node,
    Tensor,
    Weight,
)

RANDOM = np.random.RandomState(0)
WEIGHTS = [RANDOM.randn(4, 4).astype(np.float32) for _ in range(4)]


def layers(*numbers: int) -> Graph:
    """Return products with some of the weights, one behind the other."""
    names = ["x", *(f"y{number}" for number in numbers)]
    nodes = tuple(
        Node(f"n{number}", "MatMul", "", (before, f"w{number}"), (after,))
        for number, before, after in zip(numbers, names, names[1:])
    )
    weights = tuple(Weight(f"w{i}", "float32", (4, 4), WEIGHTS[i]) for i in numbers)
    outputs = (Tensor(names[-1]),)
    return Graph(inputs=(Tensor("x"),), outputs=outputs, nodes=nodes, weights=weights)


def test_a_missing_layer_changes_no_weight() -> None:
    differences = compare_twins(layers(0, 1, 3), layers(0, 1, 2, 3))
    assert (differences.missing, differences.extra, differences.spots) == ([2], [], [])


@pytest.mark.parametrize(("is_default", "count"), [(True, 0), (False, 1)])
def test_a_default_that_is_spelled_out_is_no_difference(is_default: bool, count: int) -> None:
    stated, bare = layers(0), layers(0)
    attribute = Attribute("axis", "int", -1, is_default)
    stated = evolve(stated, nodes=(evolve(stated.nodes[0], attributes=(attribute,)),))
    for pair in ((stated, bare), (bare, stated)):
        assert len(compare_twins(*pair).spots) == count
        assert len(suspects(pair_graphs(*pair))) == count


KERNEL = RANDOM.randn(3, 2, 1, 1).astype(np.float32)


@pytest.mark.parametrize(
    ("op", "operand", "value", "parameters", "expected"),
    [
        ("Conv", 1, KERNEL * np.float32([[[[1.5]]], [[[0.5]]], [[[2]]]]), [], True),
        ("Conv", 1, KERNEL * np.float32([[[[1.5]]], [[[0.5]]], [[[2]]]]), [KERNEL], False),
        ("Conv", 1, KERNEL[::-1], [], False),
        ("BatchNormalization", 3, KERNEL * 2, [], True),
        ("BatchNormalization", 1, KERNEL * 2, [], False),
    ],
)
def test_running_statistics_scale_a_kernel_by_channel(
    op: str, operand: int, value: Any, parameters: list[Any], expected: bool
) -> None:
    spot = Spot(0, Node("n", op, "", ("x", "w"), ("y",)), "w", value, KERNEL, operand)
    assert is_statistic(spot, parameters) == expected
