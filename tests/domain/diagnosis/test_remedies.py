"""Command lines that undo what is wrong with a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from attrs import evolve

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.domain.diagnosis.commands import (
    convert_command,
    copy_command,
    insert_commands,
    output_path,
    report_command,
    run_command,
)
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.model.graph import (
    Attribute,
    Graph,
    Node,
    Tensor,
)
from tests.support.shell import HOSTILE, words_in_shell

EPSILON = Attribute("epsilon", "float", float(np.float32(1e-5)))
NORM = Node("my norm", "LayerNormalization", "", ("x", "x", ""), ("a",), (EPSILON,))
SUB = Node("", "Sub", "", ("a", "x"), ("y",))
GRAPH = Graph(
    name="g",
    inputs=(Tensor("x"),),
    outputs=(Tensor("y"),),
    nodes=(evolve(NORM, attributes=()), evolve(SUB, inputs=("x", "a"))),
)
FIRST = "polygraphy surgeon insert d/m.onnx --op LayerNormalization --name 'my norm'"
FIRST += " --inputs x x --outputs a --attrs epsilon=1e-05 -o m_fixed.onnx"


def test_nodes_of_a_reference_are_copied_once_each() -> None:
    assert copy_command("d/m.onnx", "r.onnx", ["b c", "a", "a"]) == (
        "polygraphy surgeon copy d/m.onnx --reference r.onnx --nodes 'b c' a -o m_fixed.onnx"
    )


def test_a_node_is_put_back_as_it_was() -> None:
    assert insert_commands("d/m.onnx", GRAPH, [Variant("epsilon", "", NORM)]) == FIRST


def test_the_next_command_goes_on_with_what_the_first_saved() -> None:
    made = insert_commands(
        "d/m.onnx", GRAPH, [Variant("epsilon", "", NORM), Variant("structure", "", SUB)]
    )
    assert made == (
        f"{FIRST} && polygraphy surgeon insert m_fixed.onnx --op Sub --inputs a x --outputs y"
        " -o m_fixed2.onnx"
    )


def test_what_a_command_line_cannot_say_is_not_said() -> None:
    for variant in (
        Variant("weight", "", NORM, {"w": np.ones(2)}),
        Variant("weight", "", GRAPH.nodes[0]),
        Variant("structure", "", evolve(SUB, inputs=("a", "elsewhere"))),
        Variant("structure", "", evolve(SUB, inputs=("", "x"))),
        Variant("structure", "", evolve(SUB, domain="com.microsoft")),
        Variant("structure", "", evolve(SUB, attributes=(Attribute("then", "graph", GRAPH),))),
    ):
        assert insert_commands("m.onnx", GRAPH, [variant]) == ""


def test_a_node_that_a_later_command_reads_is_not_removed_before() -> None:
    """`surgeon insert` removes what nothing reads any more."""
    nodes = [Node(op, op, "", ("x",), (op.lower(),)) for op in ("Neg", "Abs")]
    ends = [Node("m", "Mul", "", ("neg", "x"), ("n",)), Node("a", "Add", "", ("abs", "n"), ("y",))]
    graph = evolve(GRAPH, nodes=(*nodes, *ends))
    one, other = evolve(ends[0], inputs=("x", "x")), evolve(ends[1], inputs=("neg", "n"))
    first, second = (Variant("structure", "", node) for node in (one, other))
    lines = insert_commands("m.onnx", graph, [first, second]).split(" && ")
    assert ["--name a" in line for line in lines] == [True, False]
    crossed = [evolve(ends[0], inputs=("abs", "x")), evolve(ends[1], inputs=("neg", "n"))]
    changed = [Variant("structure", "", node) for node in crossed]
    assert insert_commands("m.onnx", graph, changed) == ""


@pytest.mark.parametrize("name", HOSTILE)
def test_a_shell_reads_the_names_in_printed_commands(name: str, tmp_path: Path) -> None:
    sub = evolve(SUB, outputs=(name,), inputs=("a", "x"))
    backends = [("onnxrt", "onnxrt", {"disabled_optimizers": (name,)}), ("onnx", "onnx", {})]
    path = f"./{name}" if name.startswith("-") else name
    output = output_path(name, "_fixed.onnx")
    for line, model, named in (
        (run_command(name, backends, {"load_inputs": (name,)}, atol=1e-3), path, [name, name]),
        (report_command(name, [OnnxParty()], {"input_shapes": {name: ((1, 2),)}}), path, []),
        (convert_command(name, "fp16", [name, "b"]), path, [name]),
        (copy_command(name, name, [name]), path, [name, name, output]),
        (insert_commands(name, GRAPH, [Variant("structure", "", sub)]), path, [name, output]),
    ):
        words = words_in_shell(line, tmp_path)
        assert model in words
        values = [value for word in words for value in (word, word.partition("=")[2])]
        assert all(values.count(each) >= named.count(each) for each in named)
    assert not list(tmp_path.iterdir())


def test_a_command_that_no_user_can_type_is_not_printed() -> None:
    assert run_command("m.onnx", [("no-such-backend", "no-such-backend", {})], {}) == ""
    assert run_command("m.onnx", [("onnxrt", "onnxrt", {"threads": -1})], {}) == ""
    twice = [("onnxrt", "onnxrt", {"threads": 1}), ("onnxrt", "onnxrt", {"threads": 2})]
    assert run_command("m.onnx", twice, {}) == ""
    dashed = evolve(SUB, inputs=("-a", "x"))
    graph = evolve(GRAPH, inputs=(Tensor("x"), Tensor("-a")))
    assert insert_commands("m.onnx", graph, [Variant("structure", "", dashed)]) == ""
