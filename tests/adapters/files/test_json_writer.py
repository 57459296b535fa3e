"""The text is what the json module writes, and arrays are never in it as a whole."""

from __future__ import annotations

import json
from collections import OrderedDict
from enum import IntEnum
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.adapters.files.json.json_codec import ContentError
from polygraphy.adapters.files.json.json_writer import Base64Text, JsonList, write_json
from polygraphy.adapters.files.store import json_io  # Registers the types of the package.

assert json_io.CODECS

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["\u2028", '"', "\\", "\x00", "\ud800", "😀"])
)
KEYS = st.text() | st.integers() | st.floats() | st.booleans() | st.none()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner) | st.tuples(inner, inner),
    max_leaves=20,
)


def text_of(value: Any, depth: int = 0) -> str:
    pieces: list[bytes] = []
    write_json(value, pieces.append, depth)
    return b"".join(pieces).decode("ascii")


@given(VALUES)
def test_writes_what_the_json_module_writes(value: Any) -> None:
    assert text_of(value) == json.dumps(value, indent=4)


@given(st.lists(VALUES, max_size=4))
def test_a_list_written_by_element_is_the_same(values: list[Any]) -> None:
    pieces: list[bytes] = []
    listed = JsonList(pieces.append)
    for value in values:
        listed.add(value)
    listed.close()
    assert b"".join(pieces).decode("ascii") == json.dumps(values, indent=4)


def test_depth_indents() -> None:
    assert (
        text_of({"a": [1]}, depth=2)
        == json.dumps([[{"a": [1]}]], indent=4)[len("[\n    [\n        ") : -len("\n    ]\n]")]
    )


class _Color(IntEnum):
    RED = 3


class _Text(str):
    def __str__(self) -> str:
        return "not this"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (_Color.RED, 3),
        (_Text("this"), "this"),
        ({_Text("this"): 1, _Color.RED: 2}, {"this": 1, "3": 2}),
        (np.float64(0.1), 0.1),
        (np.float32(0.5), 0.5),
        (np.int8(-3), -3),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.bool_(True), True),
        (np.str_("é"), "é"),
    ],
)
def test_relatives_of_what_json_knows_are_written_as_that(value: Any, expected: Any) -> None:
    assert text_of(value) == json.dumps(expected, indent=4)


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), 1j, open, type, ...])
def test_what_has_no_form_is_refused(value: Any) -> None:
    with pytest.raises(ContentError, match=type(value).__name__) as caught:
        text_of(value)
    assert "Encoder" in caught.value.hint


def test_says_where_the_trouble_is() -> None:
    with pytest.raises(ContentError, match=r"\(at \['a'\]\[1\]\['b'\]\)"):
        text_of({"a": [0, {"b": {1, 2}}]})


@pytest.mark.parametrize("key", [(1, 2), b"x", np.int64(1)])
def test_keys_are_strings(key: Any) -> None:
    with pytest.raises(ContentError, match="the key"):
        text_of({key: 1})


@pytest.mark.parametrize(
    "members",
    [
        {"polygraphy_class": "RunResults"},
        {"x": 1, "__polygraphy_encoded_RunResults": "polygraphy_serialized_json_type"},
    ],
)
def test_a_dictionary_that_would_be_read_as_an_object_is_refused(members: Any) -> None:
    with pytest.raises(ContentError, match="read as a different type"):
        text_of([members])


def test_a_list_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ContentError, match="contains itself"):
        text_of(endless)


def test_long_text_is_written_in_pieces() -> None:
    pieces: list[bytes] = []
    write_json(Base64Text([bytes(1_000_000)]), pieces.append)
    assert b"".join(pieces) == b'"' + b"AAAA" * 333_333 + b'AA=="'
    assert max(map(len, pieces)) <= 65_536
