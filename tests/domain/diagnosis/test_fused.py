"""What differs in an optimized graph is said of the nodes of the model that it was made of."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve

from polygraphy.domain.diagnosis.fused import (
    is_open_trace,
    nodes_behind_fused,
    region,
    trace_suspects,
)
from polygraphy.domain.diagnosis.pairing import pair_graphs
from polygraphy.domain.diagnosis.two_models import Suspect, suspects
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import (
    Attribute,
    Graph,
    Node,
    Tensor,
    Weight,
)


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
    model = plain()
    assert nodes_behind_fused(model, fused(plain()), 0) == (0, 1, 2)
    assert region(model, "y", ["l"]) == (3,)


def test_what_else_differs_in_a_fused_node_is_in_the_node_of_its_operator():
    model, pairing = plain(), pair_graphs(fused(plain()), fused(plain()))
    suspect = Suspect((0,), "structure", changes.differs())
    [found] = trace_suspects([suspect], pairing, model)
    assert [model.nodes[index].label for index in found.nodes] == ["conv"]


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
    side = model
    found = trace_suspects(suspects(pairing), pairing, side)
    assert {side.nodes[i].label for one in found for i in one.nodes} == {node}
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
def test_a_convolution_lost_its_bias_only_where_the_normalization_does_not_explain_it(
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
    side = model
    [found] = trace_suspects(suspects(pairing), pairing, side)
    assert [side.nodes[index].label for index in found.nodes] == [node]
    assert found.cause == cause


@pytest.mark.parametrize(
    ("offset", "nodes"),
    [(lambda own: own * 0.5, ["conv"]), (lambda own: np.array([0.3, 0, 0]), ["conv", "norm"])],
)
def test_an_offset_is_of_the_bias_or_the_normalization_if_it_does_not_tell_them_apart(
    offset, nodes
):
    """A backend may store the bias with zeros at the end."""
    bare = plain()
    bias = weight("own", [0.4, -0.7, 0.2])
    conv = evolve(bare.nodes[0], inputs=("x", "w", "own"))
    model = evolve(bare, weights=(*bare.weights, bias), nodes=(conv, *bare.nodes[1:]))
    held = {one.name: np.asarray(one.values, np.float64) for one in model.weights}
    added = held["own"] * held["s"] / np.sqrt(held["v"] + 1e-5)

    def folded(numbers):
        graph = fused(bare)
        [first, second, *rest] = graph.weights
        array = np.pad(np.asarray(second.values) + numbers, (0, 5))
        return evolve(graph, weights=(first, weight(second.name, array), *rest))

    pairing = pair_graphs(folded(added), folded(added + offset(added)))
    [suspect] = trace_suspects(suspects(pairing), pairing, model)
    assert [model.nodes[index].label for index in suspect.nodes] == nodes
    assert is_open_trace(suspect, model) == (len(nodes) > 1)


def test_a_node_that_is_missing_behind_fused_nodes_is_missing_beside_the_last_of_them():
    model = plain()
    right = fused(model)
    conv = evolve(right.nodes[0], op="Conv", domain="", outputs=("n",), attributes=())
    both = Node("tanh", "Tanh", "", ("n",), ("t",)), Node("sin", "Sin", "", ("t",), ("l",))
    reference = evolve(right, nodes=(conv, *both, right.nodes[1]))
    lacking = evolve(right, nodes=(conv, evolve(both[1], inputs=("n",)), right.nodes[1]))
    nodes = (*model.nodes[:2], evolve(both[1], inputs=("n",)), model.nodes[3])
    pairing = pair_graphs(lacking, reference)
    [suspect] = trace_suspects(suspects(pairing), pairing, evolve(model, nodes=nodes))
    assert [model.nodes[index].name for index in suspect.nodes] == ["norm"]


def activated(*activations: str) -> Graph:
    """Convolutions with these activations; nothing stands behind one whose name is empty."""
    nodes, held, read = [], [], "x"
    for number, op in enumerate(activations):
        held.append(
            weight(f"w{number}", np.random.default_rng(number).standard_normal((4, 4, 1, 1)))
        )
        nodes.append(Node(f"conv{number}", "Conv", "", (read, f"w{number}"), (f"c{number}",)))
        if op:
            nodes.append(Node(f"act{number}", op, "", (f"c{number}",), (f"a{number}",)))
        read = nodes[-1].outputs[0]
    nodes.append(Node("last", "Flatten", "", (read,), ("y",)))
    return Graph(
        inputs=(Tensor("x"),), outputs=(Tensor("y"),), weights=tuple(held), nodes=tuple(nodes)
    )


def in_blocks(graph: Graph, *activations: str) -> Graph:
    """The same with fused convolutions whose data have another layout, under other names."""
    nodes, read = [], "x"
    for number, op in enumerate(activations):
        attributes = (Attribute("activation", "string", op),) if op else ()
        made = f"reordered{number}"
        nodes.append(
            Node(f"f{number}", "Conv", "com.nchwc", (read, f"w{number}"), (made,), attributes)
        )
        read = made
    nodes.append(Node("last", "Flatten", "", (read,), ("y",)))
    return evolve(graph, nodes=tuple(nodes))


@pytest.mark.parametrize(
    ("made", "right", "node", "change"),
    [
        (("", "Relu"), ("HardSwish", "Relu"), "conv0", "missing_node"),
        (("Relu", ""), ("Relu", "HardSwish"), "conv1", "missing_node"),
        (("Relu", "Relu"), ("Relu", ""), "act1", "extra_node"),
        (("Relu", "Tanh"), ("Relu", "HardSwish"), "act1", "other_operator"),
    ],
)
def test_an_activation_is_named_where_the_fused_nodes_have_no_tensor_in_common(
    made, right, node, change
):
    model = activated(*made)
    pairing = pair_graphs(in_blocks(model, *made), in_blocks(activated(*right), *right))
    [suspect] = trace_suspects(suspects(pairing), pairing, model)
    assert [model.nodes[index].label for index in suspect.nodes] == [node]
    assert (suspect.cause, suspect.change.kind) == ("structure", change)
    assert not is_open_trace(suspect, model)


def test_an_activation_is_missing_behind_the_bias_that_was_fused() -> None:
    model, right = activated("", "Relu"), activated("HardSwish", "Relu")
    bias = Node("bias0", "Add", "", ("c0", "b0"), ("s0",))
    second = evolve(model.nodes[1], inputs=("s0", *model.nodes[1].inputs[1:]))
    nodes = (model.nodes[0], bias, second, *model.nodes[2:])
    model = evolve(model, nodes=nodes, weights=(*model.weights, weight("b0", [[[1.0]]])))
    pairing = pair_graphs(in_blocks(model, "", "Relu"), in_blocks(right, "HardSwish", "Relu"))
    [suspect] = trace_suspects(suspects(pairing), pairing, model)
    assert [model.nodes[index].label for index in suspect.nodes] == ["bias0"]


def test_an_activation_of_one_of_several_equal_convolutions_is_of_any_of_them():
    model, right = activated("", "Relu"), activated("HardSwish", "Relu")
    same = {one.name: evolve(one, values=model.weights[0].values) for one in model.weights}
    model, right = (evolve(one, weights=tuple(same.values())) for one in (model, right))
    pairing = pair_graphs(in_blocks(model, "", "Relu"), in_blocks(right, "HardSwish", "Relu"))
    [suspect] = trace_suspects(suspects(pairing), pairing, model)
    assert is_open_trace(suspect, model)
    assert {"conv0", "conv1"} <= {model.nodes[index].label for index in suspect.nodes}


def sequential_blocks(count: int, alike: bool, **fault: float) -> Graph:
    """Convolutions, each with a normalization and Relu; `fault` is in the second of them."""
    nodes, held = [], []
    for i in range(count):
        rng = np.random.default_rng(0 if alike else i)
        factor = {"scale": 1.0, "bias": 1.0, **(fault if i == 1 else {})}
        held += [
            weight(f"w{i}", rng.standard_normal((4, 4, 1, 1))),
            weight(f"s{i}", rng.uniform(0.5, 1.5, 4) * factor["scale"]),
            weight(f"b{i}", rng.random(4) * factor["bias"]),
            weight(f"m{i}", rng.random(4)),
            weight(f"v{i}", rng.uniform(0.5, 1.5, 4)),
        ]
        read = (f"c{i}", f"s{i}", f"b{i}", f"m{i}", f"v{i}")
        nodes += [
            Node(f"conv{i}", "Conv", "", (f"r{i - 1}" if i else "x", f"w{i}"), (f"c{i}",)),
            Node(f"norm{i}", "BatchNormalization", "", read, (f"n{i}",)),
            Node(f"relu{i}", "Relu", "", (f"n{i}",), (f"r{i}",)),
        ]
    last = Tensor(f"r{count - 1}")
    return Graph(inputs=(Tensor("x"),), outputs=(last,), weights=tuple(held), nodes=tuple(nodes))


def reordered(graph: Graph) -> Graph:
    """The same in blocks: no tensor between keeps its name, and weights are in another order."""
    held = {one.name: np.asarray(one.values, np.float64) for one in graph.weights}
    nodes, weights, count = [], [], len(graph.nodes) // 3
    for i in range(count):
        factor = held[f"s{i}"] / np.sqrt(held[f"v{i}"] + 1e-5)
        folded = (held[f"w{i}"] * factor[:, None, None, None]).transpose(1, 2, 3, 0)
        bias = held[f"b{i}"] - held[f"m{i}"] * factor
        weights += [
            weight(f"blocks{i}", np.concatenate([folded, np.zeros((4, 1, 1, 4))], axis=2)),
            weight(f"blocks of bias {i}", np.concatenate([bias, np.zeros(4)])),
        ]
        read = (f"token{i - 1}" if i else "x", f"blocks{i}", f"blocks of bias {i}")
        nodes.append(Node(f"fused{i}", "Conv", "com.microsoft.nchwc", read, (f"token{i}",)))
    (last,) = graph.outputs
    back = Node(
        "back", "ReorderOutput", "com.microsoft.nchwc", (f"token{count - 1}",), (last.name,)
    )
    return evolve(graph, weights=tuple(weights), nodes=(*nodes, back))


@pytest.mark.parametrize(
    ("fault", "alike", "names", "is_open"),
    [
        ({"bias": 1.5}, False, {"norm1"}, False),
        ({"scale": 1.5}, False, {"norm1"}, False),
        ({"bias": 1.5}, True, {"norm0", "norm1", "norm2"}, True),
    ],
)
def test_a_reordered_weight_is_of_the_node_whose_values_it_has_or_of_an_unknown_one(
    fault, alike, names, is_open
):
    model = sequential_blocks(3, alike, **fault)
    pairing = pair_graphs(reordered(model), reordered(sequential_blocks(3, alike)))
    side = model
    found = trace_suspects(suspects(pairing), pairing, side)
    assert {side.nodes[index].label for one in found for index in one.nodes} == names
    assert {is_open_trace(one, side) for one in found} == {is_open}
