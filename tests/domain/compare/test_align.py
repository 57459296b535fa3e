from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polygraphy.domain.compare.pairwise import align_shapes
from tests.domain.strategies import shapes


def numbered(shape: Any) -> Any:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape)


def align(value: Any, reference: Any) -> tuple[Any, Any]:
    found = align_shapes(value, reference, check_shapes=False)
    assert found is not None
    return found


@given(shapes, st.booleans())
def test_equal_shapes_are_left_alone(shape: Any, check_shapes: bool) -> None:
    value, reference = numbered(shape), numbered(shape)
    found = align_shapes(value, reference, check_shapes=check_shapes)
    assert found is not None
    assert found[0] is value
    assert found[1] is reference


@given(shapes, shapes)
def test_different_shapes_are_aligned_only_if_allowed_and_possible(one: Any, other: Any) -> None:
    if one == other:
        return
    value, reference = numbered(one), numbered(other)
    assert align_shapes(value, reference, check_shapes=True) is None
    possible = value.size == reference.size
    assert (align_shapes(value, reference, check_shapes=False) is not None) == possible


@given(shapes, st.data())
def test_alignment_keeps_all_elements_and_the_value(shape: Any, data: st.DataObject) -> None:
    value = numbered(shape)
    order = data.draw(st.permutations(range(len(shape))))
    reference = numbered([shape[axis] for axis in order])
    left, right = align(value, reference)
    assert left is value
    assert right.shape == value.shape
    assert np.shares_memory(right, reference) or right.size == 0
    assert sorted(right.ravel().tolist()) == sorted(reference.ravel().tolist())


@given(hnp.array_shapes(min_dims=2, max_dims=4, max_side=9), st.data())
def test_transposing_is_undone_when_all_dimensions_differ(shape: Any, data: st.DataObject) -> None:
    if len(set(shape)) < len(shape):
        return
    value = numbered(shape)
    transposed = value.transpose(data.draw(st.permutations(range(len(shape)))))
    np.testing.assert_array_equal(align(value, transposed)[1], value)


def test_images_are_transposed_not_reshaped() -> None:
    image = numbered((1, 3, 2, 4))
    np.testing.assert_array_equal(align(image, image.transpose(0, 2, 3, 1))[1], image)


def test_among_equal_dimensions_the_first_fitting_order_is_taken() -> None:
    reference = numbered((3, 2, 2))
    np.testing.assert_array_equal(
        align(np.zeros((2, 2, 3)), reference)[1], reference.transpose(1, 2, 0)
    )


@pytest.mark.parametrize(
    ("one", "other"), [((2, 3), (6,)), ((1, 2), (2,)), ((), (1, 1)), ((0, 3), (5, 0))]
)
def test_another_arrangement_is_reshaped(one: Any, other: Any) -> None:
    value, reference = numbered(one), numbered(other)
    np.testing.assert_array_equal(align(value, reference)[1], reference.reshape(one))
