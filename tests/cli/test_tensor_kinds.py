"""Tensors, shapes and attributes on the command line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.cli.commands.surgeon.surgeon_options import (
    Attributes,
    NamedShapes,
    Tensors,
    TensorSpec,
)
from polygraphy.cli.declare.errors import BadValue

TENSORS = {
    "x": TensorSpec("x"),
    "x:auto": TensorSpec("x"),
    "x:auto:auto": TensorSpec("x"),
    "x:float16": TensorSpec("x", None, "float16"),
    "x:[1,-1,N]": TensorSpec("x", (1, None, "N")),
    "x:[]:BOOL": TensorSpec("x", (), "bool"),
    "x:[2]:auto": TensorSpec("x", (2,)),
    "x:auto:int64": TensorSpec("x", None, "int64"),
    "scope/x:0": TensorSpec("scope/x:0"),
    "scope/x:0:[3]:float32": TensorSpec("scope/x:0", (3,), "float32"),
    "x:['batch',None]": TensorSpec("x", ("batch", None)),
}


@pytest.mark.parametrize("word", TENSORS)
def test_tensors_are_taken_apart_from_their_end(word: str) -> None:
    assert Tensors().parse([word]) == (TENSORS[word],)


@pytest.mark.parametrize(
    "word", ["x:[1]:float31", "x:auto:flaot", ":[1]", "x:[1,", "x:[1,,2]:int8"]
)
def test_what_is_no_tensor_is_refused(word: str) -> None:
    with pytest.raises(BadValue):
        Tensors().parse([word])


def test_a_tensor_is_named_once() -> None:
    with pytest.raises(BadValue, match="twice"):
        Tensors().parse(["x", "x:[1]"])


dims = st.one_of(st.none(), st.integers(0, 99), st.sampled_from(["N", "batch"]))
specs = st.builds(
    TensorSpec,
    st.sampled_from(["x", "a/b:0", "auto", "float32"]),
    st.none() | st.lists(dims, max_size=4).map(tuple),
    st.sampled_from([None, "float32", "int64", "bfloat16"]),
)


@given(st.lists(specs, unique_by=lambda spec: spec.name))
def test_tensors_come_back_from_their_words(given_specs: list[TensorSpec]) -> None:
    kind = Tensors()
    assert kind.parse(kind.unparse(given_specs)) == tuple(given_specs)


def test_shapes_may_hold_names() -> None:
    kind = NamedShapes()
    shapes = {"a:0": (1, "N", None), "b": ()}
    assert kind.parse(["a:0:[1,N,-1]", "b:[]"]) == shapes
    assert kind.parse(kind.unparse(shapes)) == shapes
    for words in (["a"], [":[1]"], ["a:[1]", "a:[2]"]):
        with pytest.raises(BadValue):
            kind.parse(words)


ATTRIBUTES = {
    "axis=1": 1,
    "alpha=0.5": 0.5,
    "mode=linear": "linear",
    "mode='a b'": "a b",
    "pads=[0,0,1,1]": [0, 0, 1, 1],
    "scales=[1,2.5]": [1.0, 2.5],
    "names=[a,b]": ["a", "b"],
    "text=a=b": "a=b",
}


@pytest.mark.parametrize("word", ATTRIBUTES)
def test_attributes_are_numbers_texts_and_lists(word: str) -> None:
    [value] = Attributes().parse([word]).values()
    assert value == ATTRIBUTES[word] and type(value) is type(ATTRIBUTES[word])


@pytest.mark.parametrize("word", ["axis", "=1", "a=[1,'x']", "a=[]", "a={}", "a=None", "a=True"])
def test_what_is_no_attribute_is_refused(word: str) -> None:
    with pytest.raises(BadValue):
        Attributes().parse([word])


values: Any = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(st.dictionaries(st.sampled_from("abc"), values))
def test_attributes_come_back_from_their_words(attributes: dict[str, Any]) -> None:
    kind = Attributes()
    assert kind.parse(kind.unparse(attributes)) == attributes
