"""Graphs that no order and no meaning can be given to are refused, and nothing is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser

from polygraphy.adapters.onnx.lint import linting
from polygraphy.adapters.onnx.lint import linting as node_trials
from polygraphy.adapters.onnx.lint.linting import open_to_lint
from polygraphy.adapters.onnx.storage.parsing import encode_field, encode_varint
from polygraphy.adapters.onnxruntime.trial import OnnxrtTrial
from polygraphy.backend.onnx import fold_constants, infer_shapes
from polygraphy.backend.onnxrt import session_from_onnx
from polygraphy.domain.checks.lint import INFO, Source
from polygraphy.domain.errors import BackendError, ModelError
from polygraphy.domain.model import ModelSource
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.surgeon import check_model, clean_up, extract, sort_nodes
from tests.support import models

HEAD = '<ir_version: 8, opset_import: ["": 17, "own": 1]> g (float[2] x, bool c) => (float[2] y)'
TWICE = HEAD + "{ a = Relu(x)  a = Abs(x)  y = Neg(a) }"
WAITING = HEAD + """{
    a = own.Unheard(x)
    m = If(c) <then_branch = t () => (float[2] p) { p = Neg(late) },
               else_branch = e () => (float[2] q) { q = Neg(a) }>
    late = Abs(m)
    y = Neg(m)
}"""
NOWHERE = HEAD + "{ a = own.Unheard(x)  y = Neg(gone) }"
NO_OUTPUT = HEAD + "{ a = own.Unheard(x) }"

Edit = Callable[[onnx.ModelProto], Any]
EDITS: Mapping[str, Edit] = {
    "fold": fold_constants,
    "clean": clean_up,
    "sort": sort_nodes,
    "extract": lambda model: extract(model, outputs=TensorMetadata().add("y", None, None)),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_tensor_that_two_nodes_make(edit: str) -> None:
    model = parser.parse_model(TWICE)
    for node, name in zip(model.graph.node, "pqr"):
        node.name = name
    reported = (
        "Tensor 'a' of graph 'g' is computed twice: by the Relu node 'p' and the Abs node 'q'"
    )
    with pytest.raises(ModelError, match=reported):
        EDITS[edit](model)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (WAITING, "the Neg node '' reads 'late', which no earlier node computes"),
        (NOWHERE, "the Neg node '' reads 'gone', which no earlier node computes"),
        (NO_OUTPUT, "no node of graph 'g' computes its output 'y'"),
    ],
)
def test_order_is_checked_behind_an_unknown_operator(text: str, reported: str) -> None:
    model = parser.parse_model(text)
    del model.opset_import[1]  # What the checker complains about, and is tolerated, comes first.
    with pytest.raises(ModelError, match=reported):
        check_model(model)


def nested(depth: int) -> onnx.ModelProto:
    """Return a model of branches in branches, so deep that only messages can be put together."""
    output = encode_field(12, helper.make_tensor_value_info("y", 1, None).SerializeToString())
    simple = encode_field(1, helper.make_node("Abs", ["x"], ["y"]).SerializeToString())
    simple += encode_field(2, b"g") + output

    def branch(name: bytes, graph: bytes) -> bytes:
        is_graph = encode_varint(20 << 3) + encode_varint(onnx.AttributeProto.GRAPH)
        return encode_field(5, encode_field(1, name) + encode_field(6, graph) + is_graph)

    graph = simple
    for _ in range(depth):
        node = encode_field(1, b"c") + encode_field(2, b"y") + encode_field(4, b"If")
        node += branch(b"then_branch", graph) + branch(b"else_branch", simple)
        graph = encode_field(1, node) + encode_field(2, b"g") + output
    inputs = [models.value("x", [2]), models.value("c", [], onnx.TensorProto.BOOL)]
    graph += b"".join(encode_field(11, value.SerializeToString()) for value in inputs)
    opset = encode_field(8, helper.make_opsetid("", 17).SerializeToString())
    version = encode_varint(1 << 3) + encode_varint(8)
    return onnx.load_from_string(version + encode_field(7, graph) + opset)


def test_shapes_that_lie_too_deep_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    deepest = nested(32)
    assert infer_shapes(deepest, allow_onnxruntime=False) == deepest
    assert "Continuing without it" in capsys.readouterr().out
    check_model(fold_constants(deepest))


def test_many_nodes_are_not_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linting, "_WHOLE", 1)
    tried: list[object] = []

    class Trial(OnnxrtTrial):
        def run(self, model: bytes | str, feed: Mapping[str, Any], outputs: Sequence[str]) -> Any:
            tried.append(model)
            return super().run(model, feed, outputs)

    path = tmp_path / "m.onnx"
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y)'
    models.save(parser.parse_model(text + "{ a = Abs(x)  y = Neg(a) }"), path)
    feed = {"x": np.ones(2, np.float32)}
    findings = open_to_lint(ModelSource(str(path)))(feed, Trial())
    [entry] = [entry for entry in findings.entries if entry.source == Source.RUNTIME]
    assert entry.level == INFO and "in segments" in entry.message
    assert tried and not any(isinstance(model, str) for model in tried)
    assert findings.ran == set(findings.nodes)


def test_nodes_of_very_many_operands_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_trials, "_MOST_OPERANDS", 2)
    path = tmp_path / "m.onnx"
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y, float[2] z)'
    body = "{ a = Abs(x)  b = Neg(x)  s = Sum(a, b, x)  y = Exp(s)  z = Sum(a, a, b) }"
    models.save(parser.parse_model(text + body), path)
    findings = open_to_lint(ModelSource(str(path)))({"x": np.ones(2, np.float32)}, OnnxrtTrial())
    [entry] = [entry for entry in findings.entries if entry.source == Source.RUNTIME]
    assert entry.level == INFO and "3 inputs" in entry.message
    assert list(entry.nodes) == [findings.nodes[2]]
    assert findings.skipped == (findings.nodes[2], findings.nodes[3])
    assert findings.ran == {findings.nodes[i] for i in (0, 1, 4)}


def test_onnx_runtime_has_a_word_about_lint_in_front_of_a_circle() -> None:
    model = parser.parse_model(HEAD + "{ a = Add(x, b)  b = Abs(a)  y = Neg(b) }")
    with pytest.raises(BackendError, match="not acyclic") as caught:
        session_from_onnx(model.SerializeToString())
    assert "check lint" in caught.value.hint
