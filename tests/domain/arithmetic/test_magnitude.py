from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.arithmetic.summary import root_mean_square
from tests.domain.arithmetic.strategies import NUMBERS, arrays, relaid, shapes, tiny_blocks


@given(st.data(), st.sampled_from(NUMBERS))
def test_it_is_the_root_of_the_mean_square_of_the_finite_elements(
    data: st.DataObject, dtype: np.dtype[Any]
) -> None:
    array = data.draw(relaid(data.draw(arrays(dtype, data.draw(shapes())))))
    elements = [float(x) for x in array.ravel() if math.isfinite(float(x))]
    peak = max(map(abs, elements), default=0.0)
    expected = 0.0
    if peak:
        expected = peak * math.sqrt(math.fsum((x / peak) ** 2 for x in elements) / len(elements))
    with tiny_blocks():
        assert root_mean_square(array) == pytest.approx(expected, rel=1e-12)
    assert root_mean_square(array) == pytest.approx(expected, rel=1e-12)


def test_complex_numbers_count_by_their_modulus_and_text_not_at_all() -> None:
    assert root_mean_square(np.array([3 + 4j, 0])) == pytest.approx(5 / math.sqrt(2))
    assert root_mean_square(np.array([1e-200, 1e200])) == pytest.approx(1e200 / math.sqrt(2))
    with pytest.raises(TypeError, match="only numbers"):
        root_mean_square(np.array(["a"]))


def test_the_array_stays_as_it_is() -> None:
    array = np.array([-1.0, 2.0])
    root_mean_square(array)
    assert array.tolist() == [-1.0, 2.0]
