"""Execution providers on the command line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds import Providers


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["cuda", "cpu"], ("cuda", "cpu")),
        (["cuda:device_id=1", "cpu"], (("cuda", {"device_id": "1"}), "cpu")),
        (["trt:a=1,b=x=y,c=u,v,d="], (("trt", {"a": "1", "b": "x=y", "c": "u,v", "d": ""}),)),
        (["trt:path=C:/cache,b=1"], (("trt", {"path": "C:/cache", "b": "1"}),)),
        (["odd:name", ":a=1"], ("odd:name", ":a=1")),
    ],
)
def test_options_follow_a_provider(words: list[str], value: Any) -> None:
    assert Providers().parse(words) == value
    assert Providers().unparse(value) == words


def test_two_values_of_an_option_are_refused() -> None:
    with pytest.raises(BadValue, match="'cuda' has two values for 'a'"):
        Providers().parse(["cuda:a=1,a=2"])


names = st.text(st.characters(exclude_characters=":=,"), min_size=1)
values = st.text(st.characters(exclude_characters="=,"))
providers = names | st.tuples(names, st.dictionaries(names, values, min_size=1))


@given(st.lists(providers, min_size=1).map(tuple))
def test_what_is_written_is_read_again(value: Any) -> None:
    assert Providers().parse(Providers().unparse(value)) == value
