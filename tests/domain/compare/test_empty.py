"""Outputs without elements are equal to each other by every function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygraphy.domain import compare
from polygraphy.domain.compare import PairwiseCompareFunc, UncomparedResult
from polygraphy.domain.results.results import IterationResult

FUNCTIONS = sorted(
    (
        kind
        for name, kind in vars(compare).items()
        if name.endswith("CompareFunc")
        and isinstance(kind, type)
        and issubclass(kind, PairwiseCompareFunc)
        and kind is not PairwiseCompareFunc
        and name != "PerceptualMetricsCompareFunc"  # It is of images, and needs a backend.
    ),
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), (0, 3)])
@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.uint8, np.complex64, np.bool_])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_outputs_without_elements_do_not_differ(
    function: type[PairwiseCompareFunc], dtype: Any, shape: tuple[int, ...]
) -> None:
    empty = IterationResult({"y": np.zeros(shape, dtype)})
    made: Any = function()
    answer = made(empty, empty)["y"]
    assert answer or (isinstance(answer, UncomparedResult) and answer.reason)
    assert repr(answer)
