"""Running models in several backends, and comparing what comes out."""

from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.domain.catalog.metrics import METRICS
from polygraphy.mod.deferred import deferred_names

if TYPE_CHECKING:
    from polygraphy.application.compare.comparator import Comparator
    from polygraphy.application.compare.samples import Samples
    from polygraphy.application.run.unmarked import WithUnmarked
    from polygraphy.domain.accuracy.accuracy import AccuracyResult, AccuracyResults
    from polygraphy.domain.compare import (
        BaseCompareFunc,
        CompareResult,
        IndicesCompareFunc,
        IndicesResult,
        OutputCompareResult,
        PerceptualMetricsCompareFunc,
        SimpleCompareFunc,
        metrics,
    )
    from polygraphy.domain.compare.metrics import *  # noqa: F403
    from polygraphy.domain.data.loading import StreamingDataLoader
    from polygraphy.domain.data.synthesis import DataLoader
    from polygraphy.domain.limits import Threshold, Tolerance
    from polygraphy.domain.limits import Tolerance as SimpleThreshold
    from polygraphy.domain.results.postprocess import BasePostprocessFunc, TopKPostprocessFunc
    from polygraphy.domain.results.results import IterationResult, RunResults

__all__ = [
    "AccuracyResult",
    "AccuracyResults",
    "BaseCompareFunc",
    "BasePostprocessFunc",
    "Comparator",
    "CompareFunc",
    "CompareResult",
    "DataLoader",
    "IndicesCompareFunc",
    "IndicesResult",
    "IterationResult",
    "OutputCompareResult",
    "PostprocessFunc",
    "RunResults",
    "Samples",
    "SimpleCompareFunc",
    "SimpleThreshold",
    "StreamingDataLoader",
    "Threshold",
    "Tolerance",
    "TopKPostprocessFunc",
    "WithUnmarked",
]
if TYPE_CHECKING:
    __all__ += metrics.__all__
else:  # The same names, read where no NumPy is needed.
    __all__ += [name for metric in METRICS.values() for name in metric.published_names]
    __all__.sort()

_ELSEWHERE = {
    "AccuracyResult": "polygraphy.domain.accuracy.accuracy",
    "AccuracyResults": "polygraphy.domain.accuracy.accuracy",
    "BasePostprocessFunc": "polygraphy.domain.results.postprocess",
    "Comparator": "polygraphy.application.compare.comparator",
    "DataLoader": "polygraphy.domain.data.synthesis",
    "IterationResult": "polygraphy.domain.results.results",
    "RunResults": "polygraphy.domain.results.results",
    "Samples": "polygraphy.application.compare.samples",
    "StreamingDataLoader": "polygraphy.domain.data.loading",
    "SimpleThreshold": "polygraphy.domain.limits:Tolerance",
    "Threshold": "polygraphy.domain.limits",
    "Tolerance": "polygraphy.domain.limits",
    "TopKPostprocessFunc": "polygraphy.domain.results.postprocess",
    "WithUnmarked": "polygraphy.application.run.unmarked",
}

__getattr__ = deferred_names(
    globals(),
    {name: _ELSEWHERE.get(name, "polygraphy.domain.compare") for name in __all__},
    submodules=("comparator", "compare", "data_loader", "postprocess", "struct", "util"),
)


class CompareFunc:
    """The comparison functions under their old names, which warn."""

    @staticmethod
    @mod.deprecate("2.0", "SimpleCompareFunc", name="CompareFunc.simple")
    def simple(*args: Any, **kwargs: Any) -> "SimpleCompareFunc":
        """Return a `SimpleCompareFunc`, whose parameters these are."""
        from polygraphy.domain.compare import SimpleCompareFunc

        return SimpleCompareFunc(*args, **kwargs)

    @staticmethod
    @mod.deprecate("2.0", "SimpleCompareFunc", name="CompareFunc.basic_compare_func")
    def basic_compare_func(*args: Any, **kwargs: Any) -> "SimpleCompareFunc":
        """Return a `SimpleCompareFunc`, whose parameters these are."""
        from polygraphy.domain.compare import SimpleCompareFunc

        return SimpleCompareFunc(*args, **kwargs)

    @staticmethod
    @mod.deprecate("2.0", "IndicesCompareFunc", name="CompareFunc.indices")
    def indices(*args: Any, **kwargs: Any) -> "IndicesCompareFunc":
        """Return an `IndicesCompareFunc`, whose parameters these are."""
        from polygraphy.domain.compare import IndicesCompareFunc

        return IndicesCompareFunc(*args, **kwargs)

    @staticmethod
    @mod.deprecate("2.0", "PerceptualMetricsCompareFunc", name="CompareFunc.perceptual_metrics")
    def perceptual_metrics(*args: Any, **kwargs: Any) -> "PerceptualMetricsCompareFunc":
        """Return a `PerceptualMetricsCompareFunc`, whose parameters these are."""
        from polygraphy.domain.compare import PerceptualMetricsCompareFunc

        return PerceptualMetricsCompareFunc(*args, **kwargs)


class PostprocessFunc:
    """The post-processing functions under their old names, which warn."""

    @staticmethod
    @mod.deprecate("2.0", "TopKPostprocessFunc", name="PostprocessFunc.top_k")
    def top_k(*args: Any, **kwargs: Any) -> "TopKPostprocessFunc":
        """Return a `TopKPostprocessFunc`, whose parameters these are."""
        from polygraphy.domain.results.postprocess import TopKPostprocessFunc

        return TopKPostprocessFunc(*args, **kwargs)
