"""Backends that compute different codes in a quantized model: by one quantization step, or more."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
from attrs import evolve
from onnx import helper, numpy_helper

from polygraphy.adapters.onnx.edit.code_tensors import find_code_tensors
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Found
from polygraphy.application.diagnose.steps.quantized.code_steps import report_code_steps
from polygraphy.binding import bind, resolve
from polygraphy.diagnose import diagnose
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
    """Computes the third product with a constant added, as a kernel that rounds differently does.

    Args:
        steps: the constant, in quantization steps of the tensor behind.
    """

    backend = "shifting"

    def __init__(self, steps: float) -> None:
        super().__init__()
        self.name = self.backend
        self._steps = steps

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        scale = next(
            (numpy_helper.to_array(one) for one in copy.graph.initializer if one.name == "r2_s"),
            None,
        )
        for node in [*copy.graph.node]:
            if node.op_type == "MatMul" and node.output[0] == "p2" and scale is not None:
                node.output[0] = "p2//plain"
                shift = numpy_helper.from_array(np.float32(self._steps * scale), "shift")
                copy.graph.initializer.append(shift)
                at = [*copy.graph.node].index(node) + 1
                copy.graph.node.insert(at, helper.make_node("Add", ["p2//plain", "shift"], ["p2"]))
        return super().load(copy, plain=plain, without=without)


def found(steps: float) -> Kept:
    kept = Kept()
    with bind(Findings, kept), suppress(InconclusiveError):
        diagnose(build_quantized(), [OnnxrtParty(), Shifting(steps)], FEEDS)
    return kept


def test_one_quantization_step_is_no_fault() -> None:
    kept = found(0.01)
    assert (kept.verdict, kept.culprits) == ("agree", [])
    assert "at most one quantization step in 1 tensor" in kept.summary
    assert "of the elements ('relu2')" in kept.summary


def test_larger_differences_of_codes_name_the_node_and_the_backend() -> None:
    kept = found(9)
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
        open_model(model), "m.onnx", [OnnxrtParty(), Shifting(3)], resolve(DiagnosisReports)
    )
    agreed = Found(DiagnosisResult(AGREE), evolve(case, feed=FEEDS[0]))
    answer = report_code_steps(agreed, Request(None, lambda *_: agreed)).result
    assert answer.verdict == AGREE
    assert "differ by up to 3 quantization steps in 1 tensor" in answer.reason
