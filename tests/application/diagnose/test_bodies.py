"""What differs inside the body of a node, such as a Loop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from polygraphy.adapters.onnx.edit.copying import copy_nodes
from polygraphy.adapters.onnx.run.opening import open_model
from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.binding import bind
from polygraphy.comparator import RunResults
from polygraphy.diagnose import diagnose
from polygraphy.domain.errors import BackendError, InconclusiveError
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.choosing_models import choosing
from tests.support.diagnosis.computed_tensors import compute_tensors
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.models import make, value
from tests.support.parties import WrongRewriter

RNG = np.random.default_rng(2)
INNER, OUTER, SEEN = (RNG.normal(size=8).astype(np.float32) for _ in range(3))


def looping(inner: np.ndarray = INNER, outer: np.ndarray = OUTER, op: str = "Sub", prefix: str = "") -> onnx.ModelProto:  # fmt: skip
    """Twice through a loop that reads a weight of its own and one from around it."""

    def name(tensor: str) -> str:
        return tensor if tensor in ("x", "y") else prefix + tensor

    def node(kind: str, reads: str, makes: str, **held: object) -> onnx.NodeProto:
        tensors = [[name(one) for one in words.split()] for words in (reads, makes)]
        return helper.make_node(
            kind, *tensors, name=f"{prefix}{makes.split(maxsplit=1)[0]}_node", **held
        )

    body = helper.make_graph(
        [
            node("Mul", "v inner", "scaled"),
            node("Add", "scaled seen", "moved"),
            node(op, "moved outer", "w"),
            node("Identity", "go", "goes"),
        ],
        "body",
        [
            value(name("i"), [], TensorProto.INT64),
            value(name("go"), [], TensorProto.BOOL),
            value(name("v"), [3, 8]),
        ],
        [value(name("goes"), [], TensorProto.BOOL), value(name("w"), [3, 8])],
        [numpy_helper.from_array(inner, name("inner"))],
    )
    loop = node("Loop", "count yes start", "y", body=body)
    weights = {"count": np.int64(2), "yes": np.array(True), "outer": outer, "one": SEEN}
    return make(
        "looping",
        [node("Tanh", "x", "start"), node("Abs", "one", "seen"), loop],
        [value("x", [3, 8])],
        [value("y", [3, 8])],
        weights={name(key): each for key, each in weights.items()},
    )


def other(array: np.ndarray) -> np.ndarray:
    made = array.copy()
    made[3] = 9
    return made


def found(model: onnx.ModelProto, reference: onnx.ModelProto) -> Kept:
    kept = Kept()
    with bind(Findings, kept):
        diagnose(model, [OnnxrtParty()], reference=reference)
    return kept


FAULTS: dict[str, tuple[Callable[[], onnx.ModelProto], str, str]] = {
    "a weight of the body": (lambda: looping(inner=other(INNER)), "scaled_node", "weight"),
    "a weight around it": (lambda: looping(outer=other(OUTER)), "w_node", "weight"),
    "another operator": (lambda: looping(op="Add"), "w_node", "structure"),
}


@pytest.mark.parametrize("prefix", ["", "other_"], ids=["same names", "other names"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.slow
def test_the_node_in_the_body_is_named_and_proven(fault: str, prefix: str) -> None:
    build, node, cause = FAULTS[fault]
    [culprit] = found(build(), looping(prefix=prefix)).culprits
    assert (culprit["nodes"], culprit["party"], culprit["cause"]) == ([node], "model", cause)
    assert culprit["remedy"]["proven"]


@pytest.mark.parametrize("prefix", ["", "other_"], ids=["same names", "other names"])
@pytest.mark.slow
def test_nobody_is_blamed_where_the_bodies_are_the_same(prefix: str) -> None:
    kept = found(looping(), looping(prefix=prefix))
    assert (kept.verdict, kept.culprits) == ("agree", [])


@pytest.mark.slow
def test_a_backend_is_not_unsteady_where_the_models_differ_on_other_data() -> None:
    """What the body of a function of another opset differs in is not found; on the first data it
    makes no difference.
    """

    def calling(op: str) -> onnx.ModelProto:
        body = [helper.make_node(op, ["a"], ["b"])]
        before, opsets = [helper.make_opsetid("", 16)], [helper.make_opsetid("", 17)]
        function = helper.make_function("local", "Act", ["a"], ["b"], body, before)
        node = helper.make_node("Act", ["x"], ["y"], "act", domain="local")
        graph = helper.make_graph([node], "calling", [value("x", [3, 8])], [value("y", [3, 8])])
        opsets.append(helper.make_opsetid("local", 1))
        return helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=8)

    with pytest.raises(InconclusiveError, match="No difference between the models explains"):
        diagnose(calling("Relu"), [OnnxrtParty()], reference=calling("Identity"))


@pytest.mark.parametrize(("steps", "verdict"), [(127, "inconclusive"), (3, "fault")])
@pytest.mark.slow
def test_what_quantizing_usually_does_is_nobodys_fault(steps: int, verdict: str) -> None:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((8, 8)).astype(np.float32)
    scale = np.array(np.abs(weight).max() / steps, np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    ends = [value("x", [3, 8])], [value("y", [3, 8])]
    reference = make("wide", nodes, *ends, weights={"w": weight})
    held = {"q": np.rint(weight / scale).astype(np.int8), "s": scale, "z": np.array(0, np.int8)}
    nodes.insert(0, helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], name="wide"))
    model = make("narrow", nodes, *ends, weights=held)
    kept = Kept()
    with bind(Findings, kept), contextlib.suppress(InconclusiveError):
        diagnose(model, [OnnxrtParty()], reference=reference)
    assert kept.verdict == verdict  # As `run` fails: only weights are quantized.


def branching(
    op: str, shift: float, condition: str = "wide", after: str = "Identity"
) -> onnx.ModelProto:
    """A branch inside a branch, which is taken where the input is large."""

    def branch(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph(nodes, name, [], [value(nodes[-1].output[0], [3, 8])])

    inner = branch(
        "inner",
        helper.make_node("Add", ["large", "shift"], ["low"], "lower"),
        helper.make_node(op, ["low"], ["found"], "guilty"),
        helper.make_node(after, ["found"], ["logged"], "log"),
    )
    plain = branch("plain", helper.make_node("Neg", ["large"], ["negated"], "neg"))
    outer = branch(
        "outer",
        helper.make_node("Mul", ["x", "two"], ["large"], "double"),
        helper.make_node(
            "If", [condition], ["chosen"], "inside", then_branch=inner, else_branch=plain
        ),
        helper.make_node("Identity", ["chosen"], ["handed"], "hand"),
    )
    other = branch("other", helper.make_node("Abs", ["x"], ["size"], "abs"))
    return make(
        "branching",
        [
            helper.make_node("ReduceMax", ["x"], ["top"], "top", keepdims=0),
            helper.make_node("Greater", ["top", "bound"], ["wide"], "compare"),
            helper.make_node("If", ["wide"], ["y"], "choice", then_branch=outer, else_branch=other),
        ],
        [value("x", [3, 8])],
        [value("y", [3, 8])],
        weights={
            "two": np.float32(2),
            "shift": np.float32(shift),
            "bound": np.float32(-9),
            "always": np.array(True),
        },
    )


@pytest.mark.parametrize("condition", ["wide", "always"])
@pytest.mark.slow
def test_a_node_of_the_branch_that_is_taken_is_named(condition: str) -> None:
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(branching("Log", -50.0, condition), [OnnxrtParty(), OnnxParty()])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["guilty"], "nan")


@pytest.mark.slow
def test_the_tail_of_a_sigmoid_in_a_branch_is_nobodys_fault() -> None:
    kept = Kept()
    with bind(Findings, kept):
        assert diagnose(branching("Sigmoid", -12.5), [OnnxrtParty(), OnnxParty()])
    assert (kept.verdict, kept.culprits) == ("agree", [])


class WrongBranches(WrongRewriter):
    """Rewrites the branches of If nodes alone."""

    def runtime_graph(
        self, model: Any, *, without: Collection[str] = (), level: str | None = None
    ) -> Any:
        taken = open_model(model)
        while (made := taken.with_branches({"wide": True})) is not taken:
            taken = made
        return super().runtime_graph(taken.proto, without=without, level=level)


@pytest.mark.slow
def test_a_rewrite_in_a_branch_is_named() -> None:
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(branching("Exp", -1.0, after="Log"), [WrongBranches(), OnnxParty()])
    [culprit] = kept.culprits
    assert culprit["nodes"] == ["guilty", "log"]
    assert (culprit["party"], culprit["rewrite"]) == ("wrong", "ExpLogFusion")
    assert culprit["remedy"]["proven"]


@pytest.mark.slow
def test_saved_outputs_alone_prove_what_was_changed_in_a_branch(tmp_path: Path) -> None:
    feed = {"x": RNG.normal(size=(3, 8)).astype(np.float32)}
    results = RunResults()
    results.add([OnnxrtParty().load(branching("Sigmoid", 0.1))(feed)], runner_name="right")
    results.save(str(tmp_path / "golden.json"))
    kept = Kept()
    with bind(Findings, kept):
        golden = str(tmp_path / "golden.json")
        assert not diagnose(branching("Tanh", 0.1), [OnnxrtParty()], [feed], golden=golden)
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["guilty"], "structure")
    assert culprit["remedy"]["proven"]
    assert culprit["remedy"]["note"].startswith("Undo")


@pytest.mark.slow
def test_what_is_refused_in_a_branch_is_named() -> None:
    kept = Kept()
    party = WrongBranches(refuses=True)
    with bind(Findings, kept):
        assert not diagnose(branching("Exp", -1.0, after="Log"), [party, OnnxParty()])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["guilty", "log"], "refusal")
    assert culprit["remedy"]["proven"]


class Branchless(OnnxParty):
    """Has no If."""

    name = "branchless"

    def load(self, model: Any, *, plain: bool = False, without: Collection[str] = ()) -> Any:
        if any(node.op_type == "If" for node in model.graph.node):
            raise BackendError("There is no If here.", backend=self.name)
        return super().load(model, plain=plain, without=without)


@pytest.mark.slow
def test_the_if_is_named_where_its_branch_is_not_what_is_refused() -> None:
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(branching("Exp", -1.0), [Branchless(), OnnxParty()])
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["choice"], "refusal")


@pytest.mark.slow
def test_a_node_in_a_branch_of_a_branch_is_named_and_copied(tmp_path: Path) -> None:
    wrong, right = (str(tmp_path / f"{name}.onnx") for name in ("wrong", "right"))
    onnx.save(branching("Tanh", 0.1), wrong)
    onnx.save(branching("Sigmoid", 0.1), right)
    kept = Kept()
    with bind(Findings, kept):
        assert not diagnose(wrong, [OnnxrtParty()], reference=right)
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["op"]) == (["guilty"], "Tanh")
    made = copy_nodes(onnx.load(wrong), right, ["guilty"])
    with bind(Findings, Kept()):
        assert diagnose(made, [OnnxrtParty()], reference=right)


@pytest.mark.slow
def test_an_if_that_takes_the_other_branch_than_the_saved_tensors_is_named(tmp_path: Path) -> None:
    feed = {"x": np.random.default_rng(1).normal(size=(2, 8)).astype(np.float32)}
    tensors = ("h", "top", "number", "flag", "c", "s", "y")
    results = RunResults()
    results.add([compute_tensors(choosing(), feed, *tensors)], runner_name="right")
    results.save(str(tmp_path / "golden.json"))
    kept = Kept()
    with bind(Findings, kept):
        golden = str(tmp_path / "golden.json")
        assert not diagnose(choosing("inverted"), [OnnxrtParty()], [feed], golden=golden)
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["choose"], "structure")
