"""Nodes that read what other nodes should, beside a reference that a backend optimized."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from attrs import evolve
from onnx import helper

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.binding import bind
from polygraphy.diagnose import diagnose
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.errors import InconclusiveError
from polygraphy.ports.diagnosing import change_node
from polygraphy.ports.editing import open_model
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.diagnosis.optimized_models import optimize_model
from tests.support.models import make, value

CHANNELS = 8
SHAPE = [1, CHANNELS, 5, 5]


def convolutions(changed: dict[str, str], *, adds: bool = False) -> onnx.ModelProto:
    """Return convolutions with activations, each of which a backend fuses into one node.

    Args:
        changed: by node, what it reads in place of its bias.
        adds: whether biases are reshaped and added by nodes of their own.
    """
    random, nodes, read = np.random.RandomState(0), [], "x"
    weights = {"bias_shape": np.array([1, CHANNELS, 1, 1])}
    for i in range(3 if adds else 5):  # Enough that the reference counts as optimized.
        weights[f"w{i}"] = random.randn(CHANNELS, CHANNELS, 1, 1).astype(np.float32) / 2
        weights[f"b{i}"] = random.randn(CHANNELS).astype(np.float32)
        bias = changed.get(f"conv{i}", f"b{i}")
        if adds:
            shaped = changed.get(f"add{i}", f"shaped{i}")
            nodes += [
                helper.make_node("Conv", [read, f"w{i}"], [f"c{i}"], f"conv{i}"),
                helper.make_node("Reshape", [bias, "bias_shape"], [f"shaped{i}"], f"shape{i}"),
                helper.make_node("Add", [f"c{i}", shaped], [f"a{i}"], f"add{i}"),
            ]
        else:
            nodes.append(helper.make_node("Conv", [read, f"w{i}", bias], [f"a{i}"], f"conv{i}"))
        nodes.append(helper.make_node("LeakyRelu", [f"a{i}"], [f"r{i}"], f"activate{i}"))
        read = f"r{i}"
    if adds:  # A node may read what a later one computes.
        nodes.sort(key=lambda node: node.op_type != "Reshape")
    return make("convolutions", nodes, [value("x", SHAPE)], [value(read, SHAPE)], weights=weights)


def culprits(model: onnx.ModelProto, reference: onnx.ModelProto, shape: list[int]) -> Kept:
    """Return what is found for a model on random data."""
    kept = Kept()
    feed = {"x": np.random.RandomState(1).randn(*shape).astype(np.float32)}
    with bind(Findings, kept):
        diagnose(model, [OnnxrtParty()], [feed], reference)
    return kept


def nodes_of(kept: Kept) -> list[list[str]]:
    """Return the nodes of each culprit, sorted."""
    return sorted(culprit["nodes"] for culprit in kept.culprits)


def test_two_nodes_with_exchanged_biases_are_named_as_reading_each_other_s(tmp_path: Path) -> None:
    reference = optimize_model(convolutions({}), tmp_path)
    model = convolutions({"conv1": "b4", "conv4": "b1"})
    kept = culprits(model, reference, SHAPE)
    assert nodes_of(kept) == [["conv1"], ["conv4"]]
    evidence = str([culprit["evidence"] for culprit in kept.culprits])
    assert "Conv reads 'b4' instead of 'b1'" in evidence
    assert "Conv reads 'b1' instead of 'b4'" in evidence


def test_two_weights_with_each_other_s_values_are_named_as_weights() -> None:
    model = convolutions({})
    weights = {weight.name: weight for weight in model.graph.initializer}
    weights["b1"].name, weights["b4"].name = "b4", "b1"
    kept = culprits(model, convolutions({}), SHAPE)
    assert nodes_of(kept) == [["conv1"], ["conv4"]]
    assert [culprit["cause"] for culprit in kept.culprits] == ["weight", "weight"]
    evidence = str([culprit["evidence"] for culprit in kept.culprits])
    assert "The weight 'b4' has the values of 'b1'." in evidence
    assert "Other differences" not in evidence


def test_exchanged_inputs_are_named_where_equal_nodes_before_them_were_folded(
    tmp_path: Path,
) -> None:
    """The reference has the results of both Reshape as weights, which are named after them."""
    reference = optimize_model(convolutions({}, adds=True), tmp_path)
    model = convolutions({"add0": "shaped2", "add2": "shaped0"}, adds=True)
    assert nodes_of(culprits(model, reference, SHAPE)) == [["add0"], ["add2"]]


def test_exchanged_weights_of_equal_nodes_that_were_folded_are_named(tmp_path: Path) -> None:
    """The weights of the reference, named after the results of both, are not those."""
    reference = optimize_model(convolutions({}, adds=True), tmp_path)
    model = convolutions({"conv0": "b2", "conv2": "b0"}, adds=True)
    assert nodes_of(culprits(model, reference, SHAPE)) == [["shape0"], ["shape2"]]


def test_a_weight_with_a_small_effect_is_named_beside_fused_nodes(tmp_path: Path) -> None:
    """Outputs differ by no more than approximations in fused nodes can explain."""
    model = convolutions({})
    weight = next(weight for weight in model.graph.initializer if weight.name == "b1")
    values = onnx.numpy_helper.to_array(weight) * np.float32(1.0002)
    weight.CopyFrom(onnx.numpy_helper.from_array(values, "b1"))
    kept = culprits(model, optimize_model(convolutions({}), tmp_path), SHAPE)
    assert nodes_of(kept) == [["conv1"]]
    assert kept.culprits[0]["cause"] == "weight"


def parts(first: str, second: str) -> onnx.ModelProto:
    """Return a model whose nodes read two parts of a product, behind layers that are fused."""
    random, read, nodes = np.random.RandomState(0), "x", []
    weights = {"w": random.randn(6, 12).astype(np.float32)}
    for i in range(6):
        weights[f"w{i}"] = random.randn(6, 6).astype(np.float32) / 2
        weights[f"b{i}"] = random.randn(6).astype(np.float32)
        nodes += [
            helper.make_node("MatMul", [read, f"w{i}"], [f"product{i}"], f"multiply{i}"),
            helper.make_node("Add", [f"product{i}", f"b{i}"], [f"sum{i}"], f"add{i}"),
            helper.make_node("Tanh", [f"sum{i}"], [f"curve{i}"], f"activate{i}"),
        ]
        read = f"curve{i}"
    nodes += [
        helper.make_node("MatMul", [read, "w"], ["both"], "project"),
        helper.make_node("Split", ["both"], ["p", "q"], "split", axis=1),
        helper.make_node("Softmax", [first], ["shares"], "share", axis=0),
        helper.make_node("Sigmoid", [second], ["gate"], "gate"),
        helper.make_node("Sub", ["shares", "gate"], ["y"], "subtract"),
    ]
    return make("parts", nodes, [value("x", [5, 6])], [value("y", [5, 6])], weights=weights)


def test_exchanged_outputs_of_a_node_are_one_culprit(tmp_path: Path) -> None:
    kept = culprits(parts("q", "p"), optimize_model(parts("p", "q"), tmp_path), [5, 6])
    assert nodes_of(kept) in ([["split"]], [["gate"], ["share"]])


def crossed(first: str, second: str) -> onnx.ModelProto:
    """Return a model with two activations of one layer, which two nodes of other kinds read."""
    model = parts("p", "q")
    del model.graph.node[-2:]
    model.graph.node.extend(
        [
            helper.make_node("Exp", ["q"], ["power"], "power"),
            helper.make_node("Mul", ["p", first], ["weighed"], "weigh"),
            helper.make_node("Transpose", [second], ["turned"], "turn", perm=[1, 0]),
            helper.make_node("MatMul", ["weighed", "turned"], ["y"], "last"),
        ]
    )
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 5
    return model


def test_nodes_of_other_kinds_that_read_each_other_s_tensor_are_named(tmp_path: Path) -> None:
    reference = optimize_model(crossed("shares", "power"), tmp_path)
    kept = culprits(crossed("power", "shares"), reference, [5, 6])
    assert nodes_of(kept) == [["turn"], ["weigh"]]


def test_a_node_that_reads_what_a_later_one_computes_is_moved_behind_it() -> None:
    """Exchanged inputs may belong in another order than the file's."""
    nodes = [
        helper.make_node("Tanh", ["x"], ["curve"], "curve"),
        helper.make_node("Exp", ["x"], ["power"], "power"),
        helper.make_node("Sub", ["curve", "power"], ["y"], "last"),
    ]
    model = make("two", nodes, [value("x", [3])], [value("y", [3])])
    node = evolve(open_model(model).graph.nodes[0], inputs=("power",))
    variant = Variant("structure", changes.other_input("Tanh", "x", "power"), node)
    changed = change_node(model, "curve", variant)
    assert [each.name for each in changed.graph.node] == ["power", "curve", "last"]


def test_a_pairing_that_sees_no_difference_is_not_used(tmp_path: Path) -> None:
    """The model and its reference, optimized in blocks, are paired node by node, and differ."""

    def adding(read: str) -> onnx.ModelProto:
        """Return convolutions behind which two results are added."""
        model = convolutions({})
        model.graph.node.append(helper.make_node("Add", ["r1", read], ["y"], "add"))
        model.graph.output[0].name = "y"
        return model

    reference = optimize_model(adding("r4"), tmp_path, "ORT_ENABLE_ALL")
    try:
        kept = culprits(adding("r3"), reference, SHAPE)
    except InconclusiveError:
        pytest.fail("no difference was found")
    assert nodes_of(kept) == [["add"]]
