"""Weights with which a node computes what is expected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygraphy.domain.diagnosis.solving.sizes import resize_variants
from polygraphy.domain.diagnosis.solving.weights import solve_weights
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


def test_the_value_that_fills_a_mask_may_be_infinite() -> None:
    graph = Graph(
        inputs=(Tensor("m"), Tensor("x")),
        weights=(Weight("c", "float32", (), values=np.float32(-1)),),
        nodes=(Node("fill", "Where", "", ("m", "x", "c"), ("y",)),),
    )
    feed = {"m": np.array([True, False, False]), "x": np.arange(3, dtype=np.float32)}
    outputs = [np.array([0, fill, fill], np.float32) for fill in (-1, -np.inf)]
    [found] = solve_weights(graph, 0, feed, *outputs)
    assert found.weights["c"] == -np.inf and "instead of -inf" in str(found.change)


@pytest.mark.parametrize(
    ("outputs", "sizes"),
    [
        ({"a": (4, 3), "c": (4, 5)}, [[3, 1, 5]]),
        ({"a": (4, 3), "b": (4, 2), "c": (4, 4)}, [[3, 2, 4]]),
    ],
)
def test_the_sizes_of_a_split_follow_from_its_outputs(
    outputs: dict[str, tuple[int, ...]], sizes: list[list[int]]
) -> None:
    graph = Graph(
        inputs=(Tensor("x"),),
        weights=(Weight("k", "int64", (3,), values=np.array([4, 1, 4])),),
        nodes=(Node("split", "Split", "", ("x", "k"), ("a", "b", "c"),
                    (Attribute("axis", "int", 1),)),),
    )  # fmt: skip
    found = resize_variants(graph, 0, (4, 9), (4, 4), (4, 3), outputs)
    assert [variant.weights["k"].tolist() for variant in found] == sizes


@pytest.mark.parametrize(
    ("op", "indices", "right", "attributes"),
    [
        ("ScatterND", [[0], [3], [4]], [[0], [2], [4]], ()),
        ("ScatterND", [[0, 0], [3, 1], [4, 2]], [[0, 0], [2, 1], [4, 2]], ()),
        ("ScatterElements", [[0, 1, 2], [4, 3, 1]], [[0, 1, 2], [4, 3, 0]], ()),
        ("ScatterElements", [[0], [2], [1], [1], [0]], [[0], [2], [0], [1], [0]],
         (Attribute("axis", "int", 1),)),
    ],
)  # fmt: skip
def test_the_indices_at_which_a_node_writes_are_solved(
    op: str, indices: Any, right: Any, attributes: tuple[Attribute, ...]
) -> None:
    draw, array = np.random.default_rng(1), np.array(indices)
    data = draw.standard_normal((5, 3))
    shape = (
        (*array.shape[:-1], *data.shape[array.shape[-1] :]) if op == "ScatterND" else array.shape
    )
    updates = draw.standard_normal(shape)
    axis = attributes[0].value if attributes else 0

    def output(positions: Any) -> Any:
        result = data.copy()
        if op == "ScatterND":
            result[tuple(np.moveaxis(positions, -1, 0))] = updates
        else:
            np.put_along_axis(result, positions, updates, axis)
        return result

    graph = Graph(
        inputs=(Tensor("u"),),
        weights=(
            Weight("d", "float64", data.shape, values=data),
            Weight("i", "int64", array.shape, values=array),
        ),
        nodes=(Node("write", op, "", ("d", "i", "u"), ("y",), attributes),),
    )
    found = solve_weights(graph, 0, {"u": updates}, output(array), output(np.array(right)))
    assert [variant.weights["i"].tolist() for variant in found] == [right]


@pytest.mark.parametrize("kind", ["order", "element", "transposed", "inputs", "many rows"])
def test_the_integers_of_a_product_are_solved(kind: str) -> None:
    draw = np.random.default_rng(2)
    x = draw.integers(0, 256, (20 if kind == "many rows" else 4, 8)).astype(np.uint8)
    right = draw.integers(-100, 100, (8, 8)).astype(np.int8)
    stored = {"order": np.roll(right, 1, 1), "transposed": right.T}.get(kind, right.copy())
    if kind == "inputs":
        stored[[2, 5]] = right[[5, 2]]
    if kind in ("element", "many rows"):
        stored[3, 1] += 7
    if kind == "many rows":
        stored[4:, 1] -= 3

    def output(weight: Any) -> Any:
        return (x.astype(np.int32) - 128) @ weight.astype(np.int32)

    graph = Graph(
        inputs=(Tensor("x"),),
        weights=(
            Weight("w", "int8", stored.shape, values=stored),
            Weight("z", "uint8", (), values=np.uint8(128)),
        ),
        nodes=(Node("product", "MatMulInteger", "", ("x", "w", "z"), ("y",)),),
    )
    [found] = solve_weights(graph, 0, {"x": x}, output(stored), output(right))
    assert np.array_equal(found.weights["w"], right)
    assert found.cause == "weight"


@pytest.mark.parametrize("kind", ["integer", "inputs in another order", "turned kernel"])
@pytest.mark.parametrize("op", ["ConvInteger", "QLinearConv"])
def test_the_integers_of_a_convolution_are_solved(op: str, kind: str) -> None:
    draw = np.random.default_rng(3)
    x = draw.integers(0, 256, (1, 4, 7, 7)).astype(np.uint8)
    right = draw.integers(-60, 60, (3, 4, 3, 3)).astype(np.int8)
    stored = {
        "inputs in another order": np.roll(right, 1, 1),
        "turned kernel": np.ascontiguousarray(right.swapaxes(2, 3)),
    }.get(kind, right.copy())
    if kind == "integer":
        stored[1, 2, 0, 2] += 50

    def output(weight: Any) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64) - 120, (3, 3), (2, 3))
        sums = np.einsum("nchwij,ocij->nohw", windows, weight.astype(np.int64))
        steps = np.clip(np.rint(sums * (0.02 * 0.01 / 0.1)) + 128, 0, 255)
        return sums.astype(np.int32) if op == "ConvInteger" else steps.astype(np.uint8)

    numbers = {"s": 0.02, "ws": 0.01, "ys": 0.1}
    scales = tuple(
        Weight(n, "float32", (), values=np.float32(value)) for n, value in numbers.items()
    )
    zeros = (
        Weight("z", "uint8", (), values=np.uint8(120)),
        Weight("wz", "int8", (), values=np.int8(0)),
        Weight("yz", "uint8", (), values=np.uint8(128)),
    )
    long = ("x", "s", "z", "w", "ws", "wz", "ys", "yz")
    inputs = ("x", "w", "z", "wz") if op == "ConvInteger" else long
    graph = Graph(
        inputs=(Tensor("x"),),
        weights=(Weight("w", "int8", stored.shape, values=stored), *scales, *zeros),
        nodes=(Node("product", op, "", inputs, ("y",)),),
    )
    found = solve_weights(graph, 0, {"x": x}, output(stored), output(right))
    assert any(np.array_equal(variant.weights["w"], right) for variant in found)
