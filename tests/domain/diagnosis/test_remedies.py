"""Command lines that undo what is wrong with a model."""

from __future__ import annotations

import numpy as np
from attrs import evolve

from polygraphy.domain.diagnosis.pairing import Side
from polygraphy.domain.diagnosis.variants import Variant, copying, undoing
from polygraphy.domain.model.description import Attribute, Graph, Node, Tensor

EPSILON = Attribute("epsilon", "float", float(np.float32(1e-5)))
NORM = Node("my norm", "LayerNormalization", "", ("x", "x", ""), ("a",), (EPSILON,))
SUB = Node("", "Sub", "", ("a", "x"), ("y",))
GRAPH = Graph(
    name="g",
    inputs=(Tensor("x"),),
    outputs=(Tensor("y"),),
    nodes=(evolve(NORM, attributes=()), evolve(SUB, inputs=("x", "a"))),
)
SIDE = Side(GRAPH)
FIRST = "polygraphy surgeon insert d/m.onnx --op LayerNormalization --name 'my norm'"
FIRST += " --inputs x x --outputs a --attrs epsilon=1e-05 -o m_fixed.onnx"


def test_nodes_of_a_reference_are_copied_once_each() -> None:
    assert copying("d/m.onnx", "r.onnx", ["b c", "a", "a"]) == (
        "polygraphy surgeon copy d/m.onnx --reference r.onnx --nodes 'b c' a -o m_fixed.onnx"
    )


def test_a_node_is_put_back_as_it_was() -> None:
    assert undoing("d/m.onnx", SIDE, [Variant("epsilon", "", NORM)]) == FIRST


def test_the_next_command_goes_on_with_what_the_first_saved() -> None:
    made = undoing("d/m.onnx", SIDE, [Variant("epsilon", "", NORM), Variant("structure", "", SUB)])
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
        assert undoing("m.onnx", SIDE, [variant]) is None
