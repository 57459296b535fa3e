"""What differs in an optimised graph is said of the nodes of the model that it was made of."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve

from polygraphy.domain.diagnosis.fused import region, replaced_nodes, trace_suspects
from polygraphy.domain.diagnosis.pairing import Side, pair_graphs
from polygraphy.domain.diagnosis.two_models import suspects
from polygraphy.domain.model.description import Attribute, Graph, Node, Tensor, Weight


def weight(name: str, values) -> Weight:
    array = np.asarray(values, np.float32)
    return Weight(name, "float32", array.shape, values=array)


def plain(
    *, scale=1.0, bias=1.0, mean=1.0, variance=1.0, kernel=1.0, epsilon=1e-5, alpha=0.1
) -> Graph:
    """Conv, BatchNormalization, LeakyRelu, and a product behind them."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((3, 2, 1, 1)) * kernel
    held = [
        weight("w", w),
        weight("b", rng.random(3) * bias),
        weight("s", rng.uniform(0.5, 1.5, 3) * scale),
        weight("m", rng.random(3) * mean),
        weight("v", rng.uniform(0.5, 1.5, 3) * variance),
        weight("k", rng.standard_normal((4, 4))),
    ]
    nodes = (
        Node("conv", "Conv", "", ("x", "w"), ("c",)),
        Node("norm", "BatchNormalization", "", ("c", "s", "b", "m", "v"), ("n",), (Attribute("epsilon", "float", epsilon),)),
        Node("leaky", "LeakyRelu", "", ("n",), ("l",), (Attribute("alpha", "float", alpha),)),
        Node("product", "MatMul", "", ("l", "k"), ("y",)),
    )  # fmt: skip
    return Graph(inputs=(Tensor("x"),), outputs=(Tensor("y"),), weights=tuple(held), nodes=nodes)


def fused(graph: Graph) -> Graph:
    """The same as a backend would run it: three nodes are one."""
    held = {one.name: np.asarray(one.values, np.float64) for one in graph.weights}
    epsilon = graph.nodes[1].attribute("epsilon")
    factor = held["s"] / np.sqrt(held["v"] + epsilon)
    weights = (
        weight("folded w", held["w"] * factor[:, None, None, None]),
        weight("folded b", held["b"] - held["m"] * factor),
        weight("k", held["k"]),
    )
    alpha = Attribute("activation_params", "floats", (graph.nodes[2].attribute("alpha"),))
    nodes = (
        Node(
            "fused", "FusedConv", "com.microsoft", ("x", "folded w", "folded b"), ("l",), (alpha,)
        ),
        Node("product", "MatMul", "", ("l", "k"), ("y",)),
    )
    return Graph(inputs=graph.inputs, outputs=graph.outputs, weights=weights, nodes=nodes)


def test_a_fused_node_stands_for_the_nodes_between_tensors_that_both_have():
    model = Side(plain())
    assert replaced_nodes(model, Side(fused(plain())), 0) == (0, 1, 2)
    assert region(model, "y", ["l"]) == (3,)


@pytest.mark.parametrize(
    ("fault", "node", "cause"),
    [
        ({"kernel": 1.5}, "conv", "weight"),
        ({"scale": 1.5}, "norm", "weight"),
        ({"epsilon": 0.5}, "norm", "epsilon"),
        ({"alpha": 0.7}, "leaky", "attribute"),
    ],
)
def test_the_node_is_named_that_a_folded_weight_came_from(fault, node, cause):
    model = plain(**fault)
    pairing = pair_graphs(fused(model), fused(plain()))
    side = Side(model)
    found = trace_suspects(suspects(pairing), pairing, side)
    assert {side.identity(i) for one in found for i in one.nodes} == {node}
    assert {one.cause for one in found} == {cause}


@pytest.mark.parametrize(
    ("fault", "lost", "node", "cause"),
    [
        ({"bias": 1.5}, 0.0, "norm", "weight"),
        ({"bias": np.array([1.5, 1, 1])}, 0.0, "norm", "weight"),
        ({"mean": 1.5}, 0.0, "norm", "weight"),
        ({}, np.array([0.3, -0.2, 0.1]), "conv", "structure"),
    ],
)
def test_a_convolution_lost_its_bias_only_where_the_normalisation_does_not_explain_it(
    fault, lost, node, cause
):
    """Where most convolutions have one."""
    biased = tuple(
        Node(f"biased{i}", "Conv", "", ("x", "w", "b"), (f"other{i}",)) for i in range(2)
    )
    model = plain(**fault)
    model = evolve(model, nodes=(*model.nodes, *biased))
    right = fused(plain())
    held = {one.name: one for one in right.weights}
    folded = weight("folded b", np.asarray(held["folded b"].values) + lost)
    right = evolve(right, weights=tuple({**held, "folded b": folded}.values()))
    pairing = pair_graphs(fused(plain(**fault)), right)
    side = Side(model)
    [found] = trace_suspects(suspects(pairing), pairing, side)
    assert [side.identity(index) for index in found.nodes] == [node]
    assert found.cause == cause


def test_a_node_that_is_missing_behind_fused_nodes_is_missing_beside_the_last_of_them():
    model = plain()
    right = fused(model)
    conv = evolve(right.nodes[0], op="Conv", domain="", outputs=("n",), attributes=())
    both = Node("tanh", "Tanh", "", ("n",), ("t",)), Node("sin", "Sin", "", ("t",), ("l",))
    reference = evolve(right, nodes=(conv, *both, right.nodes[1]))
    lacking = evolve(right, nodes=(conv, evolve(both[1], inputs=("n",)), right.nodes[1]))
    nodes = (*model.nodes[:2], evolve(both[1], inputs=("n",)), model.nodes[3])
    pairing = pair_graphs(lacking, reference)
    [suspect] = trace_suspects(suspects(pairing), pairing, Side(evolve(model, nodes=nodes)))
    assert [model.nodes[index].name for index in suspect.nodes] == ["norm"]
