"""What the tests of `application/diagnose/test_diagnosing.py` and others share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from attrs import define, field
from onnx import TensorProto, helper, numpy_helper


@define
class Kept:
    """Keeps what a diagnosis comes to."""

    verdict: str = ""
    culprits: list[Mapping[str, Any]] = field(factory=list)
    summary: str = ""

    def report_finding(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Ignore a finding."""

    def conclude(
        self, verdict: str, culprits: Sequence[Mapping[str, Any]] = (), summary: str = ""
    ) -> None:
        """Keep verdict, culprits and summary."""
        self.verdict, self.culprits, self.summary = verdict, list(culprits), summary


def network(pairs: Collection[int] = (1,), named: bool = True) -> onnx.ModelProto:
    """Return four layers; after those in `pairs` are an Exp and a Log, which cancel out."""
    rng = np.random.default_rng(3)
    nodes, weights, tensor = [], [], "x"
    for layer in range(4):
        weight = rng.normal(size=(6, 6)).astype(np.float32) / 2
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [tensor, f"w{layer}"], [f"m{layer}"], f"mm{layer}"))
        tensor = f"m{layer}"
        if layer in pairs:
            nodes.append(helper.make_node("Exp", [tensor], [f"e{layer}"], f"exp{layer}"))
            nodes.append(helper.make_node("Log", [f"e{layer}"], [f"l{layer}"], f"log{layer}"))
            tensor = f"l{layer}"
        nodes.append(helper.make_node("Tanh", [tensor], [f"t{layer}"], f"tanh{layer}"))
        tensor = f"t{layer}"
    if not named:
        for node in nodes:
            node.name = ""
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 6])],
        [helper.make_tensor_value_info(tensor, TensorProto.FLOAT, [3, 6])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model
