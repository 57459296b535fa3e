"""Which nodes compute something else."""

from __future__ import annotations

import numpy as np

from polygraphy.application.diagnose.locating import judged


def test_an_approximation_is_no_fault_where_one_element_is_all_that_is_large() -> None:
    """As an exponential in a Softmax over many classes."""
    right = np.full(6000, 1e-6, np.float32)
    right[7] = 0.98
    near, wrong = right.copy(), right.copy()
    near[7] += np.float32(2e-5)
    wrong[9] += np.float32(2e-5)
    assert judged(near, right, 0.0)[1] is False
    found, is_wrong = judged(wrong, right, 0.0)
    assert is_wrong
    assert found.where == (9,)
