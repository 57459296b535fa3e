"""A number that a model should have is one that its data type holds."""

from __future__ import annotations

import numpy as np

from polygraphy.application.diagnose.counterparts import _in_dtype


def test_a_number_that_is_too_large_for_the_type_is_infinite() -> None:
    numbers = [1.15792e77, -1e300, 3.4028235e38, 0.5]
    assert _in_dtype(numbers, np.dtype(np.float32)) == [np.inf, -np.inf, 3.4028234663852886e38, 0.5]
    assert _in_dtype([1e5, 2e5], np.dtype(np.float16)) == [np.inf]
