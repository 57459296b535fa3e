"""What models cost, computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from polygraphy.domain.model import Attribute, Graph, Model, Node, Tensor, Weight
from polygraphy.domain.model.statistics import multiply_accumulates, statistics_of


def node(op: str, inputs: str, output: str = "y", **attributes: Any) -> Node:
    made = tuple(Attribute(name, "any", value) for name, value in attributes.items())
    return Node(op.lower(), op, inputs=tuple(inputs.split()), outputs=(output,), attributes=made)


@pytest.mark.parametrize(
    ("made", "shapes", "expected"),
    [
        (node("MatMul", "a b"), {"a": (2, 3, 4), "b": (4, 5), "y": (2, 3, 5)}, 2 * 3 * 5 * 4),
        (node("Gemm", "a b"), {"a": (3, 4), "b": (4, 5), "y": (3, 5)}, 60),
        (node("Gemm", "a b", transA=1), {"a": (4, 3), "b": (4, 5), "y": (3, 5)}, 60),
        (
            node("Conv", "x w"),
            {"x": (1, 4, 9, 9), "w": (8, 2, 3, 3), "y": (1, 8, 7, 7)},
            8 * 49 * 2 * 9,
        ),
        (
            node("ConvTranspose", "x w"),
            {"x": (1, 4, 7, 7), "w": (4, 8, 3, 3), "y": (1, 8, 9, 9)},
            4 * 49 * 8 * 9,
        ),
        (
            node("Einsum", "a b", equation="bij, bjk -> bik"),
            {"a": (2, 3, 4), "b": (2, 4, 5)},
            2 * 3 * 4 * 5,
        ),
        (
            node("LSTM", "x w r"),
            {"x": (6, 2, 3), "w": (1, 16, 3), "r": (1, 16, 4)},
            6 * 2 * (16 * 3 + 16 * 4),
        ),
        (node("MatMul", "a b"), {"b": (4, 5)}, None),
        (node("Einsum", "a", equation="...i"), {"a": (2, 3)}, None),
    ],
)
def test_multiply_accumulates(made: Node, shapes: dict[str, Any], expected: int | None) -> None:
    assert multiply_accumulates(made, shapes) == expected


def chain() -> Graph:
    """x -> a -> b -> y, where x is needed until b; a is by far the largest."""
    nodes = (node("Exp", "x", "a"), node("Add", "a x", "b"), node("Relu", "b", "y"))
    sizes = {"x": 10, "a": 100, "b": 20, "y": 5}
    tensors = {name: Tensor(name, "float32", ("n", size)) for name, size in sizes.items()}
    return Graph(
        inputs=(tensors["x"],),
        outputs=(tensors["y"],),
        weights=(Weight("w", "float16", (7, 3), 42),),
        node_count=3,
        nodes=nodes,
        tensors=tensors,
    )


def test_the_peak_counts_what_lives_at_the_same_time() -> None:
    found = statistics_of(Model("m", chain()))
    assert found.activation_peak == 4 * (10 + 100 + 20)
    assert found.peak_node == "add"
    assert found.dynamic_dims == ("n",)
    assert (found.parameters, found.weight_bytes, found.nodes) == (21, 42, 3)
    assert found.ops == {"Add": 1, "Exp": 1, "Relu": 1}


def test_tensors_of_unknown_size_are_counted() -> None:
    graph = chain()
    tensors = {name: one for name, one in graph.tensors.items() if name != "a"}
    made = Graph(inputs=graph.inputs, outputs=graph.outputs, nodes=graph.nodes, tensors=tensors)
    found = statistics_of(Model("m", made))
    assert found.tensors_unknown == 1
    assert found.activation_peak == 4 * (10 + 20)


def test_what_an_inner_graph_reads_lives_until_then() -> None:
    inner = Graph(nodes=(node("Relu", "a", "z"),), outputs=(Tensor("z"),))
    choice = Node(
        "if", "If", inputs=("c",), outputs=("y",), attributes=(Attribute("b", "graph", inner),)
    )
    tensors = {
        name: Tensor(name, "float32", (size,))
        for name, size in {"x": 1, "a": 10, "c": 100, "y": 1000}.items()
    }
    graph = Graph(
        inputs=(tensors["x"],),
        outputs=(tensors["y"],),
        nodes=(node("Exp", "x", "a"), node("Not", "x", "c"), choice),
        tensors=tensors,
    )
    found = statistics_of(Model("m", graph))
    assert found.activation_peak == 4 * 1110
    assert found.nodes == 4
