"""Where a backend and the reference compute a node otherwise, a third decides."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnx_common import evaluator
from polygraphy.adapters.onnx_common import trees as trees_module
from polygraphy.binding import bind
from polygraphy.diagnose import diagnose
from polygraphy.domain.errors import BackendError, InconclusiveError
from polygraphy.ports.diagnosing import SuspectedParty
from polygraphy.ports.reporting import Findings
from polygraphy.ports.running import open_environment
from tests.support.diagnosis.diagnosis_cases import Kept, network
from tests.support.facts import facts_of


class MistakenParty(OnnxParty):
    """The evaluator with one operator that adds a little too much."""

    def __init__(self, name: str, op: str) -> None:
        super().__init__(name)
        self._op = op

    @property
    def backend(self) -> str:
        return self.name

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        def watched(node: Any, version: int, run: Callable[..., Any]) -> Callable[..., Any]:
            if node.op_type != self._op:
                return run
            return lambda *inputs, **options: tuple(
                value + np.float32(0.1) for value in run(*inputs, **options)
            )

        made = evaluator.evaluator_of(model, watched=watched)
        return partial(_run, made)


class SilentParty(OnnxParty):
    """Has no opinion."""

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        raise BackendError("nothing is known", backend="silent")


def _run(made: Any, feed: Any) -> dict[str, Any]:
    return dict(zip(made.output_names, made.run(None, dict(feed))))


def diagnosed(*parties: SuspectedParty) -> Kept:
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(network(), list(parties))
    return kept


@pytest.mark.parametrize("op", ["Tanh", "MatMul"])
def test_the_reference_is_named_where_it_is_wrong(op: str) -> None:
    found = diagnosed(MistakenParty("onnx", op), OnnxParty2()).culprits
    assert [one["party"] for one in found] == ["onnx"] * 4
    assert {one["cause"] for one in found} == {"reference"}
    names = [f"{'tanh' if op == 'Tanh' else 'mm'}{layer}" for layer in range(4)]
    assert [one["nodes"] for one in found] == [[name] for name in names]
    assert all(one["remedy"]["proven"] for one in found)
    assert any("formulas in float64" in sentence for sentence in found[0]["evidence"])


class OnnxParty2(OnnxParty):
    name = "second"


@pytest.mark.parametrize("op", ["Tanh", "MatMul"])
def test_the_backend_is_named_where_it_is_wrong(op: str) -> None:
    found = diagnosed(OnnxParty(), MistakenParty("wrong", op)).culprits
    assert {(one["party"], one["cause"]) for one in found} == {("wrong", "kernel")}


def test_both_are_named_where_both_are_wrong() -> None:
    found = diagnosed(MistakenParty("onnx", "Tanh"), MistakenParty("wrong", "MatMul")).culprits
    assert {(one["party"], one["cause"], one["nodes"][0][:2]) for one in found} == {
        ("onnx", "reference", "ta"), ("wrong", "kernel", "mm"),
    }  # fmt: skip


def one_node(op: str) -> Any:
    """A model whose only node has no formula."""
    read = ["x"] if op == "LpNormalization" else ["x", "like"]
    graph = helper.make_graph(
        [helper.make_node(op, read, ["y"], "guilty")],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])],
        [numpy_helper.from_array(np.zeros(1, np.float32), "like")],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 15)])


def test_the_package_is_asked_where_there_is_no_formula() -> None:
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(
            one_node("LpNormalization"), [MistakenParty("onnx", "LpNormalization"), OnnxParty2()]
        )
    [culprit] = kept.culprits
    assert (culprit["party"], culprit["cause"]) == ("onnx", "reference")
    assert "evaluator" in facts_of(culprit)["reference_is_wrong"]["juror"]


def test_what_the_reference_has_of_the_package_is_no_third_opinion() -> None:
    kept = Kept()
    unclear = pytest.raises(InconclusiveError, match="second and onnx disagree on CastLike 'gui")
    with bind(Findings, kept), unclear:
        diagnose(one_node("CastLike"), [MistakenParty("onnx", "CastLike"), OnnxParty2()])
    [candidate] = kept.culprits
    assert (candidate["nodes"], candidate["party"]) == (["guilty"], "second or onnx")
    assert candidate["remedy"]["command"] is None


def test_another_backend_is_a_third_opinion() -> None:
    class Third(OnnxParty):
        name = "third"

    kept = Kept()
    wrong = MistakenParty("wrong", "CastLike")
    with bind(Findings, kept):
        assert not diagnose(one_node("CastLike"), [OnnxParty(), wrong, Third()])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["party"]) == (["guilty"], "wrong")


def test_what_nobody_can_tell_of_is_named_beside_a_node_that_is_wrong_for_certain() -> None:
    """The second is wrong about Tanh; it does not follow that the outputs differ for that."""
    model = one_node("CastLike")
    model.graph.node[0].output[0] = "cast"
    model.graph.node.append(helper.make_node("Tanh", ["cast"], ["y"], "wrong"))
    kept = Kept()
    parties = [MistakenParty("onnx", "CastLike"), MistakenParty("second", "Tanh")]
    unclear = pytest.raises(InconclusiveError, match="second and onnx disagree on CastLike 'gui")
    with bind(Findings, kept), unclear:
        diagnose(model, parties)
    assert [(one["nodes"], one["party"]) for one in kept.culprits] == [
        (["guilty"], "second or onnx"), (["wrong"], "second"),
    ]  # fmt: skip


class Own(OnnxParty):
    """Runs what the reference evaluator does not have; adds a little where it is mistaken."""

    def __init__(self, name: str, off: float = 0.0) -> None:
        self.name, self._off = name, off

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        known = type(model)()
        known.CopyFrom(model)
        for node in known.graph.node:
            node.domain = ""
        compute = super().load(known)
        wrong = {
            name for node in known.graph.node if node.op_type == "Tanh" for name in node.output
        }
        return lambda feed: {
            name: value + np.float32(self._off * (name in wrong))
            for name, value in compute(feed).items()
        }


class WholeOnly(Own):
    """Is wrong about the whole model alone."""

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        is_whole = len(model.graph.node) > 1 and not plain
        return Own(self.name, self._off * is_whole).load(model)


def test_a_model_that_the_reference_evaluator_cannot_run_is_judged_by_backends() -> None:
    """As one with operators of ONNX Runtime alone, of which the formulas know other nodes."""
    model = one_node("CastLike")
    model.graph.node[0].domain = "com.own"
    model.graph.node[0].output[0] = "cast"
    model.graph.node.append(helper.make_node("Tanh", ["cast"], ["y"], "wrong"))
    model.opset_import.add(domain="com.own", version=1)
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(model, [Own("first"), Own("second", 0.1)])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["party"]) == (["wrong"], "second")
    with pytest.raises(InconclusiveError, match="agrees by itself"):
        diagnose(model, [Own("first"), WholeOnly("second", 0.1)])


def test_nobody_is_blamed_where_nobody_can_tell() -> None:
    silent = [bind(SuspectedParty, SilentParty(), name) for name in ("formulas", "package")]
    with silent[0], silent[1], pytest.raises(InconclusiveError, match="second and onnx disagree"):
        diagnosed(MistakenParty("onnx", "Tanh"), OnnxParty2())


def test_a_node_with_several_wrong_outputs_is_named_once() -> None:
    rng = np.random.default_rng(5)
    weights = [rng.standard_normal((1, 3, size)).astype(np.float32) for size in (2, 3)]
    graph = helper.make_graph(
        [helper.make_node("RNN", ["x", "w", "r"], ["y", "last"], "rnn", hidden_size=3)],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 2, 2])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 1, 2, 3]),
            helper.make_tensor_value_info("last", TensorProto.FLOAT, [1, 2, 3]),
        ],
        [numpy_helper.from_array(value, name) for name, value in zip("wr", weights)],
    )
    opset = [helper.make_opsetid("", 14)]
    model = helper.make_model(graph, ir_version=8, opset_imports=opset)
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(model, [OnnxParty(), MistakenParty("wrong", "RNN")])
    assert [one["nodes"] for one in kept.culprits] == [["rnn"]]


class Version:
    """An environment whose backend is right, or wrong in its own way, or as the other is."""

    def __init__(self, path: str) -> None:
        self.path, self.version, self.install = path, path, f"pip install wrong=={path}"

    def run(self, model: Any, feed: Any, settings: Any) -> dict[str, Any]:
        right = OnnxParty().load(model)(feed)
        more = {"right": 0.0, "same": 0.1, "odd": 0.3}[self.version]
        return {name: value + np.float32(more) for name, value in right.items()}


def versions(path: str) -> Version:
    return Version("same" if path == sys.executable else path)


@pytest.mark.parametrize(
    ("paths", "is_decided"),
    [(["same", "odd", "right"], True), (["same"], False), (["odd"], False), (["right"], True)],
)
def test_another_version_is_asked_and_counts_where_it_computes_otherwise(
    paths: Sequence[str], is_decided: bool
) -> None:
    kept, wrong = Kept(), MistakenParty("wrong", "CastLike")
    model = one_node("CastLike")
    unclear = (
        nullcontext()
        if is_decided
        else pytest.raises(InconclusiveError, match="wrong and onnx disagree")
    )
    with bind(Findings, kept), bind(open_environment, versions, "wrong"), unclear:
        assert not diagnose(model, [OnnxParty(), wrong], environments=paths)
    [culprit] = kept.culprits
    assert culprit["party"] == ("wrong" if is_decided else "wrong or onnx")
    juror = facts_of(culprit).get("reference_is_right", {}).get("juror")
    assert juror == ("wrong right" if is_decided else None)


def test_a_removed_node_behind_a_wrong_one_is_not_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ONNX Runtime computes both at once, without the Identity."""
    onnxrt = pytest.importorskip("polygraphy.adapters.onnxruntime.party").OnnxrtParty()
    values = {"nodes_splits": 0.0, "leaf_weights": [1.5, -1.0]}
    floats = {
        name: numpy_helper.from_array(np.float32(value).reshape(-1), name)
        for name, value in values.items()
    }
    modes = numpy_helper.from_array(np.array([0], np.uint8), "modes")
    ones = {name: [1] for name in ("nodes_trueleafs", "nodes_falseleafs")}
    places = {"nodes_truenodeids": [0], "nodes_falsenodeids": [1], "tree_roots": [0]}
    trees = helper.make_node(
        "TreeEnsemble", ["h"], ["o"], "trees", domain="ai.onnx.ml", n_targets=2, nodes_modes=modes,
        nodes_featureids=[0], leaf_targetids=[0, 1], post_transform=2, **floats, **ones, **places,
    )  # fmt: skip
    nodes = [
        helper.make_node("Tanh", ["x"], ["h"], "first"),
        trees,
        helper.make_node("Identity", ["o"], ["y"], "last"),
    ]
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, size])]
        for name, size in (("x", 1), ("y", 2))
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 5)]
    graph = helper.make_graph(nodes, "g", *ends)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    monkeypatch.setattr(trees_module, "transform_scores", lambda name, scores: scores)
    kept = Kept()
    feed = {"x": np.float32([[-1], [1], [2], [-2]])}
    with bind(Findings, kept):
        assert not diagnose(model, [onnxrt, OnnxParty2()], [feed])
    assert [culprit["nodes"] for culprit in kept.culprits] == [["trees"]]
