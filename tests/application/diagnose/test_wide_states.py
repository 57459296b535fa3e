"""Faults that are smaller than what states in half precision explain."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import compose, helper, numpy_helper, parser

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.binding import bind
from polygraphy.comparator import StepLoader
from polygraphy.diagnose import diagnose
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept

SIZE = 8


def gated(kind: str, factor: float = 1.0) -> onnx.ModelProto:
    """A GRU that keeps its state in a type, with one gate scaled."""
    draw = np.random.default_rng(11)

    def floats(*shape: int) -> Any:
        return draw.standard_normal(shape).astype(np.float32) / 2

    weights = {"w": floats(1, 3 * SIZE, 6), "r": floats(1, 3 * SIZE, SIZE), "head": floats(SIZE, 5)}
    weights["r"][:, SIZE : 2 * SIZE] *= np.float32(factor)
    number = {"float": 1, "float16": 10, "bfloat16": 16}[kind]
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        m (float[N, 1, 6] x, {kind}[1, 1, {SIZE}] h) => (float[N, 1, 5] y, {kind}[1, 1, {SIZE}] hn)
        {{ wide = Cast<to = 1>(h) all, last = GRU<hidden_size = {SIZE}>(x, w, r, , , wide)
           hn = Cast<to = {number}>(last)
           axis = Constant<value_ints = [1]>() flat = Squeeze(all, axis) y = MatMul(flat, head) }}
        """)
    for node in model.graph.node:
        node.name = node.output[0]
    model.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in weights.items())
    return model


def in_branches(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model, computed in both branches of an If."""
    graph, branches = model.graph, {}
    for name in ("then_branch", "else_branch"):
        body = compose.add_prefix_graph(
            graph, f"{name}_", rename_inputs=False, rename_initializers=False
        )
        del body.input[:], body.initializer[:]
        branches[name] = body
    outputs = [value.name for value in graph.output]
    del graph.node[:]
    graph.node.add(op_type="Size", input=["x"], output=["size"], name="size")
    graph.node.append(helper.make_node("Cast", ["size"], ["has_data"], "has_data", to=9))
    graph.node.append(helper.make_node("If", ["has_data"], outputs, "choice", **branches))
    return model


@pytest.mark.parametrize(
    ("kind", "factor"), [("float16", 1.0), ("float16", 1.01), ("bfloat16", 1.0), ("bfloat16", 1.05)]
)
def test_rounding_of_states_does_not_excuse_a_scaled_gate(kind: str, factor: float) -> None:
    model, kept = gated(kind, factor), Kept()
    with bind(Findings, kept):
        loader = StepLoader(model, steps=6)
        is_same = diagnose(model, [OnnxrtParty()], loader, reference=gated("float"))
    assert is_same == (factor == 1.0)
    if factor != 1.0:
        [culprit] = kept.culprits
        assert (culprit["nodes"], culprit["cause"]) == (["all"], "weight")
        assert "Copy 'r' from the reference." in culprit["remedy"]["note"]


@pytest.mark.parametrize(
    ("kind", "factor"), [("float16", 1.0), ("float16", 1.2), ("bfloat16", 1.0), ("bfloat16", 1.05)]
)
def test_a_scaled_gate_both_branches_is_one_culprit(kind: str, factor: float) -> None:
    model, kept = in_branches(gated(kind, factor)), Kept()
    with bind(Findings, kept):
        loader = StepLoader(model, steps=6)
        reference = in_branches(gated("float"))
        is_same = diagnose(model, [OnnxrtParty()], loader, reference=reference)
    assert is_same == (factor == 1.0)
    if factor != 1.0:
        [culprit] = kept.culprits
        nodes = {"then_branch_all", "else_branch_all"}
        assert ({*culprit["nodes"]}, culprit["cause"]) == (nodes, "weight")
