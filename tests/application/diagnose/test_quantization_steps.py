"""Backends that compute different codes in a quantized model: by one quantization step, or more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
from attrs import evolve
from onnx import helper, numpy_helper

from polygraphy.adapters.onnx.edit.code_tensors import find_code_tensors
from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Found
from polygraphy.application.diagnose.steps.quantized import code_steps
from polygraphy.application.diagnose.steps.quantized.code_steps import report_code_steps
from polygraphy.application.diagnose.tensor_trace import trace_tensors
from polygraphy.application.diagnose.wrong_nodes import wrong_nodes
from polygraphy.binding import bind, resolve
from polygraphy.diagnose import diagnose, diagnose_half
from polygraphy.domain.diagnosis.culprit import AGREE, DiagnosisResult
from polygraphy.domain.errors import InconclusiveError
from polygraphy.domain.quantization.code_tensors import step_differences
from polygraphy.ports.diagnosing import DiagnosisReports
from polygraphy.ports.editing import open_model
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.diagnosis.quantized_chain import SIZE, build_quantized

FEEDS = [{"x": np.random.default_rng(1).standard_normal((8, SIZE)).astype(np.float32)}]


class Shifting(OnnxrtParty):
    """Computes products with a constant added, as a kernel that rounds differently does.

    Args:
        steps: the constant of each product, in quantization steps of the tensor behind.
    """

    backend = "shifting"

    def __init__(self, steps: Mapping[int, float]) -> None:
        super().__init__()
        self.name = self.backend
        self._steps = steps

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        scales = {one.name: numpy_helper.to_array(one) for one in copy.graph.initializer}
        for number, steps in self._steps.items():
            name, scale = f"p{number}", scales.get(f"r{number}_s")
            for node in [*copy.graph.node] if scale is not None else ():
                if node.op_type == "MatMul" and node.output[0] == name:
                    node.output[0] = f"{name}//plain"
                    shift = numpy_helper.from_array(np.float32(steps * scale), f"shift{number}")
                    copy.graph.initializer.append(shift)
                    add = helper.make_node("Add", [node.output[0], shift.name], [name])
                    copy.graph.node.insert([*copy.graph.node].index(node) + 1, add)
        return super().load(copy, plain=plain, without=without)


def found(steps: Mapping[int, float]) -> Kept:
    kept = Kept()
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(build_quantized(), [OnnxrtParty(), Shifting(steps)], FEEDS)
    return kept


def ends_in_codes(factor: float = 1.0) -> onnx.ModelProto:
    """Return a quantized chain whose output is a dequantized tensor; the second product is so many
    times larger, and the weight behind it smaller.
    """
    model = build_quantized()
    changed = {"w1": factor, "w1_s": factor, "r1_s": factor, "w2": 1 / factor, "w2_s": 1 / factor}
    for weight in model.graph.initializer:
        if weight.name in changed:
            array = numpy_helper.to_array(weight) * np.float32(changed[weight.name])
            weight.CopyFrom(numpy_helper.from_array(np.asarray(array), weight.name))
    kept_nodes = [node for node in model.graph.node if node.name != "product3"]
    del model.graph.node[:]
    model.graph.node.extend(kept_nodes)
    model.graph.node.add(op_type="Identity", input=["r2_d"], output=["y"])
    return model


def half_precision_of(
    model: onnx.ModelProto, parties: Sequence[OnnxrtParty] = (), seed: int = 1
) -> Kept:
    feeds = [{"x": np.random.default_rng(seed).standard_normal((8, SIZE)).astype(np.float32)}]
    kept = Kept()
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose_half(model, data_loader=feeds, parties=parties)
    return kept


def test_one_quantization_step_is_no_fault_of_half_precision() -> None:
    kept = half_precision_of(ends_in_codes(), [OnnxrtParty()])
    assert (kept.verdict, kept.culprits) == ("agree", [])
    assert "fp16 and fp32 differ by at most one quantization step in" in kept.summary


def test_overflow_is_named_beside_the_steps_of_rounded_inputs() -> None:
    kept = half_precision_of(ends_in_codes(factor=1e5), seed=0)
    assert kept.verdict == "fault"
    assert "overflow" in {one["cause"] for one in kept.culprits}
    assert "product1" in kept.culprits[0]["nodes"]


def test_one_quantization_step_is_no_fault() -> None:
    kept = found({2: 0.01})
    assert (kept.verdict, kept.culprits) == ("agree", [])
    assert "at most one quantization step in 1 tensor" in kept.summary
    assert "of the elements ('relu2')" in kept.summary


def test_one_step_in_many_elements_is_no_fault() -> None:
    kept = found({2: 0.5})
    assert (kept.verdict, kept.culprits) == ("agree", [])
    share = float(kept.summary.split("in at most ")[1].split("%")[0])
    assert 10 < share < 90


def test_one_step_is_reported_beside_larger_differences() -> None:
    kept = found({1: 0.5, 2: 9})
    assert [culprit["nodes"] for culprit in kept.culprits] == [["product2"]]
    assert "at most one quantization step in 1 tensor" in kept.summary


class Truncating(OnnxrtParty):
    """Rounds down in QuantizeLinear."""

    backend = "truncating"

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        half = numpy_helper.from_array(np.float32(0.5), "half")
        for node in [*copy.graph.node]:
            if node.op_type == "QuantizeLinear" and node.input[0].startswith("r"):
                name = f"{node.output[0]}//down"
                before = [
                    helper.make_node("Mul", [node.input[1], "half"], [f"{name}1"]),
                    helper.make_node("Sub", [node.input[0], f"{name}1"], [name]),
                ]
                at = [*copy.graph.node].index(node)
                node.input[0] = name
                for one in reversed(before):
                    copy.graph.node.insert(at, one)
                if half.name not in [one.name for one in copy.graph.initializer]:
                    copy.graph.initializer.append(half)
        return super().load(copy, plain=plain, without=without)


def test_isolated_nodes_one_step_off_are_marked() -> None:
    case = Case(open_model(build_quantized()), "m.onnx", [], resolve(DiagnosisReports))
    trace = trace_tensors(case, OnnxParty(), FEEDS[0])
    places = wrong_nodes(case, Truncating(), trace)
    assert places
    assert all(place.is_step for place in places)


def test_nodes_one_step_off_are_reported_and_not_accused(monkeypatch: Any) -> None:
    monkeypatch.setattr(code_steps, "find_code_tensors", lambda _: Mock(tensors=[]))
    kept = Kept()
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(build_quantized(), [OnnxrtParty(), Truncating()], FEEDS)
    assert (kept.verdict, kept.culprits) == ("agree", [])
    assert "at most one quantization step in" in kept.summary


def test_larger_differences_of_codes_name_the_node_and_the_backend() -> None:
    kept = found({2: 9})
    [culprit] = kept.culprits
    assert (kept.verdict, culprit["party"], culprit["cause"]) == ("fault", "shifting", "kernel")
    assert culprit["nodes"] == [
        "product2"
    ]  # Not the Relu behind it, which computes what it should.
    assert "differs by up to 9 quantization steps" in culprit["evidence"][0]


def test_nodes_run_on_the_codes_that_they_are_given() -> None:
    model = build_quantized()
    codes = find_code_tensors(model)
    names = [one.name for one in codes.tensors]
    values = OnnxrtParty().load(codes.with_codes())(FEEDS[0])
    given = {name: values[name] for name in names}
    given[names[1]] = np.zeros_like(given[names[1]])
    split, feed = codes.split(given)
    made = OnnxrtParty().load(split)({**FEEDS[0], **feed})
    [third] = step_differences(codes.tensors, values, made)  # All others read what they always did.
    assert third.tensor.name == names[2]


def test_codes_of_outputs_that_match_are_compared() -> None:
    model = build_quantized()
    case = Case(
        open_model(model), "m.onnx", [OnnxrtParty(), Shifting({2: 3})], resolve(DiagnosisReports)
    )
    agreed = Found(DiagnosisResult(AGREE), evolve(case, feed=FEEDS[0]))
    answer = report_code_steps(agreed, Request(None, lambda *_: agreed)).result
    assert answer.verdict == AGREE
    assert "differ by up to 3 quantization steps in 1 tensor" in answer.reason
