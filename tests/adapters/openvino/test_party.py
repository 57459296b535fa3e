"""OpenVINO as a party of a diagnosis."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

pytest.importorskip("openvino")

from polygraphy.adapters.onnx.run.opening import open_model
from polygraphy.adapters.openvino.compiled import default_precision
from polygraphy.adapters.openvino.party import OpenvinoParty
from polygraphy.application.diagnose.diagnosing import diagnose
from polygraphy.backend.onnxrt import OnnxrtParty
from polygraphy.binding import bind
from polygraphy.domain.diagnosis.commands import run_command
from polygraphy.domain.diagnosis.culprit import Culprit
from polygraphy.domain.diagnosis.failure import Failure
from polygraphy.ports.diagnosing import DiagnosisReports, failure_program, write_failure
from tests.support.helpers.openvino_models import X, computes_in_bfloat16, conv_relu
from tests.support.helpers.openvino_parties import Kept, WrongFusion
from tests.support.models import make, value


def test_operators_that_are_run_as_one_are_a_function() -> None:
    party = OpenvinoParty(precision_hint="f32")
    executed = party.runtime_graph(conv_relu())
    [fused, plain] = open_model(executed).nodes
    assert list(fused.reads) == ["x", "w"] and list(fused.makes) == ["y"]
    assert fused.op.endswith("ConvRelu") and plain.op == "Neg"
    apart = party.runtime_graph(conv_relu(), without=["fusion"])
    assert [node.op_type for node in apart.graph.node] == ["Conv", "Relu", "Neg"]


def test_what_is_run_as_one_is_run_so_whatever_is_asked() -> None:
    party = OpenvinoParty(precision_hint="f32")
    made = party.load(party.runtime_graph(conv_relu()), plain=True)({"x": X})
    assert np.allclose(made["y"], party.load(conv_relu())({"x": X})["y"], atol=1e-5)


def test_a_remedy_says_what_was_switched_off() -> None:
    party = OpenvinoParty(precision_hint="f32", properties={"PERF_COUNT": "YES"})
    options = party.remedy(plain=False, without=["fusion", "SNIPPETS_MODE"])
    assert run_command("m.onnx", [("openvino", "openvino", options)], {}) == (
        "polygraphy run m.onnx --openvino --openvino-precision f32 --no-openvino-fusion"
        " --openvino-properties PERF_COUNT=YES SNIPPETS_MODE=DISABLE"
    )
    plain = party.remedy(plain=True, without=())
    assert plain["openvino_properties"]["LP_TRANSFORMS_MODE"] == "NO"


def test_what_it_is_asked_stands_on_printed_command_lines() -> None:
    party = OpenvinoParty("CPU", "f32", 1, {"PERF_COUNT": "YES"}, ["y"], False)
    assert run_command("m.onnx", [("openvino", "openvino", party.options)], {}) == (
        "polygraphy run m.onnx --openvino --openvino-device CPU --openvino-precision f32 --openvino-threads 1 --no-openvino-fusion"
        " --openvino-properties PERF_COUNT=YES --openvino-float32 y"
    )
    assert not OpenvinoParty().options


def test_nodes_that_stay_in_float32_do() -> None:
    if not computes_in_bfloat16():
        pytest.skip("this processor does not compute in bfloat16")
    party = OpenvinoParty(precision_hint="bf16")
    assert party.lowers_to == "bf16"
    assert party.in_float32().lowers_to is None
    exact = party.load(conv_relu(), plain=True)({"x": X})["y"]
    model = conv_relu()
    model.graph.node[0].name = "first"
    kept = party.load(model, without=["first"])({"x": X})["y"]
    assert np.allclose(kept, exact, atol=1e-5)
    assert np.abs(party.load(model)({"x": X})["y"] - exact).max() > 1e-3
    party.load(model, without=[])
    model.graph.node[1].name = "second"
    party.load(model, without=["second"])
    assert party.remedy(plain=False, without=["first"])["openvino_float32"] == ("c",)


def test_what_float32_computes_wrongly_too_is_no_loss_of_bfloat16() -> None:
    if not computes_in_bfloat16():
        pytest.skip("this processor does not compute in bfloat16")
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], "narrow", to=TensorProto.FLOAT16),
        helper.make_node("MatMul", ["h", "w"], ["p"], "product"),
        helper.make_node("Mul", ["p", "size"], ["l"], "large"),
        helper.make_node("Cast", ["l"], ["y"], "wide", to=TensorProto.FLOAT),
    ]
    weights = {"w": np.random.default_rng(1).normal(size=(16, 8)).astype(np.float16)}
    weights["size"] = np.float16(65504)
    shapes = [value("x", [6, 16])], [value("y", [6, 8])]
    shown = Kept()
    with bind(DiagnosisReports, shown):
        diagnose(make("large", nodes, *shapes, weights=weights), [OnnxrtParty(), OpenvinoParty()])
    [culprit] = shown.results[0].culprits
    assert (culprit.nodes, culprit.cause) == (["large"], "overflow")


def test_the_default_precision_is_that_of_the_device() -> None:
    named = {"f32": None, "bf16": "bf16", "f16": "fp16"}
    assert OpenvinoParty().lowers_to == named[default_precision("CPU")]
    assert OpenvinoParty(properties={"INFERENCE_PRECISION_HINT": "f32"}).lowers_to is None


def test_nobody_is_to_blame_for_a_healthy_model(tmp_path: Path) -> None:
    path = str(tmp_path / "m.onnx")
    onnx.save(conv_relu(), path)
    assert diagnose(path, [OpenvinoParty(precision_hint="f32"), OnnxrtParty()])


def test_a_wrong_fusion_is_named_with_what_helps(tmp_path: Path) -> None:
    path = str(tmp_path / "m.onnx")
    onnx.save(conv_relu(), path)
    shown = Kept()
    with bind(DiagnosisReports, shown):
        assert not diagnose(path, [WrongFusion(precision_hint="f32"), OnnxrtParty()])
    [culprit] = shown.results[0].culprits
    assert (culprit.party, culprit.cause, culprit.rewrite) == ("openvino", "rewrite", "fusion")
    assert culprit.nodes == ["c", "y"]
    assert culprit.remedy is not None and culprit.remedy.proven
    assert "--no-openvino-fusion" in str(culprit.remedy.command)


@pytest.mark.parametrize("off", [0.0, 1.0])
def test_a_program_of_openvino_alone_shows_a_fault(off: float, tmp_path: Path) -> None:
    party = OpenvinoParty(precision_hint="f32", threads=1, properties={"PERF_COUNT": "YES"})
    expected = {name: array + off for name, array in party.load(conv_relu())({"x": X}).items()}
    culprit = Culprit(["conv"], "y", "openvino", "kernel", op="Conv")
    limits = dict.fromkeys(expected, 1e-3)
    given = (culprit, conv_relu(), {"x": X}, expected, limits, "openvino", party.settings, (), 2)
    failure = Failure(*given, "'y' is off by 1.")
    write_failure(str(tmp_path), failure)
    program = tmp_path / "reproduce.py"
    program.write_text(failure_program(failure))
    assert "polygraphy" not in program.read_text()
    done = subprocess.run([sys.executable, program], check=False, capture_output=True, text=True)
    assert done.returncode == bool(off), done.stderr
    said = "FAILED as is: 'y' differs in" if off else "PASSED as is: 'y'"
    assert done.stdout.startswith("openvino 20") and said in done.stdout


def test_what_changes_the_graph_has_no_such_program() -> None:
    assert "module" not in OpenvinoParty(fuse=False).settings
    assert "module" not in OpenvinoParty(float32_tensors=["y"]).settings
