"""Functions that compare the outputs of two runs, and what they answer."""

from polygraphy.domain.compare.function import BaseCompareFunc, PairwiseCompareFunc
from polygraphy.domain.compare.indices import IndicesCompareFunc, IndicesResult
from polygraphy.domain.compare.metric import MetricResult, MetricThreshold
from polygraphy.domain.compare.metric_functions import (
    CosineSimilarityCompareFunc,
    L2CompareFunc,
    NormalizedL2CompareFunc,
    PerceptualMetricsCompareFunc,
    PsnrCompareFunc,
    SnrCompareFunc,
    SqnrCompareFunc,
)
from polygraphy.domain.compare.metrics import (
    CosineSimilarityResult,
    CosineSimilarityThreshold,
    L2Result,
    L2Threshold,
    LpipsThreshold,
    NormalizedL2Result,
    NormalizedL2Threshold,
    PerceptualMetricsResult,
    PsnrResult,
    PsnrThreshold,
    SnrResult,
    SnrThreshold,
    SqnrResult,
    SqnrThreshold,
)
from polygraphy.domain.compare.result import (
    ComparedTensor,
    CompareResult,
    OutputCompareResult,
    UncomparedResult,
)
from polygraphy.domain.compare.simple import SimpleCompareFunc

__all__ = [
    "BaseCompareFunc",
    "CompareResult",
    "ComparedTensor",
    "CosineSimilarityCompareFunc",
    "CosineSimilarityResult",
    "CosineSimilarityThreshold",
    "IndicesCompareFunc",
    "IndicesResult",
    "L2CompareFunc",
    "L2Result",
    "L2Threshold",
    "LpipsThreshold",
    "MetricResult",
    "MetricThreshold",
    "NormalizedL2CompareFunc",
    "NormalizedL2Result",
    "NormalizedL2Threshold",
    "OutputCompareResult",
    "PairwiseCompareFunc",
    "PerceptualMetricsCompareFunc",
    "PerceptualMetricsResult",
    "PsnrCompareFunc",
    "PsnrResult",
    "PsnrThreshold",
    "SimpleCompareFunc",
    "SnrCompareFunc",
    "SnrResult",
    "SnrThreshold",
    "SqnrCompareFunc",
    "SqnrResult",
    "SqnrThreshold",
    "UncomparedResult",
]
