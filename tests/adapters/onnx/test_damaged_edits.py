"""Damaged models are refused, whatever is done to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polygraphy.adapters.onnx.graph import element_types
from polygraphy.adapters.onnx.graph.element_types import signature_of
from polygraphy.backend.onnx import (
    convert_to_fp16,
    extract_subgraph,
    fold_constants,
    onnx_from_bytes,
    set_upper_bound,
)
from polygraphy.common import TensorMetadata
from polygraphy.exception import PolygraphyException
from polygraphy.logger import G_LOGGER
from polygraphy.surgeon import (
    check_model,
    clean_up,
    insert_node,
    prune_weights,
    remove_nodes,
    sort_nodes,
    strip_weights,
)
from tests.support import models
from tests.support.examples import scaled

ORIGINAL = models.mlp()
BYTES = ORIGINAL.SerializeToString(deterministic=True)
HIDDEN = ORIGINAL.graph.node[0].output[0]
EDITS: dict[str, Callable[[onnx.ModelProto], Any]] = {
    "check": check_model,
    "clean": clean_up,
    "extract": lambda m: extract_subgraph(m, TensorMetadata().add(HIDDEN, None, None), None),
    "fold": fold_constants,
    "fp16": convert_to_fp16,
    "insert": lambda m: insert_node(m, op="Neg", inputs=[HIDDEN], outputs=[HIDDEN]),
    "prune": prune_weights,
    "remove": lambda m: remove_nodes(m, ["Relu"]),
    "sort": sort_nodes,
    "strip": strip_weights,
    "upper_bound": lambda m: set_upper_bound(m, 5),
}


@pytest.fixture(autouse=True)
def quiet() -> Any:
    before = G_LOGGER.module_severity
    G_LOGGER.module_severity = G_LOGGER.CRITICAL
    yield
    G_LOGGER.module_severity = before


def edit_all(model: onnx.ModelProto) -> None:
    for edit in EDITS.values():
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        try:
            edit(copy)
        except PolygraphyException as error:
            assert "\n" not in str(error)


@settings(
    max_examples=scaled(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.tuples(st.integers(0, len(BYTES) - 1), st.integers(0, 255)), min_size=1, max_size=4)
)
def test_bytes_that_changed(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(BYTES)
    for index, value in changes:
        damaged[index] = value
    try:
        model = onnx_from_bytes(bytes(damaged))
    except PolygraphyException:
        return
    edit_all(model)


TENSORS = sorted({name for node in ORIGINAL.graph.node for name in (*node.input, *node.output)})


@settings(
    max_examples=scaled(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_graphs_that_changed(data: st.DataObject) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(ORIGINAL)
    for _ in range(data.draw(st.integers(1, 3))):
        node = data.draw(st.sampled_from(list(model.graph.node)))
        kind = data.draw(
            st.sampled_from(["input", "output", "op", "drop", "dims", "type", "attribute"])
        )
        name = data.draw(st.sampled_from([*TENSORS, "", "unheard-of"]))
        if kind == "input" and node.input:
            node.input[0] = name
        elif kind == "output" and node.output:
            node.output[0] = name
        elif kind == "op":
            node.op_type = data.draw(
                st.sampled_from(["If", "Constant", "Range", "Split", "Cast", "", "Transpose"])
            )
        elif kind == "drop":
            del node.input[:]
        elif kind == "dims":
            model.graph.initializer[0].dims.append(data.draw(st.integers(-2, 9)))
        elif kind == "type":
            model.graph.initializer[0].data_type = data.draw(st.integers(0, 30))
        else:
            node.attribute.add(name="axis", i=3, type=2)
    edit_all(model)


def test_an_operator_whose_type_is_no_text_is_none_of_the_standard() -> None:
    name: Any = b"\x80emm"  # As some versions of protobuf hand it over.
    assert signature_of(name, "", 17) is None
    assert signature_of("Gemm", "", 17) is not None


def test_types_are_those_of_the_variable_where_a_parameter_does_not_tell_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bindings of onnx 1.20 raise a TypeError for the types of a parameter."""
    expected = element_types.signature_of("Add", "", 14)

    class Mute:
        def __init__(self, declared: Any) -> None:
            self.type_str = declared.type_str
            self.is_homogeneous = declared.is_homogeneous

        @property
        def types(self) -> Any:
            raise TypeError("Unable to convert function return value to a Python type!")

    plain = element_types._parameter
    monkeypatch.setattr(
        element_types, "_parameter", lambda declared, variables: plain(Mute(declared), variables)
    )
    element_types.signature_of.cache_clear()
    assert element_types.signature_of("Add", "", 14) == expected
