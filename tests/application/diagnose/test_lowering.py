"""A backend that computes in half precision gets the nodes that it must not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from polygraphy.adapters.fake import FakeProgram
from polygraphy.backend.onnxrt import OnnxrtParty, OnnxrtRunner, SessionFromOnnx
from polygraphy.binding import bind, resolve
from polygraphy.comparator import Comparator, DataLoader, StepLoader
from polygraphy.diagnose import diagnose
from polygraphy.domain.errors import BackendError, InconclusiveError, ModelError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.ports.diagnosing import NarrowModels
from polygraphy.ports.reporting import Findings
from tests.support.decoders import decoder
from tests.support.diagnosis.half_precision_cases import BLAMED, network
from tests.support.diagnosis.node_builder import Builder, nodes_in_float32
from tests.support.models import make, value


class Kept:
    """Keeps what a diagnosis comes to; implements the port `Findings`."""

    def __init__(self) -> None:
        self.verdict: Any = None
        self.culprits: Any = ()
        self.summary = ""

    def report_finding(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Something was found."""

    def conclude(self, verdict: Any = None, culprits: Any = (), summary: str = "") -> None:
        self.verdict, self.culprits, self.summary = verdict, culprits, summary


def diagnosed(model: Any, *parties: Any, **right: Any) -> tuple[str, Any]:
    findings = Kept()
    with bind(Findings, findings):
        try:
            answer = diagnose(model, list(parties), **right)
        except InconclusiveError:
            answer = False
    assert answer == (findings.verdict == "agree")
    return findings.verdict, findings.culprits


@pytest.mark.parametrize("cause", sorted(BLAMED))
@pytest.mark.parametrize("parties", [(), (OnnxrtParty(),)])
def test_the_node_is_named_and_the_remedy_is_built(cause: str, parties: Any) -> None:
    builder = Builder()
    verdict, culprits = diagnosed(network(cause), builder, *parties)
    assert verdict == "fault"
    [culprit] = [one for one in culprits if BLAMED[cause] in one["nodes"]]
    assert culprit["cause"] == cause
    assert culprit["party"] == "trt"
    assert culprit["remedy"]["proven"]
    assert nodes_in_float32(culprit["remedy"]["command"]) in builder.builds
    assert len(builder.builds) <= 12
    assert any("in fp32, all outputs match" in each for each in culprit["evidence"])


def test_the_remedy_is_run_on_the_data_on_which_it_was_tried() -> None:
    loader = DataLoader(val_range=(-2, 2), seed=5)
    _, [culprit] = diagnosed(network("overflow"), Builder(), data_loader=loader)
    assert " --seed 5 " in culprit["remedy"]["command"]
    assert " --val-range '[-2,2]' " in culprit["remedy"]["command"]


class Refusing(Builder):
    """Refuses every model in half precision."""

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        raise BackendError("no kernel in fp16", backend=self.name)


@pytest.mark.parametrize("kind", ["", "reference", "golden", "program"])
def test_what_is_refused_in_half_precision_alone_runs_in_float32(kind: str, tmp_path: Path) -> None:
    model = network(None)
    right = right_results(model, kind, tmp_path) if kind else {}
    verdict, [culprit] = diagnosed(model, Refusing(), OnnxrtParty(), **right)
    assert (verdict, culprit["party"], culprit["cause"]) == ("fault", "trt", "refusal")
    assert "no kernel in fp16" in culprit["evidence"][0]
    assert culprit["remedy"]["proven"]
    assert culprit["remedy"]["command"].endswith("--rtol auto --atol auto")


def right_results(model: Any, kind: str, folder: Path) -> dict[str, Any]:
    """Return what a diagnosis is given as right: the same model, the program of it, or results of
    it in float32.
    """
    if kind == "reference":
        return {"reference": model}
    if kind == "program":
        compute = OnnxrtParty().load(model)
        names, [y] = [value.name for value in model.graph.input], model.graph.output
        step = ("net", names, lambda *arrays: compute(dict(zip(names, arrays)))[y.name])
        return {"program": FakeProgram(names, {y.name: step}, [y.name])}
    path, data = folder / "right.json", DataLoader(iterations=2)
    Comparator.run([OnnxrtRunner(SessionFromOnnx(model))], data).save(path)
    return {"golden": str(path), "data_loader": data}


@pytest.mark.parametrize("kind", ["reference", "golden", "program"])
@pytest.mark.parametrize("cause", sorted(BLAMED))
def test_where_float32_is_right_it_is_the_precision(cause: str, kind: str, tmp_path: Path) -> None:
    right = right_results(network(cause), kind, tmp_path)
    verdict, culprits = diagnosed(network(cause), Builder(), **right)
    assert verdict == "fault"
    assert {each["cause"] for each in culprits if BLAMED[cause] in each["nodes"]} == {cause}
    assert all(each["party"] == "trt" for each in culprits)


@pytest.mark.parametrize("kind", ["reference", "golden", "program"])
def test_what_may_be_lowered_matches_what_is_right(kind: str, tmp_path: Path) -> None:
    right = right_results(network(None), kind, tmp_path)
    assert diagnosed(network(None), Builder(), **right) == ("agree", [])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["reference", "golden", "program"])
def test_what_is_wrong_in_float32_is_not_the_precision(kind: str, tmp_path: Path) -> None:
    right = right_results(network("overflow"), kind, tmp_path)
    verdict, culprits = diagnosed(network("overflow"), Builder(wrong=1.0), **right)
    assert verdict in ("fault", "inconclusive")
    assert "overflow" not in {each["cause"] for each in culprits}


class Joining(Builder):
    """A backend that computes nodes as one with what they read, in the type of the first of them:
    as TensorRT does with Conv and the norm after it.
    """

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        makers = {node.output[0]: node for node in model.graph.node}
        joined = {node.name: [makers.get(name) for name in node.input] for node in makers.values()}
        alone = [
            n for n in without if all(each is None or each.name in without for each in joined[n])
        ]
        compute = super().load(model, plain=plain, without=alone)
        if not plain:
            self.builds[-1] = tuple(without)
        return compute


def test_neighbors_stay_in_float32_where_a_backend_computes_them_as_one() -> None:
    builder = Joining()
    verdict, culprits = diagnosed(network("overflow"), builder)
    assert verdict == "fault"
    [culprit] = culprits
    assert (culprit["nodes"], culprit["cause"]) == ([BLAMED["overflow"]], "overflow")
    assert culprit["remedy"]["proven"]
    kept = nodes_in_float32(culprit["remedy"]["command"])
    assert BLAMED["overflow"] in kept and len(kept) > 1
    assert len(builder.builds) <= 4


class Whole(Builder):
    """A backend that keeps no single node in float32."""

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        return super().load(model, plain=plain)


def test_the_remedy_is_the_whole_model_where_a_backend_keeps_no_nodes_apart() -> None:
    factors = {"up": 300.0, "more": 900.0, "down": 1e-4}
    names = ["x", "a", "b", "y"]
    nodes = [
        helper.make_node("Mul", [names[number], factor], [names[number + 1]], factor)
        for number, factor in enumerate(factors)
    ]
    weights = {name: np.float32(factor) for name, factor in factors.items()}
    model = make("large", nodes, [value("x", [4, 8])], [value("y", [4, 8])], weights=weights)
    _, [*_, culprit] = diagnosed(model, Whole())
    assert not nodes_in_float32(culprit["remedy"]["command"])
    assert "With the whole model in fp32, all outputs match" in culprit["evidence"][-1]


class Overflowing(OnnxrtParty):
    """A backend that returns infinity in one element."""

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        compute = super().load(model, plain=plain, without=without)
        return lambda feed: {name: self.overflow(array) for name, array in compute(feed).items()}

    def overflow(self, array: Any) -> Any:
        changed = np.array(array)
        changed.flat[0] = np.inf
        return changed


def test_no_command_is_printed_that_fails_because_the_reference_overflows() -> None:
    verdict, [culprit] = diagnosed(network("overflow"), Builder(), Overflowing())
    assert (verdict, culprit["cause"], culprit["remedy"]["command"]) == ("fault", "overflow", None)


def test_a_backend_that_may_is_left_alone() -> None:
    builder = Builder()
    assert diagnosed(network(None), builder) == ("agree", [])
    assert builder.builds == [()]


@pytest.mark.slow
def test_what_float32_does_not_mend_is_diagnosed_in_float32() -> None:
    verdict, culprits = diagnosed(network("overflow"), Builder(wrong=1.0), OnnxrtParty())
    assert verdict == "fault"
    assert {culprit["cause"] for culprit in culprits} == {"kernel"}
    assert {culprit["party"] for culprit in culprits} == {"trt"}


def test_a_model_of_an_old_opset_is_compared_though_its_nodes_cannot_be_cast() -> None:
    made = network(None)
    made.opset_import[0].version = 12
    with pytest.raises(ModelError, match="opset 12"):
        resolve(NarrowModels).open(made, DataType.BFLOAT16)
    assert diagnosed(made, Old(), OnnxrtParty()) == ("agree", [])
    verdict, _ = diagnosed(made, Old(by=1.0), OnnxrtParty())
    assert verdict == "inconclusive"


def test_steps_are_judged_in_float32_and_then_one_by_one_in_half_precision() -> None:
    loader = StepLoader(decoder(), steps=2)
    assert diagnosed(decoder(), Old(), OnnxrtParty(), data_loader=loader) == ("agree", [])


class Old(OnnxrtParty):
    """ONNX Runtime, as if it computed in bfloat16, off by something unless it is plain."""

    name = "old"
    lowers_to = "bf16"

    def __init__(self, by: float = 1e-3) -> None:
        super().__init__()
        self._by = by

    def in_float32(self) -> OnnxrtParty:
        return OnnxrtParty()

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        compute = super().load(model, plain=plain, without=without)
        return lambda feed: {k: v + (not plain) * self._by for k, v in compute(feed).items()}


@pytest.mark.parametrize("parties", [(), (OnnxrtParty(),)])
def test_an_invalid_model_is_at_fault_though_a_backend_computes_in_half_precision(
    parties: Any,
) -> None:
    model = network("overflow")
    del next(node for node in model.graph.node if node.op_type in ("MatMul", "Gemm")).input[1:]
    verdict, [culprit] = diagnosed(model, Builder(), *parties)
    assert (verdict, culprit["party"], culprit["cause"]) == ("fault", "model", "refusal")


class AllOrNothing(Builder):
    """A backend whose outputs match only with all nodes in float32."""

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        compute = super().load(model, plain=plain, without=without)
        is_right = plain or len(without) == len(model.graph.node)
        return lambda feed: {name: array + (not is_right) for name, array in compute(feed).items()}


def test_the_precision_of_the_backend_is_set_if_all_nodes_have_to_stay_in_float32() -> None:
    findings = Kept()
    with bind(Findings, findings), suppress(InconclusiveError):
        diagnose(network(None), [AllOrNothing()])
    assert (findings.verdict, [*findings.culprits]) == ("inconclusive", [])
    assert "only with 13 of 13 nodes in fp32" in findings.summary
    assert "Set the precision of the backend to fp32: polygraphy run" in findings.summary
    assert nodes_in_float32(findings.summary) == ()
