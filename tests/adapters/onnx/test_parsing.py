"""What is asked of every ONNX model as it is read."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

from polygraphy.backend.onnx import infer_shapes, onnx_from_bytes, onnx_from_path
from polygraphy.domain.errors import ModelError
from tests.support import models

WRONG = b"\xff\xfe\xfd\xfc"


def named() -> onnx.ModelProto:
    """Return a model whose names, one for each place that there is, have four letters."""
    branch = helper.make_graph(
        [helper.make_node("Identity", ["kept"], ["bran"])], "g", [], [models.value("bran", [4])]
    )
    nodes = [
        helper.make_node("Custom", ["give"], ["kept"], name="node", domain="doma", attr=1),
        helper.make_node("If", ["cond"], ["made"], then_branch=branch, else_branch=branch),
    ]
    function = helper.make_function(
        "doma", "Custom", ["inpu"], ["outp"], [helper.make_node("Relu", ["inpu"], ["outp"])], []
    )
    graph = helper.make_graph(
        nodes,
        "graph",
        [models.value("give", [4]), models.value("cond", [], onnx.TensorProto.BOOL)],
        [models.value("made", [4])],
        [helper.make_tensor("weig", 1, [1], [0.0])],
        value_info=[models.value("info", [4])],
    )
    return helper.make_model(graph, functions=[function])


PLACES = [
    "give",
    "kept",
    "bran",
    "node",
    "doma",
    "attr",
    "cond",
    "made",
    "inpu",
    "outp",
    "weig",
    "info",
]


@pytest.mark.parametrize("name", PLACES)
def test_a_name_that_is_no_text_is_refused_as_the_model_is_read(tmp_path: Path, name: str) -> None:
    content = named().SerializeToString()
    assert content.count(name.encode())
    damaged = content.replace(name.encode(), WRONG)
    path = tmp_path / "m.onnx"
    path.write_bytes(damaged)
    for map_weights in (None, True):
        with pytest.raises(ModelError, match="is not UTF-8, so the model is damaged"):
            onnx_from_path(str(path), map_weights=map_weights)
    with pytest.raises(ModelError, match="is not UTF-8"):
        onnx_from_bytes(damaged)


def test_other_names_are_left_alone() -> None:
    model = named()
    model.graph.node[0].name = "Schicht für Größe"
    assert onnx_from_bytes(model.SerializeToString()) == model


def test_a_dimension_whose_name_is_no_text_is_refused_as_shapes_are_inferred() -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "graph",
        [models.value("x", ["size"])],
        [models.value("y", ["size"])],
    )
    damaged = helper.make_model(graph).SerializeToString().replace(b"size", WRONG)
    with pytest.raises(ModelError, match="is not UTF-8, so the model is damaged"):
        infer_shapes(onnx_from_bytes(damaged))
