"""Models that differ from a reference which a backend optimized: its nodes are others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.changes.divergence import find_divergences
from polygraphy.binding import bind, resolve
from polygraphy.diagnose import diagnose
from polygraphy.domain.errors import InconclusiveError
from polygraphy.domain.search import run_budget
from polygraphy.ports.diagnosing import DiagnosisReports
from polygraphy.ports.editing import open_model
from polygraphy.ports.reporting import Findings
from tests.support.diagnosis.choosing_models import WIDTH, choosing
from tests.support.diagnosis.diagnosis_cases import Kept
from tests.support.diagnosis.optimized_models import optimize_model
from tests.support.models import make, value
from tests.support.parties import CountingParty


def attention(**changed: object) -> onnx.ModelProto:
    """Queries and keys, what they have in common, and an activation that is written out."""
    random = np.random.RandomState(0)
    weights: dict[str, np.ndarray] = {
        name: (random.randn(WIDTH, WIDTH) / 2).astype(np.float32) for name in ("wq", "wk", "wo")
    }
    weights["root"] = np.float32(changed.get("root", 1.4142135))
    weights["one"] = np.float32(changed.get("one", 1.0))
    weights["half"] = np.float32(0.5)
    weights["scale"] = np.float32(0.4)
    perm = changed.get("perm", [0, 2, 1])
    nodes = [
        helper.make_node("MatMul", ["x", "wq"], ["q"], "query"),
        helper.make_node("MatMul", ["x", "wk"], ["k"], "key"),
        helper.make_node("Transpose", ["k"], ["turned"], "turn", perm=perm),
        helper.make_node("MatMul", ["q", "turned"], ["product"], "multiply"),
        helper.make_node("Mul", ["product", "scale"], ["scores"], "scale"),
        helper.make_node("Softmax", ["scores"], ["shares"], "share", axis=-1),
        helper.make_node("MatMul", ["shares", "wo"], ["mixed"], "mix"),
        helper.make_node("Div", ["mixed", "root"], ["part"], "divide"),
        helper.make_node("Erf", ["part"], ["error"], "erf"),
        helper.make_node("Add", ["error", "one"], ["raised"], "raise"),
        helper.make_node("Mul", ["mixed", "raised"], ["doubled"], "weigh"),
        helper.make_node("Mul", ["doubled", "half"], ["active"], "halve"),
        helper.make_node("MatMul", ["active", "wo"], ["y"], "last"),
    ]
    shape = [2, WIDTH, WIDTH]
    return make("attention", nodes, [value("x", shape)], [value("y", shape)], weights=weights)


def found(model: onnx.ModelProto, folder: Path, party: OnnxrtParty | None = None) -> Kept:
    kept = Kept()
    random = np.random.RandomState(1)
    feed = {"x": random.randn(2, WIDTH, WIDTH).astype(np.float32)}
    reference = optimize_model(attention(), folder)
    assert {node.op_type for node in reference.graph.node} & {"FusedMatMul", "Gelu"}
    with bind(Findings, kept):
        diagnose(model, [party or OnnxrtParty()], [feed], reference)
    return kept


def test_what_was_only_optimized_agrees(tmp_path: Path) -> None:
    kept = found(attention(), tmp_path)
    assert (kept.verdict, kept.culprits) == ("agree", [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "node", "causes"),
    [
        ({"perm": [0, 1, 2]}, "turn", {"attribute"}),
        ({"one": 0.3}, "raise", {"weight"}),
        ({"one": -1.0}, "raise", {"weight"}),
        ({"root": 0.7}, "divide", {"weight"}),
    ],
)
def test_one_node_inside_what_was_fused_is_named(
    changed: dict[str, object], node: str, causes: set[str], tmp_path: Path
) -> None:
    [culprit] = found(attention(**changed), tmp_path).culprits
    assert culprit["nodes"] == [node]
    assert culprit["cause"] in causes
    assert culprit["remedy"]["proven"]


@pytest.mark.slow
def test_kinds_of_changes_that_the_limit_left_out_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_budget, "_PART_RUNS", (3, 3))
    with suppress(InconclusiveError):
        found(attention(one=0.3), tmp_path)
    told = " ".join(capsys.readouterr().out.split())
    assert "The limit of runs was reached. Not tried: " in told
    assert re.search(r"Not tried: [^.]+ \(\d+ nodes?\)", told)


@pytest.mark.slow
@pytest.mark.usefixtures("forks")
def test_a_number_is_searched_in_a_model_that_is_loaded_once(tmp_path: Path) -> None:
    party = CountingParty()
    assert found(attention(root=0.7), tmp_path, party).culprits[0]["nodes"] == ["divide"]
    assert party.loads < 60


def test_an_attribute_is_named_and_not_the_node_behind_it_that_reads_as_many_numbers(
    tmp_path: Path,
) -> None:
    """Of one sequence, batch and steps may be taken for one another without a number moved."""
    kept = Kept()
    with bind(Findings, kept):
        diagnose(
            steps([0, 1, 2]), [OnnxrtParty()], reference=optimize_model(steps([1, 0, 2]), tmp_path)
        )
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["steps first"], "attribute")


def steps(perm: list[int]) -> onnx.ModelProto:
    """Activations that are written out, and a network that goes step by step behind them."""
    random = np.random.RandomState(3)
    held = {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    nodes = []
    read = "x"
    for level in "abcd":
        held[f"w{level}"] = (random.randn(WIDTH, WIDTH) / 2).astype(np.float32)
        for op, others, made in (
            ("MatMul", (read, "w"), "m"), ("Div", ("m", "root"), "d"), ("Erf", ("d",), "e"),
            ("Add", ("e", "one"), "r"), ("Mul", ("m", "r"), "t"), ("Mul", ("t", "half"), "y"),
        ):  # fmt: skip
            names = [one if one in (*held, read) else one + level for one in others]
            nodes.append(helper.make_node(op, names, [made + level], made + level))
        read = f"y{level}"
    for name, size in {"gates": WIDTH, "recurrent": 4}.items():
        held[name] = random.randn(1, 12, size).astype(np.float32)
    held["all"] = np.array([-1], np.int64)
    nodes += [
        helper.make_node("Transpose", [read], ["turned"], "steps first", perm=perm),
        helper.make_node("GRU", ["turned", "gates", "recurrent"], ["made"], "gru", hidden_size=4),
        helper.make_node("Reshape", ["made", "all"], ["y"], "flat"),
    ]
    shape = [1, WIDTH, WIDTH]
    return make("steps", nodes, [value("x", shape)], [value("y", [4 * WIDTH])], weights=held)


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "node"), [("inside", "then_op"), ("inverted", "choose")])
def test_an_if_is_named_and_not_what_makes_its_condition(
    fault: str, node: str, tmp_path: Path
) -> None:
    kept = Kept()
    reference = optimize_model(choosing(), tmp_path)
    with bind(Findings, kept):
        assert not diagnose(choosing(fault), [OnnxrtParty()], reference=reference)
    [culprit] = kept.culprits
    assert culprit["nodes"] == [node]
    assert culprit["party"] == "model"


@pytest.mark.slow
def test_which_branch_was_never_run_is_said_where_nobody_is_blamed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with bind(Findings, Kept()):
        assert diagnose(choosing(), [OnnxrtParty()], reference=choosing())
    said = "".join(capfd.readouterr())
    assert "The else branch of If 'choose' does not run on this data." in said


@pytest.mark.slow
def test_a_node_that_makes_one_of_two_tensors_right_is_named_for_the_other(tmp_path: Path) -> None:
    kept = Kept()
    reference = optimize_model(scanning("Mul"), tmp_path)
    with bind(Findings, kept):
        assert not diagnose(scanning("Add"), [OnnxrtParty()], reference=reference)
    assert [culprit["nodes"] for culprit in kept.culprits] == [["scan"]]


def scanning(op: str) -> onnx.ModelProto:
    """A scan that hands on a state and shows what an operator makes of it; the two are added."""
    random = np.random.RandomState(2)
    weights = {name: random.randn(WIDTH, WIDTH).astype(np.float32) for name in ("w", "v")}
    weights |= {
        "start": np.zeros(WIDTH, np.float32),
        "factor": random.uniform(0.5, 1.5, WIDTH).astype(np.float32),
        "bias": random.randn(WIDTH).astype(np.float32),
    }
    row = [value("held", [WIDTH]), value("now", [WIDTH])]
    body = helper.make_graph(
        [
            helper.make_node("Add", ["held", "now"], ["sum"], "sum"),
            helper.make_node("Tanh", ["sum"], ["after"], "squash"),
            helper.make_node(op, ["after", "factor"], ["shown"], "show"),
        ],
        "body",
        row,
        [value("after", [WIDTH]), value("shown", [WIDTH])],
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "first"),
        helper.make_node(
            "Scan", ["start", "h"], ["last", "all"], "scan", num_scan_inputs=1, body=body
        ),
        helper.make_node("Add", ["all", "last"], ["both"], "add"),
        helper.make_node("MatMul", ["both", "v"], ["m"], "second"),
        helper.make_node("Add", ["m", "bias"], ["y"], "end"),
    ]
    return make(
        "scanning", nodes, [value("x", [2, WIDTH])], [value("y", [2, WIDTH])], weights=weights
    )


@pytest.mark.slow
@pytest.mark.parametrize("first", [[[1, 0, 2], [0, 2, 1]], [[2, 1, 0], [1, 0, 2]]])
def test_of_two_transposes_in_a_row_the_one_that_is_unlike_other_layers_is_named(
    first: list[list[int]],
) -> None:
    """A change of either is right; where no other layer has one of them, that is said."""
    kept, reason = Kept(), ""
    reference = turning([[[1, 2, 0]], [[1, 2, 0]]])
    model = turning([first, [[1, 0, 2], [2, 0, 1]]])
    with bind(Findings, kept):
        try:
            diagnose(model, [OnnxrtParty()], reference=reference)
        except InconclusiveError as error:
            reason = str(error)
    [culprit] = kept.culprits
    if first[0] == [1, 0, 2]:
        assert (culprit["nodes"], culprit["cause"]) == (["turn 1.1"], "attribute")
    else:
        assert {*culprit["nodes"]} == {"turn 1.0", "turn 1.1"}
        assert "a change of any of them explains it" in reason


def turning(layers: Sequence[Sequence[Sequence[int]]]) -> onnx.ModelProto:
    """Layers of a product, an activation, and the transposes of each."""
    random, read, nodes = np.random.RandomState(4), "x", []
    weights = {}
    for layer, perms in enumerate(layers):
        weights[f"w{layer}"] = random.randn(WIDTH, WIDTH).astype(np.float32)
        nodes.append(helper.make_node("MatMul", [read, f"w{layer}"], [f"m{layer}"], f"m{layer}"))
        read = f"m{layer}"
        for number, perm in enumerate(perms):
            made = f"{'t' if number else 'u'}{layer}{len(perms)}"
            name = f"turn {layer}.{number}"
            nodes.append(helper.make_node("Transpose", [read], [made], name, perm=perm))
            read = made
        nodes.append(helper.make_node("Tanh", [read], [f"y{layer}"], f"tanh{layer}"))
        read = f"y{layer}"
    shape = [WIDTH, WIDTH, WIDTH]
    return make("turning", nodes, [value("x", shape)], [value(read, shape)], weights=weights)


def normalized(is_alike: bool, factor: float = 1.0) -> onnx.ModelProto:
    """Three convolutions, each with a normalization, the second with another offset."""
    weights, nodes = {}, []
    for i in range(3):
        random = np.random.RandomState(0 if is_alike else i)
        held = {"w": random.randn(16, 16, 1, 1) / 4, "b": random.uniform(0.5, 1.5, 16)}
        held |= {name: random.uniform(0.5, 1.5, 16) for name in "smv"}
        held["b"] = held["b"] * (factor if i == 1 else 1.0)
        weights |= {f"{name}{i}": each.astype(np.float32) for name, each in held.items()}
        read = [f"{name}{i}" for name in "csbmv"]
        nodes += [
            helper.make_node("Conv", [f"r{i - 1}" if i else "x", f"w{i}"], [f"c{i}"], f"conv{i}"),
            helper.make_node("BatchNormalization", read, [f"n{i}"], f"norm{i}"),
            helper.make_node("Relu", [f"n{i}"], [f"r{i}"], f"relu{i}"),
        ]
    shape = [1, 16, 6, 6]
    return make("normalized", nodes, [value("x", shape)], [value("r2", shape)], weights=weights)


@pytest.mark.slow
@pytest.mark.parametrize("is_alike", [False, True])
def test_a_weight_in_blocks_blames_one_node_or_says_that_it_is_one_of_several(
    tmp_path: Path, is_alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_budget, "_PART_RUNS", (60, 60))  # What it finds takes fewer.
    reference = optimize_model(normalized(is_alike), tmp_path, "ORT_ENABLE_ALL")
    if not any(node.domain == "com.microsoft.nchwc" for node in reference.graph.node):
        pytest.skip("this processor has no kernels that compute in blocks")
    kept = Kept()
    feed = {"x": np.random.RandomState(1).randn(1, 16, 6, 6).astype(np.float32)}
    model = normalized(is_alike, 3.0)
    with bind(Findings, kept):
        if is_alike:
            with pytest.raises(InconclusiveError, match="one or more of 3 nodes"):
                diagnose(model, [OnnxrtParty()], [feed], reference)
        else:
            diagnose(model, [OnnxrtParty()], [feed], reference)
    names = {name for culprit in kept.culprits for name in culprit["nodes"]}
    assert names == ({"norm0", "norm1", "norm2"} if is_alike else {"norm1"})


@pytest.mark.slow
def test_a_node_lost_inside_what_was_fused_blames_no_innocent_node(tmp_path: Path) -> None:
    """The reference's Gelu explains the outputs, but stands for all nodes that it replaces."""
    model = attention()
    (lost,) = (node for node in model.graph.node if node.name == "erf")
    (reader,) = (node for node in model.graph.node if node.name == "raise")
    reader.input[0] = lost.input[0]
    model.graph.node.remove(lost)
    kept = Kept()
    feed = {"x": np.random.RandomState(1).randn(2, WIDTH, WIDTH).astype(np.float32)}
    reference = optimize_model(attention(), tmp_path)
    with bind(Findings, kept), pytest.raises(InconclusiveError):
        diagnose(model, [OnnxrtParty()], [feed], reference)
    names = {name for culprit in kept.culprits for name in culprit["nodes"]}
    assert {"divide", "raise"} <= names <= {"divide", "raise", "weigh", "halve"}


def split_attention() -> onnx.ModelProto:
    """Return attention whose queries, keys and values are parts of one product."""
    random = np.random.RandomState(0)
    weights = {"w": (random.randn(WIDTH, 3 * WIDTH) / 2).astype(np.float32)}
    weights["scale"] = np.float32(0.4)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["all"], "project"),
        helper.make_node("Split", ["all"], ["q", "k", "v"], "split", axis=-1),
        helper.make_node("Transpose", ["k"], ["turned"], "turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "turned"], ["product"], "multiply"),
        helper.make_node("Mul", ["product", "scale"], ["scores"], "scale"),
        helper.make_node("Softmax", ["scores"], ["shares"], "share", axis=-1),
        helper.make_node("MatMul", ["shares", "v"], ["y"], "mix"),
    ]
    shape = [2, WIDTH, WIDTH]
    return make("parts", nodes, [value("x", shape)], [value("y", shape)], weights=weights)


@pytest.mark.slow
def test_exchanged_outputs_before_what_was_fused_are_named(tmp_path: Path) -> None:
    """The tensors are equal, but two nodes behind them each read the other's."""
    kept = Kept()
    model = split_attention()
    for node in model.graph.node[2:]:
        exchanged = {"q": "v", "v": "q"}
        node.input[:] = [exchanged.get(name, name) for name in node.input]
    feed = {"x": np.random.RandomState(1).randn(2, WIDTH, WIDTH).astype(np.float32)}
    reference = optimize_model(split_attention(), tmp_path)
    with bind(Findings, kept):
        diagnose(model, [OnnxrtParty()], [feed], reference)
    assert [culprit["nodes"] for culprit in kept.culprits] == [["split"]]


def test_nodes_that_read_the_tensor_of_the_other_are_named_if_the_reference_lacks_one() -> None:
    """The reference computes one of two exchanged tensors with transposed matrices only."""
    random = np.random.RandomState(0)
    weights = {name: random.randn(6, 6).astype(np.float32) / 2 for name in ("p", "q")}

    def two_products(first: str, second: str, *, is_turned: bool = False) -> onnx.ModelProto:
        """Return a model whose nodes `first` and `second` read these products."""
        nodes = [helper.make_node("MatMul", ["x", "p"], ["p_product"], "p")]
        held = {**weights, "q": weights["q"].T.copy()} if is_turned else weights
        if is_turned:
            nodes += [
                helper.make_node("Transpose", ["x"], ["x_turned"], "turn", perm=[1, 0]),
                helper.make_node("MatMul", ["q", "x_turned"], ["q_turned"], "q"),
                helper.make_node("Softmax", ["q_turned"], ["shares_turned"], "second", axis=0),
                helper.make_node("Transpose", ["shares_turned"], ["shares"], "back", perm=[1, 0]),
            ]
        else:
            nodes += [
                helper.make_node("MatMul", ["x", "q"], ["q_product"], "q"),
                helper.make_node("Softmax", [second], ["shares"], "second", axis=1),
            ]
        nodes += [
            helper.make_node("Tanh", [first], ["curve"], "first"),
            helper.make_node("Sub", ["curve", "shares"], ["y"], "subtract"),
        ]
        return make("two", nodes, [value("x", [5, 6])], [value("y", [5, 6])], weights=held)

    kept = Kept()
    feed = {"x": random.randn(5, 6).astype(np.float32)}
    reference = two_products("p_product", "", is_turned=True)
    with bind(Findings, kept):
        diagnose(two_products("q_product", "p_product"), [OnnxrtParty()], [feed], reference)
    assert sorted(culprit["nodes"] for culprit in kept.culprits) == [["first"], ["second"]]


def test_exchanged_inputs_of_a_node_and_its_reader_are_named_beside_an_optimized_reference(
    tmp_path: Path,
) -> None:
    """No change of a single node explains the result of the second one."""
    random = np.random.RandomState(0)

    def exchanging(first: str, second: str) -> onnx.ModelProto:
        """Return a model with products that are fused, behind which two nodes read these."""
        weights, nodes, name = {}, [], "x"
        for number in range(6):
            weights[f"w{number}"] = np.random.RandomState(number).randn(6, 6).astype(np.float32) / 2
            weights[f"b{number}"] = np.random.RandomState(number).randn(6).astype(np.float32)
            made = [f"{kind}{number}" for kind in ("product", "sum", "curve")]
            nodes += [
                helper.make_node("MatMul", [name, f"w{number}"], made[:1], f"multiply{number}"),
                helper.make_node("Add", [made[0], f"b{number}"], made[1:2], f"add{number}"),
                helper.make_node("Tanh", made[1:2], made[2:], f"activate{number}"),
            ]
            name = made[2]
        nodes += [
            helper.make_node("Exp", [name], ["p"], "exp"),
            helper.make_node("Sigmoid", [name], ["q"], "sigmoid"),
            helper.make_node("Sub", ["p", first], ["s"], "subtract"),
            helper.make_node("Concat", ["s", second], ["y"], "join", axis=1),
        ]
        return make("two", nodes, [value("x", [5, 6])], [value("y", [5, 12])], weights=weights)

    kept, feed = Kept(), {"x": random.randn(5, 6).astype(np.float32)}
    reference = optimize_model(exchanging("q", "curve0"), tmp_path)
    with bind(Findings, kept):
        diagnose(exchanging("curve0", "q"), [OnnxrtParty()], [feed], reference)
    assert sorted(culprit["nodes"] for culprit in kept.culprits) == [["join"], ["subtract"]]


def layers(*, is_turned: bool = False, extra: bool = False) -> onnx.ModelProto:
    """Return two products with an activation between them, also as products of transposed
    matrices; `extra`: a Gather swaps two columns behind the first.
    """
    random = np.random.RandomState(0)
    weights = {name: random.randn(6, 6).astype(np.float32) / 2 for name in ("v", "w")}
    weights["order"] = np.array([0, 3, 2, 1, 4, 5])
    nodes, name = [], "x"
    for weight in ("v", "w"):
        if is_turned:
            weights[weight] = np.ascontiguousarray(weights[weight].T)
            reads = [f"{weight}_turned", f"{weight}_right", f"{weight}_product"]
            nodes += [
                helper.make_node("Transpose", [name], reads[:1], f"{weight}_before", perm=[1, 0]),
                helper.make_node("MatMul", [weight, reads[0]], reads[1:2], f"{weight}_multiply"),
                helper.make_node(
                    "Transpose", reads[1:2], reads[2:], f"{weight}_after", perm=[1, 0]
                ),
            ]
        else:
            nodes.append(helper.make_node("MatMul", [name, weight], [f"{weight}_product"], weight))
        name = f"{weight}_product"
        if extra and weight == "v":
            nodes.append(helper.make_node("Gather", [name, "order"], ["moved"], "move", axis=1))
            name = "moved"
        nodes.append(helper.make_node("Tanh", [name], [f"{weight}_curve"], f"{weight}_activation"))
        name = f"{weight}_curve"
    nodes[-1].output[:] = ["y"]
    used = {each for node in nodes for each in node.input}
    held = {each: array for each, array in weights.items() if each in used}
    return make("layers", nodes, [value("x", [5, 6])], [value("y", [5, 6])], weights=held)


def test_a_node_too_many_is_named_and_not_the_one_that_reads_it() -> None:
    kept = Kept()
    feed = {"x": np.random.RandomState(1).randn(5, 6).astype(np.float32)}
    with bind(Findings, kept):
        diagnose(layers(extra=True), [OnnxrtParty()], [feed], reference=layers(is_turned=True))
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["op"]) == (["move"], "Gather")
    assert culprit["remedy"]["proven"]


def small(kind: str, *, is_reference: bool) -> onnx.ModelProto:
    """Return a small model with a fault, or the healthy one with other nodes.

    Args:
        kind: what is wrong: a node too many that two others read, a product with a weight that is
            lost in a normalization, or two weights that changed places.
        is_reference: whether to write the healthy model, as other nodes.
    """
    random = np.random.RandomState(0)
    names = ("v", "w", "gain", "shift")
    weights = {name: random.randn(6, 6).astype(np.float32) / 2 for name in names}
    weights |= {"gain": weights["gain"][0] + 1, "shift": weights["shift"][0]}
    weights |= {"axes": np.array([6], np.int64), "all": np.array([2, 3, 6], np.int64)}
    weights |= {"tiny": np.float32(1e-5), "two": np.float32(2)}
    weights |= {f"at{at}": np.array(at, np.int64) for at in range(3)}
    node = helper.make_node
    nodes = []

    def multiply(read: str, weight: str, made: str) -> None:
        """Add a matrix product, in the reference one of transposed matrices."""
        if not is_reference:
            nodes.append(node("MatMul", [read, weight], [made], made))
            return
        weights[weight] = np.ascontiguousarray(weights[weight].T)
        turned, inner = f"{made}_turned", f"{made}_inner"
        nodes.append(node("Transpose", [read], [turned], turned, perm=[1, 0]))
        nodes.append(node("MatMul", [weight, turned], [inner], inner))
        nodes.append(node("Transpose", [inner], [made], made, perm=[1, 0]))

    if kind == "extra":
        multiply("x", "v", "first")
        read = "first" if is_reference else "more"
        nodes += [] if is_reference else [node("Relu", ["first"], ["more"], "more")]
        multiply(read, "w", "second")
        nodes.append(node("Tanh", ["second"], ["curve"], "curve"))
        nodes.append(node("Add", [read, "curve"], ["y"], "last"))
    elif kind == "lost":
        multiply("x", "v", "first")
        if is_reference:
            nodes.append(node("LayerNormalization", ["first", "gain", "shift"], ["even"], "even"))
        else:
            nodes += [
                node("ReduceMean", ["first"], ["mean"], "mean", axes=[-1]),
                node("Sub", ["first", "mean"], ["apart"], "apart"),
                node("Pow", ["apart", "two"], ["square"], "square"),
                node("ReduceMean", ["square"], ["spread"], "spread", axes=[-1]),
                node("Add", ["spread", "tiny"], ["more"], "more"),
                node("Sqrt", ["more"], ["root"], "root"),
                node("Div", ["apart", "root"], ["unit"], "unit"),
                node("Add", ["unit", "shift"], ["even"], "even"),
            ]
        nodes.append(node("Tanh", ["even"], ["y"], "last"))
    else:
        pair = ("v", "w") if is_reference else ("w", "v")
        for weight, side in zip(pair, ("left", "right")):
            multiply("x", weight, side)
            shape = "all"
            if not is_reference:
                shape = f"{side}_shape"
                nodes += [
                    node("Shape", ["x"], [f"{side}_size"], f"{side}_size"),
                    node("Gather", [f"{side}_size", "at1"], [f"{side}_one"], f"{side}_one"),
                    node("Cast", [f"{side}_one"], [f"{side}_cast"], f"{side}_cast", to=7),
                    node("Unsqueeze", [f"{side}_cast", "at0s"], [f"{side}_row"], f"{side}_row"),
                    node("Concat", ["head", f"{side}_row"], [shape], shape, axis=0),
                ]
            nodes.append(node("Reshape", [side, shape], [f"{side}_heads"], f"{side}_heads"))
        weights |= {"at0s": np.array([0], np.int64), "head": np.array([2, 3], np.int64)}
        nodes.append(node("Tanh", ["left_heads"], ["curve"], "curve"))
        nodes.append(node("Sub", ["curve", "right_heads"], ["y"], "last"))
    used = {each for one in nodes for each in one.input}
    held = {name: array for name, array in weights.items() if name in used}
    made = [2, 3, 6] if kind == "exchanged" else [6, 6]
    return make(kind, nodes, [value("x", [6, 6])], [value("y", made)], weights=held, opset=17)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "nodes"),
    [
        ("extra", {"more"}),
        ("lost", {"unit"}),
        ("exchanged", {"left", "right"}),
    ],
)
def test_a_change_is_named_if_the_reference_has_other_nodes(kind: str, nodes: set[str]) -> None:
    kept = Kept()
    feed = {"x": np.random.RandomState(1).randn(6, 6).astype(np.float32)}
    with bind(Findings, kept):
        reference = small(kind, is_reference=True)
        diagnose(small(kind, is_reference=False), [OnnxrtParty()], [feed], reference)
    assert kept.verdict == "fault"
    assert {name for culprit in kept.culprits for name in culprit["nodes"]} == nodes


def project(*, is_reference: bool, is_bent: bool = False) -> onnx.ModelProto:
    """Return a model that lacks a product; the reference computes it as Gemm of flat tensors.

    Args:
        is_reference: whether to return the reference.
        is_bent: whether the model also lacks an activation behind the product.
    """
    random, node = np.random.RandomState(0), helper.make_node
    weights = {name: (random.randn(6, 6) / 2).astype(np.float32) for name in "vw"}
    weights |= {"b": random.randn(6).astype(np.float32), "flat": np.array([6, 6])}
    weights |= {"deep": np.array([2, 3, 6])}
    nodes = [node("Transpose", ["x"], ["turned"], "turn", perm=[1, 0, 2])]
    if is_reference:
        product = "product" if is_bent else "sum"
        nodes += [
            node("Reshape", ["turned", "flat"], ["rows"], "rows"),
            node("Gemm", ["rows", "w", "b"], ["flat_product"], "multiply"),
            node("Reshape", ["flat_product", "deep"], [product], "back"),
        ]
        nodes += [node("Elu", [product], ["sum"], "bend", alpha=0.4)] if is_bent else []
    else:
        nodes.append(node("Reshape", ["turned", "deep"], ["heads"], "heads"))
        nodes.append(node("Add", ["b", "heads"], ["sum"], "add"))
    nodes.append(node("Relu", ["sum"], ["active"], "active"))
    if is_reference:
        nodes += [
            node("Reshape", ["active", "flat"], ["last_rows"], "last_rows"),
            node("Gemm", ["last_rows", "v", "b"], ["last_product"], "last_product"),
            node("Reshape", ["last_product", "deep"], ["y"], "last"),
        ]
    else:
        nodes.append(node("MatMul", ["active", "v"], ["last_product"], "last_product"))
        nodes.append(node("Add", ["b", "last_product"], ["y"], "last"))
    used = {each for one in nodes for each in one.input}
    held = {name: array for name, array in weights.items() if name in used}
    shaped = [value("x", [3, 2, 6])], [value("y", [2, 3, 6])]
    return make("project", nodes, *shaped, weights=held, opset=17)


@pytest.mark.parametrize("is_bent", [False, True])
def test_a_lost_product_that_the_reference_fuses_is_named_or_its_borders_are(is_bent: bool) -> None:
    kept = Kept()
    feed = {"x": np.random.RandomState(1).randn(3, 2, 6).astype(np.float32)}
    models = [project(is_reference=at, is_bent=is_bent) for at in (False, True)]
    with bind(Findings, kept):
        if is_bent:  # What must be taken over together is more than the fault.
            with pytest.raises(InconclusiveError, match="no change of a single node"):
                diagnose(models[0], [OnnxrtParty()], [feed], models[1])
        else:
            diagnose(models[0], [OnnxrtParty()], [feed], models[1])
    [culprit] = kept.culprits
    assert culprit["nodes"] == (["turn", "heads", "add"] if is_bent else ["heads"])
    assert is_bent or "MatMul is missing next to Reshape." in culprit["evidence"]


def test_an_extra_node_before_the_first_nan_is_named_and_not_the_node_that_reads_it() -> None:
    kept, node = Kept(), helper.make_node
    feed = {"x": np.full(6, 2, np.float32)}
    ends = [value("x", [6])], [value("y", [6])]
    healthy = make("root", [node("Sqrt", ["x"], ["y"], "root")], *ends)
    nodes = [node("Neg", ["x"], ["less"], "extra"), node("Sqrt", ["less"], ["y"], "root")]
    with bind(Findings, kept):
        diagnose(make("root", nodes, *ends), [OnnxrtParty()], [feed], healthy)
    [culprit] = kept.culprits
    assert (culprit["nodes"], culprit["cause"]) == (["extra"], "structure")
    assert "Sqrt 'root' then computes NaN or infinity." in culprit["evidence"]


def test_a_model_that_copies_its_weights_is_searched_though_its_tensors_are_larger() -> None:
    """Layers share a weight through an Identity, as the older exporter of PyTorch writes them."""
    node, weight = helper.make_node, np.eye(64, dtype=np.float32) * 2
    ends = [value("x", [1, 64])], [value("y", [1, 64])]
    healthy = [node("Tanh", ["x"], ["t"], "first"), node("MatMul", ["t", "w"], ["y"], "last")]
    nodes = [
        node("Identity", ["w"], ["copy"], "share"),
        node("Tanh", ["x"], ["t"], "first"),
        node("Neg", ["t"], ["less"], "extra"),
        node("MatMul", ["less", "copy"], ["y"], "last"),
    ]
    party, feed = OnnxrtParty(), {"x": np.linspace(-2, 2, 64, dtype=np.float32)[np.newaxis]}
    models = [open_model(make("shared", n, *ends, weights={"w": weight})) for n in (nodes, healthy)]
    case = Case(models[0], "m.onnx", [party], resolve(DiagnosisReports))
    goal = party.load(models[1].proto)(feed)
    found = find_divergences(case, models[1], party, feed, feed, goal, {})
    assert found is not None
    assert [place.border.tensor for place in found.places] == ["y"]


def convolutions(*, is_bias_apart: bool, lost: int | None = None) -> onnx.ModelProto:
    """Return nine convolutions with activations; biases are inputs, or sums behind them."""
    random, node = np.random.RandomState(0), helper.make_node
    nodes, weights, read = [], {}, "x"
    for layer in range(9):
        names = [f"w{layer}", f"b{layer}"]
        weights[names[0]] = (random.randn(4, 4, 1, 1) / 2).astype(np.float32)
        bias = random.randn(4).astype(np.float32)
        weights[names[1]] = bias.reshape(4, 1, 1) if is_bias_apart else bias
        given = names[: 1 if is_bias_apart or layer == lost else 2]
        made = f"c{layer}"
        nodes.append(node("Conv", [read, *given], [f"p{layer}" if is_bias_apart else made], made))
        if is_bias_apart:
            nodes.append(node("Add", [names[1], f"p{layer}"], [made], f"sum{layer}"))
        nodes.append(node("LeakyRelu", [made], [f"a{layer}"], f"leaky{layer}"))
        read = f"a{layer}"
    nodes.append(node("Identity", [read], ["y"], "end"))
    used = {each for one in nodes for each in one.input}
    held = {name: array for name, array in weights.items() if name in used}
    shape = [1, 4, 3, 3]
    return make("convolutions", nodes, [value("x", shape)], [value("y", shape)], weights=held)


def test_a_lost_bias_is_named_by_its_convolution_and_not_by_the_node_behind() -> None:
    kept = Kept()
    feed = {"x": np.random.RandomState(1).randn(1, 4, 3, 3).astype(np.float32)}
    with bind(Findings, kept):
        model, reference = convolutions(is_bias_apart=False, lost=4), convolutions(
            is_bias_apart=True
        )
        diagnose(model, [OnnxrtParty()], [feed], reference)
    assert [culprit["nodes"] for culprit in kept.culprits] == [["c4"]]


def test_an_element_of_a_sequence_that_is_another_is_named_and_not_its_reader() -> None:
    """What is taken instead is also in the reference, where another node reads it."""
    text = """<ir_version: 9, opset_import: ["": 17]>
        g (float[2,8] x) => (float[2,8] y)
        <int64 two={{2}}, int64 i0={{0}}, int64 i1={{1}}, int64 i2={{2}}, int64 i3={{3}}> {{
            {}
            a2 = Tanh(a) b2 = Sigmoid(b) c2 = Neg(c) y = Concat<axis=1>(b2, a2, c2, d) }}"""
    elements = "a = SequenceAt(q, i0) b = SequenceAt(q, i3) c = SequenceAt(q, i2)"
    sequence = f"q = SplitToSequence<axis=1>(x, two) {elements} d = SequenceAt(q, i3)"
    forms = (sequence, "a, b, c, d = Split<axis=1>(x)")
    model, reference = (onnx.parser.parse_model(text.format(form)) for form in forms)
    kept, feed = Kept(), {"x": np.random.RandomState(1).randn(2, 8).astype(np.float32)}
    with bind(Findings, kept):
        diagnose(model, [OnnxrtParty()], [feed], reference)
    [culprit] = kept.culprits
    assert culprit["nodes"] == ["b"]
