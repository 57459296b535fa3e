from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.tensors.naming import value_for
from tests.domain.strategies import names

settings = st.dictionaries(st.one_of(names, st.just("")), st.integers())


def test_nothing_gives_the_default() -> None:
    assert value_for(None, "y", 1) == 1
    assert value_for({}, "y", 1) == 1


@given(names, st.integers())
def test_one_value_is_for_all(name: str, value: int) -> None:
    assert value_for(value, name, None) == value


@given(settings, names, st.integers())
def test_the_name_outranks_the_rest_and_the_rest_the_default(
    setting: dict[str, int], name: str, default: int
) -> None:
    expected = setting[name] if name in setting else setting.get("", default)
    assert value_for(setting, name, default) == expected


def test_a_false_value_is_a_value() -> None:
    assert value_for({"y": 0, "": 5}, "y", 7) == 0
    assert value_for(0, "y", 7) == 0
