"""Running models in several backends, and comparing what comes out."""

from polygraphy.application.comparator import Comparator
from polygraphy.domain.accuracy import AccuracyResult, AccuracyResults
from polygraphy.domain.compare import (
    BaseCompareFunc,
    CompareResult,
    CosineSimilarityCompareFunc,
    CosineSimilarityResult,
    CosineSimilarityThreshold,
    IndicesCompareFunc,
    IndicesResult,
    L2CompareFunc,
    L2Result,
    L2Threshold,
    LpipsThreshold,
    NormalizedL2CompareFunc,
    NormalizedL2Result,
    NormalizedL2Threshold,
    OutputCompareResult,
    PerceptualMetricsCompareFunc,
    PerceptualMetricsResult,
    PsnrCompareFunc,
    PsnrResult,
    PsnrThreshold,
    SimpleCompareFunc,
    SnrCompareFunc,
    SnrResult,
    SnrThreshold,
    SqnrCompareFunc,
    SqnrResult,
    SqnrThreshold,
)
from polygraphy.domain.loading import StreamingDataLoader
from polygraphy.domain.postprocess import BasePostprocessFunc, TopKPostprocessFunc
from polygraphy.domain.results import IterationResult, RunResults
from polygraphy.domain.synthesis import DataLoader
from polygraphy.domain.tolerance import Tolerance

__all__ = [
    "AccuracyResult",
    "AccuracyResults",
    "BaseCompareFunc",
    "BasePostprocessFunc",
    "Comparator",
    "CompareFunc",
    "CompareResult",
    "CosineSimilarityCompareFunc",
    "CosineSimilarityResult",
    "CosineSimilarityThreshold",
    "DataLoader",
    "IndicesCompareFunc",
    "IndicesResult",
    "IterationResult",
    "L2CompareFunc",
    "L2Result",
    "L2Threshold",
    "LpipsThreshold",
    "NormalizedL2CompareFunc",
    "NormalizedL2Result",
    "NormalizedL2Threshold",
    "OutputCompareResult",
    "PerceptualMetricsCompareFunc",
    "PerceptualMetricsResult",
    "PostprocessFunc",
    "PsnrCompareFunc",
    "PsnrResult",
    "PsnrThreshold",
    "RunResults",
    "SimpleCompareFunc",
    "SimpleThreshold",
    "SnrCompareFunc",
    "SnrResult",
    "SnrThreshold",
    "SqnrCompareFunc",
    "SqnrResult",
    "SqnrThreshold",
    "StreamingDataLoader",
    "Tolerance",
    "TopKPostprocessFunc",
]

SimpleThreshold = Tolerance


class CompareFunc:
    """The comparison functions under their old names."""

    simple = SimpleCompareFunc
    indices = IndicesCompareFunc
    perceptual_metrics = PerceptualMetricsCompareFunc


class PostprocessFunc:
    """The post-processing functions under their old names."""

    top_k = TopKPostprocessFunc
