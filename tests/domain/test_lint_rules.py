"""What is found by looking at a graph."""

from __future__ import annotations

import random
from time import process_time

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.checks.lint import (
    EXCEPTION,
    INFO,
    WARNING,
    Findings,
    LintEntry,
    LintReport,
    Source,
    graph_findings,
)
from polygraphy.domain.model import Attribute, Function, Graph, Model, Node, Tensor, Weight


def node(name: str, inputs: str, outputs: str, *inner: Graph) -> Node:
    attributes = tuple(Attribute("body", "graph", graph) for graph in inner)
    return Node(name, "Op", "", tuple(inputs.split()), tuple(outputs.split()), attributes)


def model(
    *nodes: Node, inputs: str = "x", outputs: str = "y", weights: tuple[Weight, ...] = ()
) -> Model:
    graph = Graph(
        inputs=tuple(map(Tensor, inputs.split())),
        outputs=tuple(map(Tensor, outputs.split())),
        weights=weights,
        node_count=len(nodes),
        nodes=nodes,
    )
    return Model("m", graph, {"": 17})


def found(made: Model) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(entry.level, entry.message, entry.nodes) for entry in graph_findings(made)]


def test_a_sound_model_has_no_findings() -> None:
    assert found(model(node("a", "x", "t"), node("b", "t", "y"))) == []


def test_training_mode_is_a_warning() -> None:
    learning = Attribute("training_mode", "int", 1)
    norm = Node("n", "BatchNormalization", "", ("x",), ("y",), (learning,))
    [(level, message, nodes)] = found(model(norm))
    assert (level, nodes) == ("warning", ("n",)) and "model.eval()" in message


def test_random_numbers_are_a_warning() -> None:
    weights = (Weight("t", "bool", (), values=np.array(True)),)
    dropout = Node("d", "Dropout", "", ("x", "", "t"), ("h",))
    noise = Node("n", "RandomNormalLike", "", ("h",), ("y",))
    messages = {
        nodes: message for _, message, nodes in found(model(dropout, noise, weights=weights))
    }
    assert "training mode" in messages[("d",)] and "random numbers" in messages[("n",)]
    plain = Node("d", "Dropout", "", ("x",), ("y",))
    assert found(model(plain)) == []


def test_duplicate_nodes_and_tensors() -> None:
    messages = found(model(node("a", "x", "y"), node("a", "x", "y")))
    assert messages[0] == (
        EXCEPTION,
        "Duplicate node name: 'a' for nodes with topological IDs: [0, 1] found.",
        ("a",),
    )
    assert messages[1] == (
        EXCEPTION, "Duplicate tensor name: 'y' is defined 2 times.", ("a",)
    )  # fmt: skip


def test_a_cycle_is_distinguished_from_what_waits_for_it() -> None:
    made = model(
        node("a", "x c", "b"), node("b", "b", "c"), node("after", "c", "y"), node("before", "x", "z"),
        outputs="y z",
    )  # fmt: skip
    entries = found(made)
    assert (EXCEPTION, "The nodes form a cycle.", ("a", "b")) in entries
    assert all("after" not in nodes and "before" not in nodes for _, _, nodes in entries)


def test_order_and_names_that_do_not_exist() -> None:
    entries = found(model(node("b", "t", "y"), node("a", "x", "t"), node("c", "nowhere", "z")))
    messages = [message for _, message, _ in entries]
    assert "Input: 't' is computed by a later node." in messages
    assert "Input: 'nowhere' is not defined anywhere." in messages
    assert found(model(outputs="gone"))[0][1] == "Output: 'gone' is not computed by any node."


def test_what_has_no_effect() -> None:
    spare = Weight("spare", "float32", (1,))
    made = model(
        node("used", "x", "y"), node("dead", "x", "t"), node("", "t", "u"),
        inputs="x unused", weights=(spare,),
    )  # fmt: skip
    assert found(made) == [
        (WARNING, "Input: 'unused' does not affect outputs, can be removed.", ()),
        (WARNING, "Initializer: 'spare' does not affect outputs, can be removed.", ()),
        (WARNING, "Does not affect outputs, can be removed.", ("dead",)),
        (WARNING, "Does not affect outputs, can be removed.", ("polygraphy_unnamed_node_2",)),
    ]


def test_what_an_inner_graph_reads_has_an_effect() -> None:
    inner = Graph(
        outputs=(Tensor("z"),), nodes=(node("i", "t w own", "z"),), inputs=(Tensor("own"),)
    )
    made = model(
        node("a", "x", "t"), node("if", "x", "y", inner), weights=(Weight("w", "float32", (1,)),)
    )
    assert found(made) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([1, 2**40]), "has int64 values from 1 to 1099511627776, which do not fit"),
        (np.array([-(2**31) - 1]), "do not fit in int32"),
        (np.array([0, 2**63 - 1]), None),
        (np.array([7]), None),
        (np.array([1e5], np.float32), "contains 100000, which does not fit in float16"),
        (np.array([-7e4, 1.0]), "contains 70000, which does not fit in float16"),
        (np.array([65504.0], np.float32), None),
        (np.array([[1.0, np.nan], [np.inf, 2.0]], np.float32), "has 2 NaN or infinite values"),
        (np.array([1.0, np.inf], np.float16), "the first at (1,)"),
        (np.array([np.inf, np.nan], np.float32), "has 2 NaN or infinite values"),
        (np.zeros((0, 3), np.float32), None),
    ],
)
def test_values_that_other_types_do_not_hold(values: np.ndarray, message: str | None) -> None:
    weight = Weight("w", str(values.dtype), values.shape, values=values)
    messages = [text for _, text, _ in found(model(node("a", "x w", "y"), weights=(weight,)))]
    assert len(messages) == (message is not None)
    assert message is None or message in messages[0]


CONSTANTS = {
    "tensor": ("tensor", Weight("", "int64", (1,), values=np.array([2**40])), "has int64 values"),
    "int": ("int", 2**40, "has int64 values from 1099511627776"),
    "ints": ("ints", (1, -(2**40)), "has int64 values from -1099511627776 to 1,"),
    "float": ("float", -3.4e38, "does not fit in float16"),
    "floats": ("floats", (1.0, float("nan")), "NaN or infinite"),
    "small": ("ints", (1, 2), None),
    "text": ("string", "1e9", None),
}


@pytest.mark.parametrize(("kind", "value", "message"), CONSTANTS.values(), ids=CONSTANTS)
@pytest.mark.parametrize("place", ["graph", "inner", "function"])
def test_values_of_constants(kind: str, value: object, message: str | None, place: str) -> None:
    constant = Node("", "Constant", outputs=("c",), attributes=(Attribute("value", kind, value),))
    user = node("a", "x c", "y")
    if place == "graph":
        made = model(constant, user)
    elif place == "inner":
        made = model(node("if", "x", "y", Graph(nodes=(constant, user), outputs=(Tensor("y"),))))
    else:
        function = Function("F", "", ("x",), ("y",), 2, (constant, user))
        made = evolve(model(node("a", "x", "y")), functions=(function,))
    messages = [text for _, text, _ in found(made)]
    assert len(messages) == (message is not None), messages
    assert message is None or (messages[0].startswith("Constant: 'c' ") and message in messages[0])


@pytest.mark.slow
def test_a_long_chain_behind_a_cycle_is_looked_at_in_no_time() -> None:
    chain = [node(f"n{i}", f"t{i}", f"t{i + 1}") for i in range(20_000)]
    made = model(node("a", "x c", "b"), node("b", "b", "c t0"), *chain, outputs="t20000")
    start = process_time()
    assert (EXCEPTION, "The nodes form a cycle.", ("a", "b")) in found(made)
    assert process_time() - start < 10


def test_operator_sets_that_are_not_used() -> None:
    made = model(node("a", "x", "y"))
    more = Model("m", made.graph, {"": 17, "spare": 1})
    assert [text for _, text, _ in found(more)] == [
        "Operator set 'spare' is imported, but no node uses it."
    ]


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_any_graph_is_looked_at_without_an_error(seed: int, count: int) -> None:
    chosen = random.Random(seed)
    names = [f"t{index}" for index in range(count)]
    nodes = [
        node(
            chosen.choice(["", "a", "b"]),
            " ".join(chosen.choices(names, k=chosen.randint(0, 3))),
            " ".join(chosen.choices(names, k=chosen.randint(0, 2))),
        )
        for _ in range(count)
    ]
    for entry in graph_findings(model(*nodes, inputs="t0 x", outputs="t1")):
        assert entry.message


def entry(level: str, source: str, *nodes: str) -> LintEntry:
    return LintEntry(level, source, f"{level} by {source}", nodes)


def test_the_requirement_of_an_operator_is_shown_and_not_what_a_backend_says() -> None:
    rule = evolve(entry(EXCEPTION, Source.SHAPES, "b"), is_requirement=True)
    findings = Findings(("b",), (entry(EXCEPTION, Source.RUNTIME, "b"), rule))
    report = LintReport.of(findings)
    assert [one.source for one in report.entries] == [Source.SHAPES]
    assert report.document()["lint_entries"] == [
        {"level": EXCEPTION, "source": "onnxruntime", "message": "exception by onnxruntime",
         "requirement": rule.message, "nodes": ["b"]},
    ]  # fmt: skip


def test_one_finding_per_node_is_kept_and_the_most_serious_come_first() -> None:
    findings = Findings(
        ("a", "b", "c", "d"),
        (
            entry(EXCEPTION, Source.CHECKER, "b"),
            entry(EXCEPTION, Source.RUNTIME, "b"),
            entry(WARNING, Source.RUNTIME, "a"),
            entry(EXCEPTION, Source.SHAPES, "a"),
            entry(EXCEPTION, Source.CHECKER, "c"),
        ),
        ran=frozenset({"c"}),
        skipped=("d",),
    )
    report = LintReport.of(findings, [entry(WARNING, Source.GRAPH, "b")])
    assert [(one.level, one.source, one.nodes) for one in report.entries] == [
        (EXCEPTION, Source.SHAPES, ("a",)),
        (EXCEPTION, Source.RUNTIME, ("b",)),
        (WARNING, Source.GRAPH, ("b",)),
        (WARNING, Source.CHECKER, ("c",)),
        (INFO, Source.RUNTIME, ("d",)),
    ]
    assert (report.passing, report.failing, report.passed) == (("c",), ("a", "b"), False)
    assert report.document()["summary"] == {"passing": ["c"], "failing": ["a", "b"]}


def test_a_scale_that_is_no_positive_number_is_a_warning() -> None:
    scales = [("s0", 0.0), ("s1", [0.5, -1.0, np.nan]), ("w0", [[-0.5], [0.0]]), ("w1", [0.0, 0.0])]
    weights = [
        Weight(name, "float32", np.shape(values), values=np.float32(values))
        for name, values in scales
    ]
    codes = Weight("c", "int8", (2, 3), values=np.int8([[1, 1, 1], [0, 0, 0]]))
    axis = Attribute("axis", "int", 0)
    nodes = (
        Node("read", "DequantizeLinear", "", ("q", "s0"), ("d",)),
        Node("write", "QuantizeLinear", "", ("x", "s0"), ("q",)),
        Node("add", "QLinearAdd", "com.microsoft", ("q", "k", "", "q", "k", "", "s1"), ("a",)),
        Node("block", "DequantizeLinear", "", ("c", "w0"), ("b",), (axis,)),
        Node("weight", "DequantizeLinear", "", ("c", "w1"), ("e",), (axis,)),
    )
    made = model(*nodes, outputs="d a b e", weights=(*weights, codes))
    problems = [(e.nodes, e.message) for e in graph_findings(made) if e.rule == "weights/scale"]
    number = "which is not a positive number"
    assert problems == [
        (("write", "read"), f"Its scale 's0' is 0, {number}."),
        (("add",), f"Its scale 's1' is -1 in channel 1, {number} (2 of 3 elements)."),
        (("weight",), f"Its scale 'w1' is 0 in channel 0, {number} (1 of 2 elements)."),
    ]
