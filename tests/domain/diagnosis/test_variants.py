"""A node that was changed is recognized by what it may have been."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve

from polygraphy.domain.diagnosis.solving.integers import integer_variants
from polygraphy.domain.diagnosis.solving.likely_cause import guess_cause
from polygraphy.domain.diagnosis.variants import matches_expected, variants
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import (
    Attribute,
    Graph,
    Node,
    Tensor,
    Weight,
)


def side(*nodes: Node, **weights) -> Graph:
    held = [
        Weight(k, str(np.asarray(v).dtype), np.shape(v), values=np.asarray(v))
        for k, v in weights.items()
    ]
    return Graph(inputs=(Tensor("x"),), weights=tuple(held), nodes=nodes)


def numbers(**values) -> tuple[Attribute, ...]:
    kinds = {float: "float", int: "int", tuple: "ints"}
    return tuple(Attribute(k, kinds[type(v)], v) for k, v in values.items())


CASES = {
    "epsilon": (
        Node("n", "BatchNormalization", "", ("x", "s", "s", "s", "s"), ("y",), numbers(epsilon=0.5)),
        "epsilon",
        numbers(epsilon=1e-5),
    ),
    "alpha": (Node("n", "LeakyRelu", "", ("x",), ("y",), numbers(alpha=0.6)), "attribute", numbers(alpha=0.2)),
    "switch": (
        Node("n", "Gemm", "", ("x", "w"), ("y",), numbers(transB=1)),
        "attribute",
        numbers(transB=0),
    ),
    "axis": (Node("n", "Softmax", "", ("x",), ("y",), numbers(axis=-2)), "attribute", numbers(axis=-1)),
    "pads": (
        Node("n", "Conv", "", ("x", "w"), ("y",), numbers(kernel_shape=(3, 3), pads=(0, 1, 2, 1))),
        "attribute",
        numbers(kernel_shape=(3, 3), pads=(1, 1, 1, 1)),
    ),
    "direction": (
        Node("n", "Scan", "", ("s", "x"), ("e", "y"), numbers(num_scan_inputs=1, scan_input_directions=(1,))),
        "attribute",
        numbers(num_scan_inputs=1, scan_input_directions=(0,)),
    ),
}  # fmt: skip


def test_a_loop_may_have_made_a_round_more_or_less():
    loop = side(Node("n", "Loop", "", ("count", "", "x"), ("y",)), count=np.array(3))
    assert [int(one.weights["count"]) for one in variants(loop, 0)] == [4, 2]


def test_any_two_parameters_of_a_normalization_may_have_changed_places():
    norm = side(Node("n", "BatchNormalization", "", ("x", "scale", "bias", "mean", "var"), ("y",)))
    read = [one.node.inputs[1:] for one in variants(norm, 0) if one.change.kind == "swapped_inputs"]
    assert ("mean", "bias", "scale", "var") in read
    assert ("var", "bias", "mean", "scale") in read


def test_a_loop_that_its_condition_ends_has_no_rounds_to_change():
    endless = np.array(np.iinfo(np.int64).max)
    loop = side(Node("n", "Loop", "", ("count", "more", "x"), ("y",)), count=endless)
    assert not [*variants(loop, 0)]


@pytest.mark.parametrize("kind", CASES)
def test_the_node_as_it_was_is_among_what_it_may_have_been(kind):
    node, cause, right = CASES[kind]
    found = list(variants(side(node, s=np.ones(3), w=np.ones((3, 3))), 0))
    same = [one for one in found if sorted(one.node.attributes, key=str) == sorted(right, key=str)]
    assert [one.cause for one in same] == [cause]


def test_inputs_are_swapped_only_where_their_order_counts():
    for op, expected in (("Sub", [("b", "x")]), ("Add", [])):
        found = variants(side(Node("n", op, "", ("x", "b"), ("y",))), 0)
        assert [one.node.inputs for one in found if one.node.op == op] == expected


def test_operators_with_the_same_operands_and_words_are_tried():
    found = variants(side(Node("n", "Mul", "", ("x", "b"), ("y",))), 0)
    assert {"Add", "Sub", "Div"} <= {one.node.op for one in found if one.cause == "structure"}
    held = (Attribute("mode", "string", "linear"),)
    found = variants(side(Node("n", "Resize", "", ("x", "", "b"), ("y",), held)), 0)
    modes = {one.node.attribute("mode") for one in found if one.cause == "attribute"}
    assert {"nearest", "cubic"} <= modes


def test_division_and_remainder_are_tried_in_place_of_each_other():
    remainder = side(Node("n", "Mod", "", ("x", "b"), ("y",), numbers(fmod=1)))
    assert {one.node.op: one.node.attributes for one in variants(remainder, 0)}["Div"] == ()
    quotient = side(Node("n", "Div", "", ("x", "b"), ("y",)))
    assert "Mod" in {one.node.op for one in variants(quotient, 0)}


def test_another_operator_has_no_attributes_that_it_does_not_know():
    leaky = side(Node("n", "LeakyRelu", "", ("x",), ("y",), numbers(alpha=0.1)))
    found = {one.node.op: one.node.attributes for one in variants(leaky, 0)}
    assert found["Relu"] == ()
    assert found["Elu"] == numbers(alpha=0.1)
    pool = numbers(kernel_shape=(2, 2), count_include_pad=1)
    found = variants(side(Node("n", "AveragePool", "", ("x",), ("y",), pool)), 0)
    assert [v.node.attributes for v in found if v.node.op == "MaxPool"] == [pool[:1]]
    found = variants(side(Node("n", "MaxPool", "", ("x",), ("y",), pool[:1])), 0)
    assert pool in [v.node.attributes for v in found if v.node.op == "AveragePool"]


def test_a_convolution_without_the_bias_that_others_have_lacks_it():
    nodes = [
        Node(f"n{i}", "Conv", "", (f"x{i}", "w", *["b"] * (i > 0)), (f"y{i}",)) for i in range(3)
    ]
    made = side(*nodes, w=np.ones((3, 3, 1, 1)), b=np.ones(3))
    assert guess_cause(made, 0, np.ones((1, 3, 1, 1)), np.zeros((1, 3, 1, 1))) == (
        "structure", changes.missing_bias("Conv"),
    )  # fmt: skip


def test_a_number_that_keeps_another_from_zero_is_an_epsilon():
    add = Node("n", "Add", "", ("x", "e"), ("a",))
    root = Node("m", "Sqrt", "", ("a",), ("y",))
    found = list(variants(side(add, root, e=np.float32(0.5)), 0))
    assert {one.cause for one in found if one.node.op == "Add"} == {"epsilon"}
    assert any(one.weights["e"] == np.float32(1e-5) for one in found)
    assert "epsilon" not in {
        one.cause for one in variants(side(add, evolve(root, op="Neg"), e=np.float32(0.5)), 0)
    }


def test_the_other_half_of_a_pair_says_what_a_scale_was():
    one = Node("q", "QuantizeLinear", "", ("x", "s", "z"), ("a",))
    other = Node("d", "DequantizeLinear", "", ("a", "t", "z"), ("y",))
    numbers_of = {"s": np.float32(0.1), "t": np.float32(0.2), "z": np.uint8(3)}
    (found,) = variants(side(one, other, **numbers_of), 0)
    assert (found.cause, found.node.inputs) == ("quantization", ("x", "t", "z"))
    assert not list(variants(side(one, evolve(other, inputs=("a", "s", "z")), **numbers_of), 0))


def test_a_constant_difference_along_channels_is_a_bias():
    expected = np.random.default_rng(0).standard_normal((1, 3, 4, 4))
    made = expected - np.array([1.0, 2.0, -3.0])[:, None, None]
    bare = side(Node("n", "Conv", "", ("x", "w"), ("y",)), w=np.ones((3, 3, 1, 1)))
    assert guess_cause(bare, 0, made, expected)[0] == "structure"
    assert guess_cause(bare, 0, expected * 1.5, expected)[0] == "changed"


def test_no_cause_is_named_that_was_not_tested():
    node = Node("n", "Conv", "", ("x", "w", "b"), ("y",))
    made = side(node, w=np.ones((3, 3, 1, 1)), b=np.ones(3))
    expected = np.random.default_rng(0).standard_normal((1, 3, 4, 4))
    unknown = "changed", changes.unknown_change("Conv")
    assert guess_cause(made, 0, expected * 1.5, expected) == unknown
    assert guess_cause(made, 0, expected + 1, expected) == ("weight", changes.other_bias("b"))
    one = expected[..., :1, :1]  # Too little to tell.
    assert guess_cause(made, 0, one + 1, one) == unknown


def test_only_rounding_is_explained():
    right = np.array([1.0, -2.0, 3.0])
    assert matches_expected(right + 1e-6, right)
    assert not matches_expected(right + 1e-2, right)
    assert not matches_expected(right[:2], right)
    assert not matches_expected(np.array([1.0, np.nan, 3.0]), right)


@pytest.mark.parametrize("fill", [-1e9, -np.inf, np.nan])
def test_what_a_mask_fills_hides_no_difference(fill: float) -> None:
    masked = np.array([1.0, -2.0, fill, fill, 3.0, fill])
    assert matches_expected(masked.copy(), masked)
    assert not matches_expected(np.array([1.0, -2.0, fill, fill, 3.1, fill]), masked)
    assert not matches_expected(np.array([1.0, -2.0, fill, 0.0, 3.0, fill]), masked)


def test_a_permutation_the_axes_of_a_reduction_and_switches_are_tried():
    node = Node("n", "Transpose", "", ("x",), ("y",), numbers(perm=(0, 2, 1)))
    found = {one.node.attribute("perm") for one in variants(side(node), 0)}
    assert {(0, 1, 2), (1, 0, 2), (2, 1, 0)} <= found and (0, 2, 1) not in found
    node = Node("n", "ReduceMean", "", ("x",), ("y",), numbers(axes=(1,)))
    assert (1, 2) in {one.node.attribute("axes") for one in variants(side(node), 0)}
    node = Node("n", "ReduceMean", "", ("x", "axes"), ("y",))
    tried = [one.weights["axes"] for one in variants(side(node, axes=[1]), 0) if one.weights]
    assert [1, 2] in [array.tolist() for array in tried]
    for op, name, value in (("TopK", "largest", 0), ("CumSum", "reverse", 1)):
        found = variants(side(Node("n", op, "", ("x",), ("y",))), 0)
        assert value in {one.node.attribute(name) for one in found}


def test_what_is_said_of_another_shape_is_that_the_shape_is_another():
    node = Node("n", "Transpose", "", ("x",), ("y",), numbers(perm=(1, 0, 2)))
    expected = "attribute", changes.other_output_shape("Transpose", (2, 3), (3, 2))
    assert guess_cause(side(node), 0, np.ones((2, 3)), np.ones((3, 2))) == expected
    node = Node("n", "Tile", "", ("x", "w"), ("y",))
    assert guess_cause(side(node, w=[2]), 0, np.ones(2), np.ones(3))[0] == "changed"
    node = Node("n", "MaxPool", "", ("x",), ("y",), numbers(kernel_shape=(2, 2)))
    assert guess_cause(side(node), 0, np.ones(3), np.zeros(3))[0] == "changed"  # Or AveragePool.


def test_a_weight_that_a_node_with_graphs_reads_is_not_blamed() -> None:
    body = Graph(inputs=(Tensor("now"),), nodes=(Node("t", "Tanh", "", ("now",), ("after",)),))
    node = Node("s", "Scan", "", ("w", "x"), ("y",), (Attribute("body", "graph", body),))
    cause, said = guess_cause(side(node, w=np.ones(2)), 0, np.ones(2), np.zeros(2))
    assert (cause, said) == ("changed", changes.other_subgraph("Scan"))


def test_the_branches_of_a_tree_are_not_tried_with_others_because_it_may_never_end():
    branches = numbers(nodes_truenodeids=(1, 0, 0), target_nodeids=(1, 2), n_targets=1)
    node = Node("n", "TreeEnsembleRegressor", "ai.onnx.ml", ("x",), ("y",), branches)
    tried = list(integer_variants(side(node), 0))
    assert tried
    assert {one.node.attributes[-1].name for one in tried} == {"n_targets"}


def test_training_is_turned_off_and_not_counted_up():
    held = (Attribute("training_mode", "int", 1),)
    names = ("x", "s", "b", "m", "v")
    node = Node("n", "BatchNormalization", "", names, ("y", "mean", "var"), held)
    found = list(variants(side(node), 0)) + list(integer_variants(side(node), 0))
    [made] = [one.node for one in found if one.node.attribute("training_mode", 1) != 1]
    assert (made.attribute("training_mode"), made.outputs) == (0, ("y",))


@pytest.mark.parametrize(
    ("op", "pads", "expected"),
    [("Conv", (1, 1, 0, 0), (0, 0, 1, 1)), ("ConvTranspose", (0, 0, 0, 0), (1, 1, 1, 1))],
)
def test_pads_of_a_convolution_without_kernel_shape_are_tried(op: str, pads, expected) -> None:
    node = Node("n", op, "", ("x", "w"), ("y",), numbers(strides=(2, 2), pads=pads))
    graph = side(node, w=np.ones((3, 3, 4, 4) if op == "ConvTranspose" else (3, 3, 3, 3), "f"))
    tried = [variant.node.attribute("pads") for variant in variants(graph, 0)]
    assert expected in tried
