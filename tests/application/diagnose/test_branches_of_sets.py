"""Saved results of input sets on which different branches of an If node run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.binding import bind
from polygraphy.comparator import RunResults
from polygraphy.diagnose import diagnose
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.models import make, value

FEEDS = [
    {"x": np.float32(np.random.default_rng(seed).normal(size=(3, 8))) + shift}
    for seed, shift in enumerate([np.float32(1), np.float32(-1), np.float32(-1.5)])
]


def choosing(scale: float = 1.0, op: str = "Tanh") -> onnx.ModelProto:
    """Return two layers: of the second, the mean of the inputs chooses the branch."""
    random = np.random.default_rng(3)
    first, last = (np.float32(random.normal(size=(8, 8))) for _ in range(2))

    def branch(name: str, operator: str, factor: float) -> onnx.GraphProto:
        weights = {
            f"{name} weight": np.float32(random.normal(size=(8, 8)) * factor),
            f"{name} bias": np.float32(random.normal(size=8)),
        }
        nodes = [
            helper.make_node("MatMul", ["hidden", f"{name} weight"], [f"{name} product"]),
            helper.make_node("Add", [f"{name} product", f"{name} bias"], [f"{name} sum"]),
            helper.make_node(operator, [f"{name} sum"], [f"{name} result"]),
        ]
        for node in nodes:
            node.name = f"{name} {node.op_type}"
        result = helper.make_tensor_value_info(f"{name} result", 1, None)
        held = [numpy_helper.from_array(array, key) for key, array in weights.items()]
        return helper.make_graph(nodes, name, [], [result], held)

    branches = {"then_branch": branch("a", "Relu", 1.0), "else_branch": branch("b", op, scale)}
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["hidden"], "enter"),
        helper.make_node("ReduceMean", ["x"], ["mean"], "mean", keepdims=0),
        helper.make_node("Greater", ["mean", "zero"], ["positive"], "compare"),
        helper.make_node("If", ["positive"], ["chosen"], "choose", **branches),
        helper.make_node("MatMul", ["chosen", "last"], ["y"], "leave"),
    ]
    weights = {"first": first, "last": last, "zero": np.float32(0)}
    return make("net", nodes, [value("x", [3, 8])], [value("y", [3, 8])], weights=weights)


def found(model: onnx.ModelProto, folder: Path, *tensors: str) -> Kept:
    """Return what is found beside the outputs, and some tensors, of the correct model."""
    marked = choosing()
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in tensors)
    results, kept = RunResults(), Kept()
    results.add([*map(OnnxrtParty().load(marked), FEEDS)], runner_name="right")
    results.save(str(folder / "golden.json"))
    with bind(Findings, kept):
        diagnose(model, [OnnxrtParty()], FEEDS, golden=str(folder / "golden.json"))
    return kept


@pytest.mark.parametrize("tensors", [(), ("hidden", "mean", "positive", "chosen")])
def test_a_scaled_weight_of_one_branch_is_named(tensors: tuple[str, ...], tmp_path: Path) -> None:
    """Neither the outputs nor the tensors around the If node show which of its nodes differs."""
    [culprit] = found(choosing(scale=1.1), tmp_path, *tensors).culprits
    assert (culprit["nodes"], culprit["cause"]) == (["b MatMul"], "weight")
    assert "The weight 'b weight' of MatMul is scaled by 1.1" in str(culprit["evidence"])
    assert culprit["remedy"]["proven"]


def test_another_operator_in_one_branch_is_named(tmp_path: Path) -> None:
    [culprit] = found(choosing(op="Sigmoid"), tmp_path, "hidden", "mean", "chosen").culprits
    assert (culprit["nodes"], culprit["cause"]) == (["b Sigmoid"], "structure")
