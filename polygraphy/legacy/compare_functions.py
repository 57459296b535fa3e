"""Comparison functions under the names that they had before 2.0, which warn."""

from __future__ import annotations

from typing import Any

from polygraphy import mod
from polygraphy.domain.compare import (
    IndicesCompareFunc,
    PerceptualMetricsCompareFunc,
    SimpleCompareFunc,
)
from polygraphy.domain.results.postprocess import TopKPostprocessFunc

__all__ = ["CompareFunc", "PostprocessFunc"]


class CompareFunc:
    """The comparison functions under their old names, which warn."""

    @staticmethod
    @mod.deprecate("2.0", "SimpleCompareFunc", name="CompareFunc.simple")
    def simple(*args: Any, **kwargs: Any) -> SimpleCompareFunc:
        """Return a `SimpleCompareFunc` with these parameters."""
        return SimpleCompareFunc(*args, **kwargs)

    @staticmethod
    @mod.deprecate("2.0", "SimpleCompareFunc", name="CompareFunc.basic_compare_func")
    def basic_compare_func(*args: Any, **kwargs: Any) -> SimpleCompareFunc:
        """Return a `SimpleCompareFunc` with these parameters."""
        return SimpleCompareFunc(*args, **kwargs)

    @staticmethod
    @mod.deprecate("2.0", "IndicesCompareFunc", name="CompareFunc.indices")
    def indices(*args: Any, **kwargs: Any) -> IndicesCompareFunc:
        """Return an `IndicesCompareFunc` with these parameters."""
        return IndicesCompareFunc(*args, **kwargs)

    @staticmethod
    @mod.deprecate("2.0", "PerceptualMetricsCompareFunc", name="CompareFunc.perceptual_metrics")
    def perceptual_metrics(*args: Any, **kwargs: Any) -> PerceptualMetricsCompareFunc:
        """Return a `PerceptualMetricsCompareFunc` with these parameters."""
        return PerceptualMetricsCompareFunc(*args, **kwargs)


class PostprocessFunc:
    """The post-processing functions under their old names, which warn."""

    @staticmethod
    @mod.deprecate("2.0", "TopKPostprocessFunc", name="PostprocessFunc.top_k")
    def top_k(*args: Any, **kwargs: Any) -> TopKPostprocessFunc:
        """Return a `TopKPostprocessFunc` with these parameters."""
        return TopKPostprocessFunc(*args, **kwargs)
