"""Every threshold decides by the name under which programs give it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygraphy import comparator
from polygraphy.domain.results.results import IterationResult

ONE = IterationResult({"y": np.array([[1.0, 2.0, 4.0]]), "z": np.array([[1.0, np.inf, 4.0]])})
OTHER = IterationResult({"y": np.array([[1.0, 4.5, 4.0]]), "z": np.array([[1.0, 2.0, 4.0]])})


@pytest.mark.parametrize(
    ("function", "keyword", "strict", "loose"),
    [
        ("L2CompareFunc", "l2_threshold", 2.4, 2.6),
        ("NormalizedL2CompareFunc", "normalized_l2_threshold", 0.3, 0.6),
        ("CosineSimilarityCompareFunc", "cosine_similarity_threshold", 0.999, 0.5),
        ("PsnrCompareFunc", "psnr_threshold", 60, 1),
        ("SnrCompareFunc", "snr_threshold", 60, 1),
        ("SqnrCompareFunc", "sqnr_threshold", 60, 1),
        ("UlpCompareFunc", "ulp_threshold", 1, 1e18),
        ("BiasCompareFunc", "bias_threshold", 0.01, 1),
        ("ErrorDistributionCompareFunc", "error_distribution_threshold", 0.1, 3),
        ("TopKCompareFunc", "agreement_threshold", 1, 0),
        ("IndicesCompareFunc", "index_tolerance", 0, 1),
        ("SimpleCompareFunc", "atol", 2.4, 2.6),
        ("SimpleCompareFunc", "rtol", 0.5, 0.6),
    ],
)
@pytest.mark.parametrize("form", [lambda value: value, lambda value: {"y": value}])
def test_a_threshold_decides(
    function: str, keyword: str, strict: float, loose: float, form: Any
) -> None:
    kind = getattr(comparator, function)
    pair = [IterationResult({"y": each["y"]}) for each in (ONE, OTHER)]
    if function == "IndicesCompareFunc":
        pair = [IterationResult({"y": np.array([order])}) for order in ([0, 1, 2], [1, 0, 2])]
    assert [bool(kind(**{keyword: form(value)})(*pair)["y"]) for value in (strict, loose)] == [
        False,
        True,
    ]


@pytest.mark.parametrize(("allowed", "passes"), [(0, False), (1, True)])
def test_elements_that_are_not_finite_are_counted(allowed: int, passes: bool) -> None:
    pair = [IterationResult({"z": each["z"]}) for each in (ONE, OTHER)]
    function = comparator.NonFiniteCompareFunc(non_finite_threshold=allowed)
    assert bool(function(*pair)["z"]) is passes
