"""Nodes are found by the names that TensorRT gives their layers."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.adapters.tensorrt.precision.casting import select_nodes
from polygraphy.backend.trt import (
    CreateConfig,
    EngineBytesFromNetwork,
    NetworkFromOnnxBytes,
    SetLayerPrecisions,
)
from tests.support.rtx import dtypes

CHAIN = """<ir_version: 8, opset_import: ["" : 17]>
chain (float[2,4] x) => (float[2,4] d)
{ a = Relu(x)  b = Exp(a)  [third] c = Neg(b)  d = Tanh(c) }"""

NESTED = """<ir_version: 8, opset_import: ["" : 17]>
nested (float[2] x, bool c) => (float[2] y)
{
  a = Relu(x)
  [branch] b = If (c) <
    then_branch = t () => (float[2] p) { p = Exp(a) },
    else_branch = e () => (float[2] q) { h = Neg(a)  q = Abs(h) }
  >
  y = Tanh(b)
}"""


def _model(text: str) -> Any:
    return onnx.parser.parse_model(text)


def test_a_node_goes_by_its_name_its_layer_s_and_its_tensors() -> None:
    for name, node in (("node_of_a", "a"), ("b", "b"), ("third", "third"), ("c", "third")):
        found = select_nodes(_model(CHAIN), [name])
        assert found.chosen == {node}, name
        assert found.others == {"a", "b", "third", "d"} - {node}
        assert found.unknown == ()
    assert found.known == ("node_of_a", "node_of_b", "third", "node_of_d")


def test_names_that_nothing_goes_by_are_reported() -> None:
    found = select_nodes(_model(CHAIN), ["b", "node_of_c", "x"])
    assert found.chosen == {"b"}
    assert found.unknown == ("node_of_c", "x")


def test_what_is_inside_of_a_kept_node_would_be_kept_too() -> None:
    inner = select_nodes(_model(NESTED), ["q"])
    assert inner.chosen == {"q"}
    assert inner.others == {"a", "p", "h", "y"}  # Not the node that has it inside.
    outer = select_nodes(_model(NESTED), ["branch"])
    assert outer.chosen == {"branch"}
    assert outer.others == {"a", "p", "h", "q", "y"}


@given(st.sets(st.sampled_from(["a", "node_of_b", "third", "d", "nothing"])))
def test_every_node_is_on_one_side(names: set[str]) -> None:
    found = select_nodes(_model(CHAIN), names)
    assert not found.chosen & found.others
    assert found.chosen | found.others == {"a", "b", "third", "d"}
    assert len(found.chosen) + len(found.unknown) == len(names)


def _types(precisions: dict[str, Any], **settings: Any) -> dict[str, str]:
    seen: dict[str, str] = {}
    load = NetworkFromOnnxBytes(_model(CHAIN).SerializeToString())

    def observed() -> Any:
        parts = SetLayerPrecisions(load, precisions)()
        seen.update(dtypes(parts[1]))
        return parts

    EngineBytesFromNetwork(observed, CreateConfig(**settings))()
    return seen


@pytest.mark.usefixtures("rtx")
@pytest.mark.parametrize("name", ["node_of_b", "b"])
def test_nodes_without_names_keep_their_precision_or_are_the_only_ones_cast(name: str) -> None:
    kept = _types({name: "float32"}, fp16=True)
    assert (kept["a"], kept["b"], kept["c"]) == ("HALF", "FLOAT", "HALF")
    only = _types({name: "float16"})
    assert (only["a"], only["b"], only["c"]) == ("FLOAT", "HALF", "FLOAT")


@pytest.mark.usefixtures("rtx")
@pytest.mark.parametrize("settings", [{"fp16": True}, {}], ids=["cast", "float32"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_a_misspelt_name_is_a_warning_with_what_was_meant(
    settings: dict[str, Any], dtype: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = _types({"node_of_bb": dtype, "thrid": dtype}, **settings)
    said = capsys.readouterr().out.split("[W]")
    assert [text.count("A precision has no effect: Layer") for text in said] == [0, 1, 1]
    assert "Did you mean 'node_of_b'" in said[1]
    assert "Layer 'thrid' does not exist" in said[2]
    assert "Did you mean 'third'" in said[2]
    everything = "HALF" if settings else "FLOAT"
    assert [seen[name] for name in "abc"] == [everything] * 3


@pytest.mark.usefixtures("rtx")
def test_a_misspelt_name_is_reported_once_where_a_network_is_parsed_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    load = NetworkFromOnnxBytes(_model(CHAIN).SerializeToString())
    parsed = SetLayerPrecisions(load, {"thrid": "float32"})()
    EngineBytesFromNetwork(parsed, CreateConfig(fp16=True))()
    assert capsys.readouterr().out.count("'thrid' does not exist") == 1
