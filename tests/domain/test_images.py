"""Arrays are understood as images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from polygraphy.adapters.lpips import as_images, common_range
from polygraphy.domain.errors import UsageError


@pytest.mark.parametrize(
    ("shape", "made"),
    [
        ((5, 6), (1, 3, 5, 6)),
        ((3, 5, 6), (1, 3, 5, 6)),
        ((1, 5, 6), (1, 3, 5, 6)),
        ((5, 6, 3), (1, 3, 5, 6)),
        ((5, 6, 1), (1, 3, 5, 6)),
        ((2, 3, 5, 6), (2, 3, 5, 6)),
        ((2, 5, 6, 3), (2, 3, 5, 6)),
        ((4, 2, 1, 5, 6), (8, 3, 5, 6)),
        ((3, 5, 3), (1, 3, 5, 3)),
    ],
)
def test_channels_go_to_the_front(shape: tuple[int, ...], made: tuple[int, ...]) -> None:
    assert as_images(np.zeros(shape)).shape == made


def test_pixels_stay_where_they_are() -> None:
    image = np.arange(30).reshape(5, 6)
    for given_as in (image, image[None], image[..., None]):
        for channel in as_images(given_as)[0]:
            np.testing.assert_array_equal(channel, image)
    colored = np.arange(90).reshape(5, 6, 3)
    np.testing.assert_array_equal(as_images(colored)[0, 2], colored[..., 2])


@pytest.mark.parametrize("shape", [(), (3,), (2, 5, 6), (7, 4, 5, 6), (0, 3, 5, 6), (3, 0, 6)])
def test_what_is_no_image_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=r"An output of shape \["):
        as_images(np.zeros(shape))


@pytest.mark.parametrize(
    ("value", "reference", "expected"),
    [
        ([0.2], [0.9], (0, 1)),
        ([-0.2], [0.9], (-1, 1)),
        ([1.0], [200.0], (0, 255)),
        ([-3.0], [200.0], (-3, 200)),
        ([300], [0], (0, 300)),
    ],
)
def test_both_are_in_one_range(value: Any, reference: Any, expected: tuple[float, float]) -> None:
    assert common_range(np.array(value), np.array(reference)) == expected


def test_dark_pictures_of_bytes_are_dark() -> None:
    assert common_range(np.array([0], np.uint8), np.array([1], np.uint8)) == (0, 255)


@given(arrays(np.float32, 4, elements=st.floats(-1e6, 1e6, width=32)), st.floats(-500, 500))
def test_the_range_holds_both_and_does_not_depend_on_the_order(image: Any, shift: float) -> None:
    other = image + np.float32(shift)
    low, high = common_range(image, other)
    assert (low, high) == common_range(other, image)
    assert low <= min(image.min(), other.min())
    assert high >= max(image.max(), other.max())
