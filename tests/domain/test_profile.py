from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.profile import Profile, ShapeTuple
from tests.domain.strategies import names

triples = st.lists(
    st.lists(st.integers(0, 99), min_size=3, max_size=3).map(sorted), max_size=4
).map(lambda dims: tuple(tuple(column) for column in zip(*dims)) or ((), (), ()))


def test_adding_is_chained_and_replaces() -> None:
    profile = Profile()
    assert profile.add("x", (1,), (2,), (3,)) is profile
    profile.add("y", [], [], []).add("x", [1], [1], [1])
    assert list(profile) == ["x", "y"]
    assert profile["x"] == ShapeTuple((1,), (1,), (1,))


def test_ranges_unpack_in_order() -> None:
    low, usual, high = ShapeTuple([1, 2], (3, 4), [5, 6])
    assert (low, usual, high) == ((1, 2), (3, 4), (5, 6))


@given(triples)
def test_whatever_is_in_order_is_accepted(shapes: tuple[tuple[int, ...], ...]) -> None:
    made = ShapeTuple(*shapes)
    assert tuple(made) == shapes
    for shape in shapes:
        assert made.contains(shape)
    assert not made.contains((*shapes[0], 1))


@given(st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=3, max_size=3))
def test_whatever_is_not_in_order_is_refused(shapes: list[list[int]]) -> None:
    ranks = {len(shape) for shape in shapes}
    ordered = len(ranks) == 1 and all(a <= b <= c for a, b, c in zip(*shapes))
    if ordered:
        Profile().add("x", *shapes)
    else:
        with pytest.raises(UsageError, match="min <= opt <= max"):
            Profile().add("x", *shapes)


@given(triples, st.integers(-1, 100))
def test_a_shape_is_inside_if_every_dimension_is(
    shapes: tuple[tuple[int, ...], ...], dim: int
) -> None:
    low, usual, high = shapes
    for axis in range(len(low)):
        shape = [*usual]
        shape[axis] = dim
        assert ShapeTuple(*shapes).contains(shape) == (low[axis] <= dim <= high[axis])


def test_dimensions_become_plain_integers() -> None:
    import numpy as np

    made = ShapeTuple(np.array([1, 2]), (3.0, 4), [True + 4, 6])  # type: ignore[arg-type]
    assert repr(made.min) == "(1, 2)"
    assert repr(made.opt) == "(3, 4)"


def test_from_shapes() -> None:
    profile = Profile.from_shapes({"x": [1, 2], "s": ()})
    assert profile["x"] == ShapeTuple((1, 2), (1, 2), (1, 2))
    assert profile["s"] == ShapeTuple((), (), ())


def test_misfits_are_the_shapes_outside() -> None:
    profile = Profile().add("x", (1,), (2,), (3,)).add("y", (1,), (1,), (1,))
    given = {"x": (4,), "y": (1,), "unknown": (9,)}
    assert profile.misfits(given) == {"x": (4,)}
    assert profile.misfits({"x": (1, 1)}) == {"x": (1, 1)}
    assert profile.misfits({}) == {}


@given(st.dictionaries(names, triples))
def test_code_gives_the_same_again(ranges: dict[str, tuple[tuple[int, ...], ...]]) -> None:
    profile = Profile()
    for name, shapes in ranges.items():
        profile.add(name, *shapes)
    assert eval(repr(profile)) == profile
    assert pickle.loads(pickle.dumps(profile)) == profile


def test_as_people_read_it() -> None:
    profile = Profile().add("x", (1, 2), (3, 4), (5, 6)).add("y", (), (), ())
    assert str(profile) == (
        "{x [min=[1, 2], opt=[3, 4], max=[5, 6]],\n y [min=[], opt=[], max=[]]}"
    )
    assert str(profile["x"]) == "(min=[1, 2], opt=[3, 4], max=[5, 6])"
    assert repr(profile).startswith("Profile().add('x', min=[1, 2], opt=[3, 4], max=[5, 6])")
    assert str(Profile()) == "{}"


def test_ranges_are_values() -> None:
    made = ShapeTuple((1,), (2,), (3,))
    assert hash(made) == hash(ShapeTuple([1], [2], [3]))
    with pytest.raises(AttributeError):
        made.min = (9,)  # type: ignore[misc]
