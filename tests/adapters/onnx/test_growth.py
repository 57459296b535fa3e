"""Edits take time in proportion to the number of nodes: what would be done once for each of them,
and goes through all of them, is counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

from polygraphy.adapters.onnx.edit import inserting as removing
from polygraphy.adapters.onnx.edit import outputs
from polygraphy.adapters.onnx.fold import walk
from polygraphy.adapters.onnx.fold import walk as branches
from polygraphy.adapters.onnx.plugins import plugins
from polygraphy.backend.onnx import fold_constants, modify_outputs
from polygraphy.domain.model.plugins import PluginInstance, PluginMatch
from polygraphy.plugin import replace_plugins
from polygraphy.surgeon import remove_nodes
from tests.support import models

COUNT = 20


def chain(op: str, further: list[str]) -> onnx.ModelProto:
    """Return a model of nodes one behind the other, each of which has further outputs."""
    nodes = [
        helper.make_node(op, [f"t{i}"], [f"t{i + 1}", *(f"{name}{i}" for name in further)])
        for i in range(COUNT)
    ]
    return models.make("chain", nodes, [models.value("t0", [1])], [models.value(f"t{COUNT}", [1])])


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[Any]:
    """Return a list that gets an entry for each call of a function of a module."""
    calls: list[Any] = []
    called = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *given: calls.append(given) or called(*given))
    return calls


def test_removing_nodes_with_further_results(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch, removing, "tensors_read")
    made = remove_nodes(chain("Dropout", ["mask"]), ["Dropout"])
    assert [node.op_type for node in made.graph.node] == ["Identity"]
    assert len(calls) == COUNT


def test_taking_a_branch_over(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch, branches, "rename_uses")
    model = chain("Neg", [])
    inner = onnx.GraphProto()
    inner.CopyFrom(model.graph)
    del inner.input[:]
    del model.graph.node[:]
    model.graph.node.extend(
        [
            helper.make_node("Constant", [], ["flag"], value_int=1),
            helper.make_node("Cast", ["flag"], ["is_so"], to=onnx.TensorProto.BOOL),
            helper.make_node("If", ["is_so"], ["y"], then_branch=inner, else_branch=inner),
        ]
    )
    model.graph.output[0].name = "y"
    made = fold_constants(model, allow_onnxruntime_shape_inference=False)
    assert [node.op_type for node in made.graph.node] == ["Neg"] * COUNT
    assert len(calls) == 1


def test_replacing_many_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    script = "def get_plugin_metadata(): return {'name': 'one', 'op': 'One'}"
    (tmp_path / "one" / "pattern.py").write_text(script)
    calls = counted(monkeypatch, plugins, "producers")
    parts = [PluginInstance((f"t{i}",), (f"t{i + 1}",)) for i in range(COUNT)]
    made = replace_plugins(chain("Neg", []), str(tmp_path), [PluginMatch("one", "One", parts)])
    assert [node.op_type for node in made.graph.node] == ["One"] * COUNT
    assert len(calls) == 1


def test_folding_in_many_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch, walk, "output_elements")
    model = chain("Neg", [])
    for index, node in enumerate(model.graph.node):
        inner = helper.make_graph(
            [helper.make_node("Neg", [f"t{index}"], ["made"])], "g", [], [models.value("made", [1])]
        )
        node.op_type, node.input[0] = "If", "flag"
        for name in ("then_branch", "else_branch"):
            node.attribute.append(helper.make_attribute(name, inner))
    model.graph.input.append(models.value("flag", [], onnx.TensorProto.BOOL))
    fold_constants(model)
    assert len(calls) == COUNT + 2 * COUNT, "each node is looked at once"


class Unsearched(list[str]):
    """A list in which nobody looks for anything."""

    def __contains__(self, name: object) -> bool:
        raise AssertionError(f"looked for {name} in all names")


def test_marking_many_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = outputs._set_outputs
    monkeypatch.setattr(
        outputs, "_set_outputs", lambda graph, names, types: chosen(graph, Unsearched(names), types)
    )
    model = chain("Neg", [])
    model.graph.value_info.extend(models.value(f"t{i}", [1]) for i in range(1, COUNT))
    made = modify_outputs(model, outputs=[f"t{i}" for i in range(2, COUNT)])
    assert [value.name for value in made.graph.output] == [f"t{i}" for i in range(2, COUNT)]
    assert [value.name for value in made.graph.value_info] == ["t1", f"t{COUNT}"]
