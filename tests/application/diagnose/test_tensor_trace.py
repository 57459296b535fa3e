"""Within a budget of memory, a diagnosis comes to the same, and holds no more tensors than that."""

from __future__ import annotations

import tracemalloc
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnx_common.evaluator import evaluator_of
from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.tensor_trace import rename_tensors, trace_tensors
from polygraphy.binding import bind, resolve
from polygraphy.diagnose import diagnose
from polygraphy.domain import rounding as judging
from polygraphy.domain.errors import InconclusiveError
from polygraphy.ports.diagnosing import DiagnosisReports
from polygraphy.ports.editing import open_model
from polygraphy.ports.machine import free_memory
from polygraphy.ports.reporting import Findings
from tests.support.parties import WrongRewriter

SIDE = 128
"""A tensor of so many times so many floats takes 64 KiB."""
NBYTES = SIDE * SIDE * 4
LAYERS = 12


class Kept:
    """Keeps what a diagnosis comes to, and how."""

    def __init__(self) -> None:
        self.culprits: list[Mapping[str, Any]] = []
        self.verdict: str | None = None

    def report_finding(self, kind: str, facts: Mapping[str, Any]) -> None: ...

    def conclude(
        self, verdict: str, culprits: Sequence[Mapping[str, Any]] = (), summary: str = ""
    ) -> None:
        self.verdict, self.culprits = verdict, list(culprits)

    def show_attempt(self, attempt: Any) -> None: ...

    def show_result(self, result: Any) -> None: ...


class WrongTanh(OnnxParty):
    """Computes every Tanh of negative numbers a little wrongly."""

    name = "wrong"

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        compute = evaluator_of(model, watched=self._watched)
        names = [value.name for value in model.graph.output]
        return partial(_run, compute, names)

    @staticmethod
    def _watched(node: Any, version: int, run: Any) -> Any:
        if node.op_type != "Tanh":
            return run
        return lambda x, **options: (np.where(x < -0.1, 0.9, 1.0).astype(x.dtype) * np.tanh(x),)


def _run(evaluator: Any, names: Sequence[str], feed: Mapping[str, Any]) -> dict[str, Any]:
    return dict(zip(names, evaluator.run(None, dict(feed))))


def network(layers: int = LAYERS, last: str = "Exp Log") -> onnx.ModelProto:
    """A chain with shortcuts, and a sequence, which cannot be handed from one part to another."""
    nodes, tensor = [], "x"
    for layer in range(layers):
        nodes.append(helper.make_node("Cos", [tensor], [f"c{layer}"], f"cos{layer}"))
        before = f"c{max(0, layer - 9)}"
        nodes.append(helper.make_node("Add", [f"c{layer}", before], [f"a{layer}"], f"add{layer}"))
        tensor = f"a{layer}"
    nodes.append(helper.make_node("SequenceConstruct", [tensor, "x"], ["pair"], "pair"))
    nodes.append(helper.make_node("SequenceLength", ["pair"], ["count"], "length"))
    nodes.append(helper.make_node("ConcatFromSequence", ["pair"], ["both"], "both", axis=0))
    tensor = "both"
    for op in last.split():
        nodes.append(helper.make_node(op, [tensor], [f"of_{op}"], op.lower()))
        tensor = f"of_{op}"
    nodes.append(helper.make_node("ReduceSum", [tensor], ["y"], "sum", keepdims=1))
    shapes = {"x": [SIDE, SIDE], "y": None}
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items())
    graph = helper.make_graph(nodes, "network", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


def diagnosed(model: Any, parties: Sequence[Any], budget: int) -> Kept:
    """Return what a diagnosis within a budget comes to."""
    kept: Any = Kept()
    with bind(Findings, kept), bind(DiagnosisReports, kept), suppress(InconclusiveError):
        diagnose(model, parties, memory_budget=budget)
    made: Kept = kept
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("party", "last", "cause"),
    [(WrongRewriter, "Exp Log", "rewrite"), (WrongTanh, "Neg Tanh", "kernel")],
)
def test_within_a_budget_the_same_is_found_in_less_memory(
    party: Any, last: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "_BLOCK", 2048)
    model = network(last=last)
    whole = diagnosed(model, [party(), OnnxParty()], 1 << 40)
    budget = 20 * NBYTES
    tracemalloc.start()
    parts = diagnosed(model, [party(), OnnxParty()], budget)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert whole.verdict == parts.verdict == "fault"
    assert [one["cause"] for one in whole.culprits] == [cause]
    assert parts.culprits == whole.culprits
    # Beside the tensors of windows there are the inputs, several sets of them.
    assert peak < budget + 12 * NBYTES < 4 * LAYERS * NBYTES


def test_what_the_evaluator_does_not_need_any_more_is_let_go() -> None:
    model = network(layers=60, last="Neg")
    evaluator = evaluator_of(model)
    feed = {"x": np.ones((SIDE, SIDE), np.float32)}
    tracemalloc.start()
    evaluator.run(None, feed)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * NBYTES
    with pytest.raises(ValueError, match="Not all of"):
        evaluator.run(["a3"], feed)


def test_tensors_that_lie_in_a_file_stay_there_under_other_names() -> None:
    feed = {"x": np.zeros((SIDE, SIDE), np.float32)}
    party = OnnxParty()
    case = Case(
        open_model(network()),
        "m.onnx",
        [party],
        resolve(DiagnosisReports),
        8 * NBYTES,
    )
    known = trace_tensors(case, party, feed).values
    tracemalloc.start()
    try:
        other = rename_tensors(known, {f"_{name}": name for name in known})
        assert tracemalloc.get_traced_memory()[1] < NBYTES
    finally:
        tracemalloc.stop()
    assert [*other] == [f"_{name}" for name in known]
    np.testing.assert_array_equal(other["_c1"], known["c1"])
    assert [*rename_tensors(dict(known), {"other": "c1", "none": "missing"})] == ["other"]


def test_without_a_budget_tensors_take_less_than_a_gigabyte_however_much_is_free() -> None:
    with bind(free_memory, lambda: 1 << 40):
        opened = open_model(network())
        case = Case(opened, "m.onnx", [OnnxParty()], resolve(DiagnosisReports))
        assert case.memory_limit < 1 << 30 < case.resident_limit
        given = Case(opened, "m.onnx", [OnnxParty()], resolve(DiagnosisReports), 1 << 35)
        assert given.memory_limit == given.resident_limit == 1 << 35
