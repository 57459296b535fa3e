"""Values become literals, and nothing else becomes source."""

from __future__ import annotations

import ast
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from polygraphy.codegen.render import finalize
from polygraphy.codegen.source import ByteCount, literal

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary()
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(values)
def test_a_literal_evaluates_to_its_value(value: Any) -> None:
    evaluated = ast.literal_eval(str(literal(value)))
    assert evaluated == value
    assert type(evaluated) is type(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_keeps_its_bits(value: float) -> None:
    evaluated = ast.literal_eval(str(literal(value)))
    assert isinstance(evaluated, float)
    assert evaluated.hex() == value.hex()


@pytest.mark.parametrize(
    ("value", "source"),
    [
        (1e-3, "1e-3"),
        (1e-5, "1e-5"),
        (0.05, "0.05"),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (2.5e-7, "2.5e-7"),
        (1e300, "1e300"),
        (-1e-3, "-1e-3"),
        (0.0, "0.0"),
        ((1,), "(1,)"),
        ({"": 1e-3}, "{'': 1e-3}"),
        ({"": 1e-3, "y": 2}, "{\n'': 1e-3,  # All others.\n'y': 2,\n}"),
        ({"x": 1e-3, "y": 0.01, "z": 2.0}, "{'x': 1e-3, 'y': 1e-2, 'z': 2.0}"),
        ({"x": 0.5, "y": 0.01}, "{'x': 0.5, 'y': 0.01}"),
        (ByteCount(2 << 30), "2 << 30"),
        ({"workspace": ByteCount(1536 << 20)}, "{'workspace': 1536 << 20}"),
        (ByteCount(16384), "16384"),
        (ByteCount(0), "0"),
        (2 << 30, "2147483648"),
    ],
)
def test_numbers_are_written_as_people_write_them(value: Any, source: str) -> None:
    assert literal(value) == source


@given(st.integers(0, 1 << 50) | st.integers(0, 1 << 20).map(lambda value: value << 20))
def test_a_number_of_bytes_keeps_its_value(value: int) -> None:
    assert eval(str(literal(ByteCount(value)))) == value


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_infinities_and_nan_are_expressions(value: float) -> None:
    evaluated = eval(str(literal(value)))
    assert evaluated == value or (math.isnan(evaluated) and math.isnan(value))


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, [object()], Markup("x"), [Markup("x")]])
def test_what_has_no_literal_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        literal(value)


def test_a_bare_string_is_refused_and_source_passes() -> None:
    with pytest.raises(TypeError, match="bare string"):
        finalize("import os")
    assert finalize(Markup("import os")) == "import os"
    assert finalize([1, "a"]) == "[1, 'a']"
