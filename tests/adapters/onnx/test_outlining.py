"""ONNX models in brief, before and after an edit."""

from __future__ import annotations

import onnx
import pytest
from onnx import parser

from polygraphy.application.models.model_inspection import show_edited, show_original
from polygraphy.ports.models import outline_of

BRANCHES = """<ir_version: 8, opset_import: ["": 17]>
m (bool c, float[N] x) => (float[N] y) <float w = {1.0}> {
    y = If (c) <
        then_branch = g () => (float[N] a) <float v = {2.0}> { [named] a = Add(x, v) },
        else_branch = h () => (float[N] b) { b = Mul(x, w) }
    >
}"""


def branches() -> onnx.ModelProto:
    return parser.parse_model(BRANCHES)


def test_parts_of_graphs_inside_nodes_count() -> None:
    outline = outline_of(branches())
    assert outline.nodes == {("If", "y"): 1, ("Add", "named"): 1, ("Mul", "b"): 1}
    assert outline.weights == {"w": 1, "v": 1}
    assert [tensor.name for tensor in outline.model.graph.inputs] == ["c", "x"]


def test_what_came_and_went_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    model = branches()
    original = show_original(model)
    assert "[I] Original Model:\n    Name: m | ONNX Opset: 17\n" in capsys.readouterr().out
    node = model.graph.node[0].attribute[1].g.node[0]
    node.op_type, node.input[1] = "Sqrt", ""
    del node.input[1]
    del model.graph.initializer[:]
    show_edited(original, model)
    text = capsys.readouterr().out
    assert "[I] New Model:\n    Name: m | ONNX Opset: 17\n" in text
    assert "---- 0 Initializer(s) ----" in text
    assert text.splitlines()[-1] == (
        "[I] Removed: 1 node (1 Mul), 1 initializer | Added: 1 node (1 Sqrt)"
    )


def test_an_edit_that_keeps_all_parts_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    model = branches()
    show_edited(show_original(model), model)
    assert capsys.readouterr().out.endswith("No nodes or initializers were added or removed.\n")
