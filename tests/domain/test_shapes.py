from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.tensors.shapes import (
    fits,
    format_shape,
    is_dynamic_dim,
    is_shape_dynamic,
    is_valid_shape_override,
    override_dynamic_shape,
    volume,
)
from tests.domain.strategies import shapes

dynamic = st.sampled_from([None, -1, "batch", -7, ""])
mixed = st.lists(st.one_of(st.integers(0, 5), dynamic), max_size=4)


@pytest.mark.parametrize("dim", [None, -1, -2, "batch", ""])
def test_dynamic_dimensions(dim: Any) -> None:
    assert is_dynamic_dim(dim)
    assert is_shape_dynamic([1, dim])


@pytest.mark.parametrize("dim", [0, 1, 2**40])
def test_static_dimensions(dim: int) -> None:
    assert not is_dynamic_dim(dim)
    assert not is_shape_dynamic([dim, dim])


def test_a_dimension_that_numpy_computed_is_static() -> None:
    dim: Any = np.prod([2, 3])
    assert not is_dynamic_dim(dim)
    assert override_dynamic_shape([dim]) == (6,)
    assert not fits([5], [dim])


def test_whole_shapes() -> None:
    assert is_shape_dynamic(None)
    assert not is_shape_dynamic(())


@given(mixed, st.integers(0, 9))
def test_overriding_fills_in_what_is_unknown(shape: list[Any], default: int) -> None:
    static = override_dynamic_shape(shape, default)
    assert not is_shape_dynamic(static)
    assert fits(static, shape)
    for dim, was in zip(static, shape, strict=True):
        assert dim == (default if is_dynamic_dim(was) else was)


def test_unknown_dimensions_become_one_by_default() -> None:
    assert override_dynamic_shape(("n", 0, -1, None, 3)) == (1, 0, 1, 1, 3)


@given(shapes)
def test_a_shape_fits_itself_and_the_unknown(shape: tuple[int, ...]) -> None:
    assert fits(shape, shape)
    assert fits(shape, None)
    assert fits(shape, ["any"] * len(shape))
    assert not fits(shape, [*shape, 1])
    assert not fits(shape, [*shape, None])


@given(shapes, shapes)
def test_static_shapes_fit_only_if_equal(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    assert fits(one, other) == (one == other)
    assert is_valid_shape_override(one, other) == fits(one, other)


@given(shapes)
def test_volume_counts_elements(shape: tuple[int, ...]) -> None:
    assert volume(shape) == np.zeros(shape, np.int8).size


def test_volume_does_not_overflow() -> None:
    assert volume((2**40, 2**40)) == 2**80


def test_as_people_write_it() -> None:
    assert format_shape([1, 3, "height", None]) == "(1, 3, 'height', None)"
    assert format_shape(()) == "()"
