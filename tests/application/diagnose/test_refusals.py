"""What a backend refuses may follow from what it computed wrongly before."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnx_common import evaluator
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.precision.half_verdict import cast_model
from polygraphy.backend.onnx import ConvertToFp16
from polygraphy.binding import bind
from polygraphy.diagnose import diagnose, diagnose_half
from polygraphy.domain.diagnosis.words import evidence
from polygraphy.domain.errors import (
    BackendError,
    InconclusiveError,
    MissingDependencyError,
    UnavailableError,
    UnsupportedModelError,
)
from polygraphy.domain.ports import command_line
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.diagnosis.diagnosis_cases import network as layers
from tests.support.diagnosis.node_builder import Builder
from tests.support.facts import facts_of
from tests.support.models import make, value
from tests.support.parties import CrashingParty, WrongRewriter, command_of_fakes


class OneRowMore(OnnxParty):
    """The evaluator, which makes one row too many of some operator."""

    name = "wide"

    def __init__(self, op: str) -> None:
        self._op = op

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        def watched(node: Any, version: int, run: Callable[..., Any]) -> Callable[..., Any]:
            if node.op_type != self._op:
                return run
            return lambda *given, **how: (np.concatenate([made := run(*given, **how)[0], made]),)

        made = evaluator.evaluator_of(model, watched=watched)

        def compute(feed: Mapping[str, Any]) -> dict[str, Any]:
            try:
                return dict(zip(made.output_names, made.run(None, dict(feed))))
            except Exception as error:
                raise BackendError(str(error), backend=self.name) from error

        return compute


def network() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Exp", ["x"], ["e"], "exp"),
        helper.make_node("Softplus", ["e"], ["s"], "softplus"),
        helper.make_node("Tanh", ["s"], ["t"], "tanh"),
        helper.make_node("Reshape", ["t", "shape"], ["y"], "reshape"),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [6])],
        [numpy_helper.from_array(np.array([6], np.int64), "shape")],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])


@pytest.mark.slow
@pytest.mark.parametrize("op, name", [("Softplus", "softplus"), ("Tanh", "tanh")])
def test_a_node_that_makes_another_shape_is_named_not_what_refuses_it(op: str, name: str) -> None:
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(network(), [OneRowMore(op), OnnxParty()])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["party"], culprit["cause"]) == ([name], "wide", "kernel")
    assert facts_of(culprit)["refusal"]["by_wrong_value"]


class Refusing(OnnxParty):
    """The evaluator, which refuses Softplus and advises against it."""

    name = "strict"

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        proto = onnx.load(model) if isinstance(model, str) else model
        if any(node.op_type == "Softplus" for node in proto.graph.node):
            raise UnsupportedModelError(
                "No:\n    node 1", backend=self.name, hint="\nExport a Relu."
            )
        return super().load(model, plain=plain, without=without)


def test_the_advice_of_a_backend_is_the_remedy(tmp_path: Path) -> None:
    path, kept = str(tmp_path / "m.onnx"), Kept()
    onnx.save(network(), path)
    with bind(Findings, kept):
        assert not diagnose(path, [Refusing(), OnnxParty()])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["remedy"]["note"]) == (["softplus"], "Export a Relu.")
    assert "strict rejects the model: No: node 1" in culprit["evidence"]


@pytest.mark.parametrize(
    ("domain", "said"),
    [("com.example", ", a non-standard operator."), ("ai.onnx.ml", ".")],
)
def test_an_operator_that_a_backend_lacks_is_nobodys_fault(domain: str, said: str) -> None:
    model = network()
    model.graph.node[1].CopyFrom(
        helper.make_node("FusedSoftplus", ["e"], ["s"], "fused", domain=domain)
    )
    model.opset_import.append(helper.make_opsetid(domain, 1))
    able = Able()
    words = re.escape(f"onnx does not support {domain}.FusedSoftplus{said}")
    with pytest.raises(InconclusiveError, match=f"{words} Compare"):
        diagnose(model, [OnnxParty(), able])


def test_a_model_of_operators_that_a_backend_lacks_is_nobodys_fault() -> None:
    """As transformers that an optimizer fused: each node is refused by itself."""
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 17, "own": 1]>
        g (float[2,3] x) => (float[2,3] y) { a = own.Fused(x)  y = own.Other(a) }""")
    words = "onnx does not support own.Fused, own.Other, non-standard operators. Compare"
    with pytest.raises(InconclusiveError, match=words):
        diagnose(model, [OnnxParty(), Able()])


class Able(OnnxParty):
    """Runs what the evaluator does not."""

    name = "able"

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        made = onnx.ModelProto()
        made.CopyFrom(model)
        for node in made.graph.node:
            if node.domain:
                node.op_type, node.domain = "Softplus", ""
        return super().load(made, plain=plain, without=without)


class Older(OnnxParty):
    """Reads an older format alone."""

    name = "older"

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        if model.ir_version > 7:
            raise BackendError("Unsupported version 8.", backend=self.name)
        return super().load(model, plain=plain, without=without)


@pytest.mark.slow
def test_no_node_is_named_of_a_model_that_is_too_new() -> None:
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(network(), [Older(), OnnxParty()])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["party"], culprit["cause"]) == ([], "older", "refusal")
    assert any("Unsupported version 8" in sentence for sentence in culprit["evidence"])


class Missing(OnnxParty):
    """A backend that can run nothing here."""

    name = "missing"
    rewrites = True
    error: Exception

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        raise self.error


@pytest.mark.parametrize("kind", [MissingDependencyError, UnavailableError])
def test_a_backend_that_is_not_there_refuses_no_model(kind: type[BackendError]) -> None:
    missing = Missing()
    missing.error = kind("it is not here.")
    for parties in ([OnnxParty(), missing], [missing]):
        with pytest.raises(kind, match="it is not here"):
            diagnose(network(), parties)
    with pytest.raises(kind, match="it is not here"):
        diagnose_half(network(), "fp16", parties=[missing])


class TwoFusions(WrongRewriter):
    """Refuses what one of its rewrites makes, and in a larger model what another makes as well."""

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any:
        ops = [node.op_type for node in model.graph.node]
        needed = {"ExpLogFusion", "Other"} if len(ops) > 4 else {"ExpLogFusion"}
        if {"Exp", "Log"} <= set(ops) and not needed <= set(without):
            raise BackendError("The fused node is invalid.", backend=self.name)
        return model


@pytest.mark.slow
def test_what_helps_is_proven_on_the_whole_model() -> None:
    kept = Kept()
    with bind(Findings, kept), bind(command_line, command_of_fakes):
        assert not diagnose(layers(), [TwoFusions(), OnnxParty()])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["rewrite"]) == (["exp1", "log1"], "ExpLogFusion+Other")
    assert culprit["remedy"]["command"].startswith(
        "polygraphy run model_file=MODEL runners=('wrong',) without=('ExpLogFusion', 'Other')"
    )
    assert culprit["remedy"]["proven"]
    assert facts_of(culprit)["runs_without"]["is_whole_model"]


@pytest.mark.slow
def test_what_helps_a_model_in_half_precision_is_compared_within_its_rounding() -> None:
    kept = Kept()
    with bind(Findings, kept), bind(command_line, command_of_fakes):
        assert not diagnose(ConvertToFp16(layers())(), [TwoFusions(), OnnxParty()])
    [culprit] = kept.culprits
    assert culprit["remedy"]["command"].endswith("rtol=auto atol=auto")


def test_casts_that_only_hand_on_bfloat16_are_not_named_beside_what_is_refused() -> None:
    text = """
    <ir_version: 8, opset_import: ["": 17]>
    narrow (float[2,3] x) => (float[2,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}> {
        product = Gemm (x, w)
        y = Neg (product)
    }
    """
    model = parser.parse_model(text)
    for node in model.graph.node:
        node.name = f"node_{node.output[0]}"
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose_half(model, "bf16", parties=[OnnxrtParty()])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["node_product"], "refusal")


@pytest.mark.slow
def test_nodes_of_one_name_are_the_fault_of_the_model() -> None:
    nodes = [
        helper.make_node(op, [a], [b], "same")
        for op, a, b in (("Neg", "x", "h"), ("Abs", "h", "y"))
    ]
    model = make("named", nodes, [value("x", [3])], [value("y", [3])])
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(model, [OnnxrtParty(), OnnxParty()])
    [culprit] = kept.culprits
    assert (culprit["party"], culprit["cause"]) == ("model", "names")


def scaled() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["a"], "scale"),
        helper.make_node("Relu", ["a"], ["y"], "relu"),
    ]
    weights = {"w": np.linspace(-1, 1, 8, dtype=np.float32)}
    return make("scaled", nodes, [value("x", [8])], [value("y", [8])], weights=weights)


@pytest.mark.slow
@pytest.mark.usefixtures("forks")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_a_crash_in_half_precision_does_not_end_what_compares_with_float32() -> None:
    party, model = CrashingParty(), scaled()
    kept = Kept()
    with bind(Findings, kept):
        diagnose(cast_model(model, "fp16"), [party], reference=model)
    [culprit] = kept.culprits
    assert (culprit["cause"], culprit["rewrite"]) == ("refusal", "WidenFusion")


@pytest.mark.slow
@pytest.mark.usefixtures("forks")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_a_crash_of_the_other_backend_does_not_end_what_lowers_to_half_precision() -> None:
    kept = Kept()
    with bind(Findings, kept):
        diagnose(cast_model(scaled(), "fp16"), [Builder(), CrashingParty()])
    [culprit] = kept.culprits
    assert (culprit["cause"], culprit["rewrite"]) == ("refusal", "WidenFusion")


@pytest.mark.usefixtures("forks")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_a_crash_of_what_is_lowered_is_a_refusal_that_float32_mends() -> None:
    tests = os.getpid()

    class Crashing(Builder):
        rewrites = True

        def load(self, *given: Any, plain: bool = False, **options: Any) -> Any:
            if not plain:
                assert os.getpid() != tests, "the crash would have ended the diagnosis"
                os.kill(os.getpid(), signal.SIGKILL)
            return super().load(*given, plain=plain, **options)

    kept = Kept()
    with bind(Findings, kept):
        diagnose(scaled(), [Crashing(), OnnxrtParty()])
    [culprit] = kept.culprits
    assert (culprit["party"], culprit["cause"]) == ("trt", "refusal")
    assert culprit["remedy"]["proven"]


@pytest.mark.slow
@pytest.mark.usefixtures("forks")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_what_crashes_once_it_is_cast_is_told_with_the_commands_that_cast_and_run_it(
    tmp_path: Path,
) -> None:
    onnx.save(scaled(), tmp_path / "m.onnx")
    kept = Kept()
    with bind(Findings, kept), bind(command_line, command_of_fakes):
        diagnose_half(str(tmp_path / "m.onnx"), "fp16", parties=[CrashingParty()])
    [culprit] = kept.culprits
    assert (culprit["cause"], culprit["rewrite"]) == ("refusal", "WidenFusion")
    cast_first, run = culprit["remedy"]["command"].split(" && ")
    assert cast_first.endswith("fp_to_fp16=True output=m_fp16.onnx")
    assert run.startswith("polygraphy run model_file=m_fp16.onnx runners=('crashing',) without=(")


def test_what_is_refused_beside_a_reference_is_asked_in_half_precision_as_well() -> None:
    refused = scaled()

    class OnlyInParts(Builder):
        def load(self, *given: Any, **options: Any) -> Any:
            model = given[0]() if callable(given[0]) else given[0]
            if model is refused:
                raise BackendError("It cannot be.", backend="trt")
            return super().load(model, **options)

        def in_float32(self) -> Any:
            return InFloat32InParts()

    class InFloat32InParts(OnlyInParts):
        lowers_to = ""

    with bind(Findings, Kept()), pytest.raises(InconclusiveError, match="It cannot be"):
        diagnose(refused, [OnlyInParts()], reference=scaled())


class RefusingSomeData(WrongRewriter):
    """Refuses what its rewrite makes, and without rewrites data that are larger than 1."""

    def __init__(self) -> None:
        super().__init__(refuses=True)

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        compute = super().load(model, plain=plain, without=without)

        def checked(feed: Mapping[str, Any]) -> Any:
            if "x" in feed and np.max(feed["x"]) > 1:
                raise BackendError("It is too large.", backend=self.name)
            return compute(feed)

        return checked


@pytest.mark.slow
@pytest.mark.parametrize(("largest", "is_proven"), [(1, True), (2, False)])
def test_a_remedy_of_a_refusal_works_on_all_data(largest: int, is_proven: bool) -> None:
    kept = Kept()
    data = [{"x": np.full((3, 6), value, np.float32)} for value in (0.5, largest)]
    with bind(Findings, kept), bind(command_line, command_of_fakes):
        assert not diagnose(layers(), [RefusingSomeData(), OnnxParty()], data)
    [culprit] = kept.culprits
    assert (culprit["party"], culprit["cause"]) == ("wrong", "refusal")
    assert culprit["remedy"]["proven"] is is_proven


def test_the_reason_of_a_refusal_is_kept_and_the_types_of_inputs_are_not() -> None:
    inputs = ", ".join(f"weight_{number} float32[1,3,12,12]" for number in range(20))
    for node in (f"(Conv of opset 13 on {inputs})", f"(Conv, opset 13) on {inputs}"):
        said = str(evidence.refusal("ort", f"It could not run node 'c' {node}: 3 (not 4) channels"))
        assert said == "ort rejects the model: It could not run node 'c' (Conv): 3 (not 4) channels"


def test_a_missing_kernel_is_no_bug_of_the_backend(tmp_path: Path) -> None:
    """ONNX Runtime has Erf only in float32: no bug report, but what it supports."""
    model = make(
        "erf",
        [helper.make_node("Erf", ["x"], ["y"], "erf")],
        [value("x", [2], TensorProto.DOUBLE)],
        [value("y", [2], TensorProto.DOUBLE)],
    )
    onnx.save(model, tmp_path / "m.onnx")
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(str(tmp_path / "m.onnx"), [OnnxrtParty()])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["erf"], "refusal")
    assert culprit["remedy"]["command"] is None
    assert "The CPU implements Erf for float32: cast its inputs." in culprit["remedy"]["note"]
