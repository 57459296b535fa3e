"""Run models in several backends, and compare the outputs."""

from typing import TYPE_CHECKING

from polygraphy.domain.catalog.metrics import METRICS
from polygraphy.mod.deferred import defer_names

if TYPE_CHECKING:
    from polygraphy.application.compare.comparator import Comparator
    from polygraphy.application.compare.samples import Samples
    from polygraphy.application.run.first_model import WithFirstModel
    from polygraphy.application.run.layerwise import WithUnmarked
    from polygraphy.application.run.profiling import ProfileNodes
    from polygraphy.domain.accuracy.accuracy import AccuracyResult, AccuracyResults
    from polygraphy.domain.compare import (
        BaseCompareFunc,
        CompareResult,
        IndicesCompareFunc,
        IndicesResult,
        OutputCompareResult,
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
    from polygraphy.domain.states.loading import StepLoader
    from polygraphy.legacy.compare_functions import CompareFunc, PostprocessFunc

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
    "ProfileNodes",
    "RunResults",
    "Samples",
    "SimpleCompareFunc",
    "SimpleThreshold",
    "StepLoader",
    "StreamingDataLoader",
    "Threshold",
    "Tolerance",
    "TopKPostprocessFunc",
    "WithFirstModel",
    "WithUnmarked",
]
if TYPE_CHECKING:
    __all__ += metrics.__all__
else:  # At run time, the same names are imported on first use, so that NumPy is not needed.
    __all__ += [name for metric in METRICS.values() for name in metric.published_names]
    __all__.sort()

_ELSEWHERE = {
    "AccuracyResult": "polygraphy.domain.accuracy.accuracy",
    "AccuracyResults": "polygraphy.domain.accuracy.accuracy",
    "BasePostprocessFunc": "polygraphy.domain.results.postprocess",
    "Comparator": "polygraphy.application.compare.comparator",
    "CompareFunc": "polygraphy.legacy.compare_functions",
    "DataLoader": "polygraphy.domain.data.synthesis",
    "IterationResult": "polygraphy.domain.results.results",
    "PostprocessFunc": "polygraphy.legacy.compare_functions",
    "ProfileNodes": "polygraphy.application.run.profiling",
    "RunResults": "polygraphy.domain.results.results",
    "Samples": "polygraphy.application.compare.samples",
    "StepLoader": "polygraphy.domain.states.loading",
    "StreamingDataLoader": "polygraphy.domain.data.loading",
    "SimpleThreshold": "polygraphy.domain.limits:Tolerance",
    "Threshold": "polygraphy.domain.limits",
    "Tolerance": "polygraphy.domain.limits",
    "TopKPostprocessFunc": "polygraphy.domain.results.postprocess",
    "WithFirstModel": "polygraphy.application.run.first_model",
    "WithUnmarked": "polygraphy.application.run.layerwise",
}

__getattr__ = defer_names(
    globals(),
    {name: _ELSEWHERE.get(name, "polygraphy.domain.compare") for name in __all__},
    submodules=("comparator", "compare", "data_loader", "postprocess", "struct", "util"),
)
