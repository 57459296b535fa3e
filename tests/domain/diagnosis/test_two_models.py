"""A model is compared with one that is right, whatever the names in it."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve

from polygraphy.domain.diagnosis.pairing import pair_graphs
from polygraphy.domain.diagnosis.two_models import (
    change_of_weight,
    copies_more,
    plan_copies,
    suspects,
)
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


def network(blocks: int = 4, seed: int = 0) -> Graph:
    """Each block: a product, a bias, a normalization with an epsilon, and what came before, halved."""
    rng = np.random.default_rng(seed)
    nodes, weights, trunk = [], [], "x"
    for i in range(blocks):
        weights += [weight(f"w{i}", rng.standard_normal((3, 3))), weight(f"b{i}", rng.random(3))]
        weights += [weight(f"e{i}", 1e-5)]
        nodes += [
            Node(f"product{i}", "MatMul", inputs=(trunk, f"w{i}"), outputs=(f"p{i}",)),
            Node(f"bias{i}", "Add", inputs=(f"p{i}", f"b{i}"), outputs=(f"a{i}",)),
            Node(
                f"leaky{i}",
                "LeakyRelu",
                "",
                (f"a{i}",),
                (f"l{i}",),
                (Attribute("alpha", "float", 0.2),),
            ),
            Node(f"away{i}", "Add", inputs=(f"l{i}", f"e{i}"), outputs=(f"n{i}",)),
            Node(f"less{i}", "Sub", inputs=(f"n{i}", trunk), outputs=(f"t{i}",)),
        ]
        trunk = f"t{i}"
    return Graph(
        inputs=(Tensor("x"),), outputs=(Tensor(trunk),), weights=tuple(weights), nodes=tuple(nodes)
    )


def renamed(graph: Graph) -> Graph:
    kept = {tensor.name for tensor in (*graph.inputs, *graph.outputs)}

    def other(name: str) -> str:
        return name if name in kept else f"other/{sum(map(ord, name))}/{name[::-1]}"

    return evolve(
        graph,
        weights=tuple(evolve(one, name=other(one.name)) for one in graph.weights),
        nodes=tuple(
            evolve(
                n,
                name=f"op{i}",
                inputs=tuple(map(other, n.inputs)),
                outputs=tuple(map(other, n.outputs)),
            )
            for i, n in enumerate(graph.nodes)
        ),
    )


def changed_weight(graph: Graph, name: str, change) -> Graph:
    weights = (
        evolve(one, values=change(one.values)) if one.name == name else one for one in graph.weights
    )
    return evolve(graph, weights=tuple(weights))


def changed_node(graph: Graph, name: str, **fields) -> Graph:
    nodes = (evolve(one, **fields) if one.name == name else one for one in graph.nodes)
    return evolve(graph, nodes=tuple(nodes))


def without(graph: Graph, name: str) -> Graph:
    gone = next(node for node in graph.nodes if node.name == name)
    nodes = []
    for node in graph.nodes:
        if node is not gone:
            inputs = (gone.inputs[0] if one == gone.outputs[0] else one for one in node.inputs)
            nodes.append(evolve(node, inputs=tuple(inputs)))
    return evolve(graph, nodes=tuple(nodes))


def spiked(values):
    other = values.copy()
    other[1, 2] = 40.0
    return other


FAULTS = {
    "element": (lambda g: changed_weight(g, "w2", spiked), "product2", "weight", "differs in 1 of 9 elements"),
    "scaled": (lambda g: changed_weight(g, "w1", lambda v: v * 1.5), "product1", "weight", "scaled by 1.5"),
    "transposed": (lambda g: changed_weight(g, "w3", np.transpose), "product3", "weight", "is transposed"),
    "epsilon": (lambda g: changed_weight(g, "e2", lambda v: v * 0 + 0.5), "away2", "epsilon", "0.5 instead of 1e-05"),
    "attribute": (
        lambda g: changed_node(g, "leaky1", attributes=(Attribute("alpha", "float", 0.7),)),
        "leaky1",
        "attribute",
        "'alpha' of LeakyRelu is 0.7 instead of 0.2",
    ),
    "swapped": (lambda g: changed_node(g, "less1", inputs=("t0", "n1")), "less1", "structure", "are swapped"),
    "rewired": (lambda g: changed_node(g, "less1", inputs=("n1", "x")), "less1", "structure", "reads 'x' instead of 't0'"),
    "dropped": (lambda g: without(g, "bias2"), "product2", "structure", "Add is missing next to MatMul"),
}  # fmt: skip


@pytest.mark.parametrize("alike", [True, False], ids=["same names", "other names"])
@pytest.mark.parametrize("kind", FAULTS)
def test_the_node_and_the_kind_of_the_difference_are_named(kind, alike):
    change, node, cause, said = FAULTS[kind]
    right = network()
    pairing = pair_graphs(change(right), right if alike else renamed(right))
    found = suspects(pairing)
    assert [[pairing.model.nodes[i].label for i in one.nodes] for one in found] == [[node]]
    assert found[0].cause == cause
    assert said in str(found[0].change)


@pytest.mark.parametrize("seed", range(3))
def test_models_that_are_the_same_but_for_names_have_no_suspects(seed):
    graph = network(6, seed)
    assert suspects(pair_graphs(graph, renamed(graph))) == []
    assert len(pair_graphs(graph, renamed(graph)).nodes) == len(graph.nodes)


def test_two_differences_at_once_are_two_suspects():
    right = network()
    wrong = without(changed_weight(right, "w0", lambda v: v * 1.5), "bias3")
    pairing = pair_graphs(wrong, renamed(right))
    found = [(pairing.model.nodes[one.nodes[0]].label, one.cause) for one in suspects(pairing)]
    assert found == [("product0", "weight"), ("product3", "structure")]


def test_equal_branches_are_paired_with_the_weights_that_they_have():
    """Three products of one tensor, as in attention; one of their weights differs."""
    rng = np.random.default_rng(1)
    weights = [weight(name, rng.standard_normal((2, 2))) for name in "qkv"]
    nodes = [Node(f"make {n}", "MatMul", inputs=("x", n), outputs=(f"{n}x",)) for n in "qkv"]
    nodes.append(Node("all", "Concat", inputs=("qx", "kx", "vx"), outputs=("y",)))
    right = Graph(
        inputs=(Tensor("x"),), outputs=(Tensor("y"),), weights=tuple(weights), nodes=tuple(nodes)
    )
    pairing = pair_graphs(changed_weight(right, "k", lambda v: v + 1), renamed(right))
    assert [pairing.model.nodes[i].label for one in suspects(pairing) for i in one.nodes] == [
        "make k"
    ]


@pytest.mark.parametrize(
    ("op", "dtype", "small"),
    [("MatMul", "float32", 1e-3), ("Gemm", "float32", 1e-3), ("MatMul", "float16", 0.1)],
)
def test_a_small_part_of_a_weight_is_no_rounding_of_a_large_one(op: str, dtype: str, small: float):
    """One product computes boxes and scores; the difference is tiny beside the boxes' weights."""
    size = np.array([1e3] * 3 + [small] * 3)
    values = np.random.default_rng(1).uniform(1, 2, (8, 6)) * size
    flag = (Attribute("transB", "int", 1),) if op == "Gemm" else ()
    values = (values.T if flag else values).astype(dtype)
    right = Graph(
        inputs=(Tensor("x"),),
        outputs=(Tensor("y"),),
        weights=(Weight("w", dtype, values.shape, values=values),),
        nodes=(Node("head", op, "", ("x", "w"), ("y",), flag),),
    )
    for factor, count in ((1.5, 1), (1 + np.finfo(dtype).eps, 0)):
        scaled = np.where(values < 1, values * factor, values).astype(dtype)
        wrong = changed_weight(right, "w", lambda _, scaled=scaled: scaled)
        assert len(suspects(pair_graphs(wrong, renamed(right)))) == count


def test_readers_of_crossed_outputs_of_one_node_are_suspects():
    """Each reads the part of a Split that the other should."""
    nodes = [Node("split", "Split", inputs=("x",), outputs=("a", "b"))]
    nodes += [Node("one", "Tanh", inputs=("a",), outputs=("ta",))]
    nodes += [Node("two", "Sigmoid", inputs=("b",), outputs=("sb",))]
    nodes += [Node("sum", "Add", inputs=("ta", "sb"), outputs=("y",))]
    right = Graph(inputs=(Tensor("x"),), outputs=(Tensor("y"),), nodes=tuple(nodes))
    wrong = changed_node(changed_node(right, "one", inputs=("b",)), "two", inputs=("a",))
    found = suspects(pair_graphs(wrong, right))
    assert [one.nodes for one in found] == [(1,), (2,)]


@pytest.mark.parametrize("level", ["r", "n"])
def test_nodes_that_read_what_the_other_should_are_suspects_instead_of_their_readers(level: str):
    """Nodes without weights look like each other's counterparts if their inputs are exchanged."""
    weights = (weight("wa", [1.0, 2.0]), weight("wb", [3.0, 4.0]))
    nodes = [Node(f"add_{side}", "Add", "", ("x", f"w{side}"), (f"a{side}",)) for side in "ab"]
    nodes += [Node(f"r_{side}", "Relu", "", (f"a{side}",), (f"r{side}",)) for side in "ab"]
    nodes += [Node(f"n_{side}", "Neg", "", (f"r{side}",), (f"n{side}",)) for side in "ab"]
    nodes += [Node("sub", "Sub", "", ("na", "nb"), ("y",))]
    right = Graph(
        inputs=(Tensor("x"),), outputs=(Tensor("y"),), weights=weights, nodes=tuple(nodes)
    )
    before = {"r": "a", "n": "r"}[level]
    wrong = changed_node(right, f"{level}_a", inputs=(f"{before}b",))
    wrong = changed_node(wrong, f"{level}_b", inputs=(f"{before}a",))
    pairing = pair_graphs(wrong, right)
    labels = [wrong.nodes[index].name for one in suspects(pairing) for index in one.nodes]
    assert labels == [f"{level}_a", f"{level}_b"]


def test_half_precision_alone_is_no_difference():
    right = network()
    half = evolve(
        right,
        weights=tuple(
            evolve(one, dtype="float16", values=one.values.astype(np.float16))
            for one in right.weights
        ),
    )
    assert suspects(pair_graphs(half, right)) == []
    wrong = changed_weight(half, "w1", lambda v: v * np.float16(1.5))
    assert [one.cause for one in suspects(pair_graphs(wrong, right))] == ["weight"]


@pytest.mark.parametrize("after, expected", [("Relu", "weight"), ("Sqrt", "epsilon")])
def test_a_bound_of_zero_is_an_epsilon_only_before_a_root(after, expected):
    nodes = (
        Node("bound", "Clip", inputs=("x", "low"), outputs=("c",)),
        Node("after", after, inputs=("c",), outputs=("y",)),
    )
    right = Graph(
        inputs=(Tensor("x"),),
        outputs=(Tensor("y"),),
        weights=(weight("low", np.zeros((), np.float32)),),
        nodes=nodes,
    )
    wrong = changed_weight(right, "low", lambda v: v + np.float32(0.25))
    assert [one.cause for one in suspects(pair_graphs(wrong, right))] == [expected]


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (np.int64(2**53 + 1), np.int64(2**53), "is 9007199254740993 instead of 9007199254740992"),
        (np.int32([1000001, 2, 3]), np.int32([1000002, 2, 4]),
         "differs in 2 of 3 elements: 1000001 instead of 1000002 at (0,)"),
        (np.float32(0.1), np.float32(0.5), "is 0.1 instead of 0.5"),
        (np.float64(1 + 1e-8), np.float64(1), "is 1.00000001 instead of 1"),
        (np.bool_(True), np.bool_(False), "is True instead of False"),
        (np.arange(6).reshape(2, 3)[:, ::-1], np.arange(6).reshape(2, 3), "is reversed along axis 1"),
        (np.arange(16)[[*range(4), *range(12, 16), *range(4, 12)]], np.arange(16),
         "has its slices along axis 0 in the order 0-3, 12-15, 4-11"),
        (np.float16([1, 2, 1]), np.float16([1, 1, 2]),
         "differs in 2 of 3 elements: 2 instead of 1 at (1,)"),
        (np.float32([0, -np.inf]), np.float32([0, -1e4]),
         "differs in 1 of 2 elements: -inf instead of -10000 at (1,)"),
    ],
)  # fmt: skip
def test_numbers_that_differ_are_told_apart(one, other, words: str) -> None:
    assert str(change_of_weight(one, other)) == words


@pytest.mark.parametrize("kind", ["Identity", "Relu", "direct"])
def test_exchanged_outputs_are_a_difference_of_the_nodes_that_compute_them(kind: str) -> None:
    """Two outputs that are exchanged have the structure of the reference, under other names."""

    def model(first: str, second: str) -> Graph:
        split = ("a", "b") if kind != "direct" else (first, second)
        nodes = [Node("split", "Split", inputs=("x",), outputs=split)]
        if kind != "direct":
            nodes += [
                Node(f"n_{first}", "Identity", inputs=("a",), outputs=(first,)),
                Node(f"n_{second}", kind, inputs=("b",), outputs=(second,)),
            ]
        outputs = (Tensor("state"), Tensor("other"))
        return Graph(inputs=(Tensor("x"),), outputs=outputs, nodes=tuple(nodes))

    model_pair = pair_graphs(model("other", "state"), model("state", "other"))
    found = suspects(model_pair)
    assert all(suspect.cause == "structure" for suspect in found)
    nodes = [model_pair.model.nodes[suspect.nodes[0]].label for suspect in found]
    assert nodes == (["split"] if kind == "direct" else ["n_other", "n_state"])
    copies = plan_copies(model_pair, found).nodes
    made = {name: copy.inputs for copy in copies for name in copy.outputs}
    if kind == "direct":
        assert [copy.outputs for copy in copies] == [("state", "other")]
    else:
        assert made == {"state": ("a",), "other": ("b",)}


@pytest.mark.parametrize(("factor", "copies"), [(1.0, False), (2.0, True)])
def test_a_missing_node_is_no_proof_if_another_weight_is_copied_with_it(
    factor: float, copies: bool
) -> None:
    """A product behind the missing node is copied with its weight."""
    held = weight("w", np.random.default_rng(0).standard_normal((4, 4)))
    before = Node("relu", "Relu", "", ("x",), ("a",))
    product = Node("product", "MatMul", "", ("a", "w"), ("y",))
    model = Graph(
        inputs=(Tensor("x"),), outputs=(Tensor("y"),), weights=(held,), nodes=(before, product)
    )
    halved = Node("halve", "Mul", "", ("a", "half"), ("h",))
    reference = evolve(
        model,
        weights=(weight("w", held.values * factor), weight("half", [0.5])),
        nodes=(before, halved, evolve(product, inputs=("h", "w"))),
    )
    pairing = pair_graphs(model, reference)
    differing = suspects(pairing)
    missing = [one for one in differing if one.change.kind == "missing_node"]
    assert copies_more(pairing, missing) == copies
    assert not copies_more(pairing, differing)


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("Expand", "the shape of Expand is the constant [2.0, 3.0], but the reference computes it"),
        ("Where", "the input 'frozen' of Where is the constant [2.0, 3.0], but the reference"),
    ],
)
def test_a_constant_in_place_of_a_computed_input_is_named(op: str, words: str) -> None:
    relu = Node("relu", "Relu", "", ("x",), ("a",))
    reader = Node("reader", op, "", ("a", "frozen"), ("y",))
    model = Graph(
        inputs=(Tensor("x"),),
        outputs=(Tensor("y"),),
        weights=(weight("frozen", [2, 3]),),
        nodes=(relu, reader),
    )
    reference = evolve(
        model,
        weights=(),
        nodes=(
            relu,
            Node("shape", "Shape", "", ("x",), ("s",)),
            evolve(reader, inputs=("a", "s")),
        ),
    )
    [suspect] = suspects(pair_graphs(model, reference))
    assert str(suspect.change).startswith(words)
    assert str(suspect.change).endswith("with Shape")
