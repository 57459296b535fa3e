"""Every tensor was saved: what a node was before it was changed is found and proven."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose import subprocesses
from tests.support.diagnosis.outputs_alone_cases import diagnose_outputs
from tests.support.models import make, value

NODES = {
    "alpha": ("LeakyRelu", {"alpha": 0.137}, {"alpha": 0.6}, "is 0.6 instead of 0.137"),
    "epsilon": (
        "InstanceNormalization",
        {"epsilon": 3e-2},
        {"epsilon": 0.5},
        "is 0.5 instead of 0.03",
    ),
    "order": ("Transpose", {"perm": [0, 1, 2]}, {"perm": [1, 0, 2]}, "instead of (0, 1, 2)"),
}


def network(op: str, **attributes: Any) -> onnx.ModelProto:
    rows = [helper.make_node("Unsqueeze", ["x", "first"], ["rows"], name="rows")]
    weights: dict[str, Any] = {"first": np.array([0], np.int64)}
    read = ["rows"]
    if op == "InstanceNormalization":
        for name in ("scale", "bias"):
            weights[name] = np.full(3, 0.7, np.float32)
            read.append(name)
    changed = helper.make_node(op, read, ["changed"], name="changed", **attributes)
    last = helper.make_node("Tanh", ["changed"], ["y"], name="last")
    y = value("y", ["a", "b", "c"])
    return make("net", [*rows, changed, last], [value("x", [3, 6])], [y], weights=weights)


@pytest.mark.parametrize("kind", NODES)
def test_what_an_attribute_was_is_found_and_proven(kind: str, tmp_path: Path) -> None:
    op, right, wrong, said = NODES[kind]
    kept = diagnose_outputs(network(op, **right), network(op, **wrong), tmp_path, "rows", "changed")
    [culprit] = kept.culprits
    expected = "epsilon" if kind == "epsilon" else "attribute"
    assert (culprit["nodes"], culprit["cause"]) == (["changed"], expected)
    assert culprit["remedy"]["proven"]
    assert any(said in sentence for sentence in culprit["evidence"]), culprit["evidence"]


def tables(op: str, outputs: Collection[str] = ("changed",), **attributes: Any) -> onnx.ModelProto:
    """Return a node that reads weights, between others."""
    random = np.random.RandomState(0)
    held: dict[str, list[Any]] = {
        "Slice": [[attributes.pop("start", 1)], [5], [1]],
        "Split": [[3, 3]],
        "ScatterElements": [[[0, 1], [1, 1], [0, 0]], random.randn(3, 2).astype(np.float32)],
        "MatMul": [random.randn(6, 4).astype(np.float32) * attributes.pop("factor", 1)],
        "Reshape": [attributes.pop("shape", [2, 9])],
        "PRelu": [np.arange(1, 7, dtype=np.float32) / 4],
        "Clip": [np.float32(each) for each in attributes.pop("bounds", [-0.2, 0.3])],
    }
    for place in attributes.pop("places", ()):
        held[op][0][place] += np.float32(2)
    weights = {f"w{i}": np.array(array) for i, array in enumerate(held[op])}
    nodes = [
        helper.make_node("Tanh", ["x"], ["rows"], name="rows"),
        helper.make_node(op, ["rows", *weights], outputs, name="changed", **attributes),
        helper.make_node("Exp", ["changed"], ["y"], name="last"),
    ]
    return make("net", nodes, [value("x", [3, 6])], [value("y", ["a", "b"])], weights=weights)


@pytest.mark.parametrize(
    ("right", "wrong", "cause", "said"),
    [
        (tables("Slice"), tables("Slice", start=0), "weight", "is 0 instead of 1"),
        (tables("Split", ["changed", "other"], axis=1), tables("Split", ["other", "changed"], axis=1),
         "structure", "the outputs of split are swapped"),
        (tables("ScatterElements", axis=1, reduction="add"), tables("ScatterElements", axis=1),
         "attribute", "is none instead of add"),
        (tables("MatMul"), tables("MatMul", factor=1.5), "weight", "is scaled by 1.5"),
        (tables("Reshape"), tables("Reshape", shape=[9, 2]), "weight", "[9, 2] instead of [2, 9]"),
        (tables("PRelu"), tables("PRelu", places=[2]), "weight", "the weight 'w0' of prelu differs"),
        (tables("PRelu"), tables("PRelu", places=[1, 4]), "weight", "the weight 'w0' of prelu differs"),
        (tables("Clip"), tables("Clip", bounds=[-0.1, 0.3]), "weight", "is -0.1 instead of -0.2"),
        (tables("Clip"), tables("Clip", bounds=[-0.2]), "structure", "clip has one input too few"),
    ],
)  # fmt: skip
def test_wires_sizes_enumerations_and_weights_are_tried(
    right: onnx.ModelProto, wrong: onnx.ModelProto, cause: str, said: str, tmp_path: Path
) -> None:
    [culprit] = diagnose_outputs(right, wrong, tmp_path, "rows", "changed").culprits
    assert (culprit["nodes"], culprit["cause"]) == (["changed"], cause)
    assert any(said in sentence.lower() for sentence in culprit["evidence"]), culprit["evidence"]


def dividing(*reads: str) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Relu", ["x"], ["zeros"], name="zeros"),
        helper.make_node("Exp", ["x"], ["positive"], name="positive"),
        helper.make_node("Div", reads, ["ratio"], name="ratio"),
        helper.make_node("Identity", ["ratio"], ["y"], name="last"),
    ]
    return make("net", nodes, [value("x", [3, 6])], [value("y", [3, 6])])


@pytest.mark.parametrize("inner", [(), ("zeros", "positive", "ratio")])
def test_why_a_node_makes_infinity_is_said(inner: tuple[str, ...], tmp_path: Path) -> None:
    pair = dividing("zeros", "positive"), dividing("positive", "zeros")
    kept = diagnose_outputs(*pair, tmp_path, *inner)
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["ratio"], "structure")
    assert any("infinite" in sentence for sentence in culprit["evidence"])


class Counting(OnnxrtParty):
    """ONNX Runtime, which counts how often it hands out the tensors of the whole model."""

    def __init__(self, tensors: int) -> None:
        super().__init__()
        self.traced = 0
        self._tensors = tensors

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        if isinstance(model, onnx.ModelProto):
            made = {name for node in model.graph.node for name in node.output}
            is_whole = "y" in made and len(made) == self._tensors
            self.traced += is_whole and len(model.graph.output) == self._tensors
        return super().load(model, plain=plain, without=without)


def test_the_tensors_of_data_are_computed_once_though_they_are_compared_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        subprocesses, "is_fork_safe", lambda: True
    )  # Another process does not count.
    op, right, wrong, _ = NODES["alpha"]
    model = network(op, **wrong)
    party = Counting(len(model.graph.node))
    kept = diagnose_outputs(network(op, **right), model, tmp_path, "rows", "changed", party=party)
    assert [one["nodes"] for one in kept.culprits] == [["changed"]]
    assert party.traced == 1
