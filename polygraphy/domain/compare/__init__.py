"""Functions that compare the outputs of two runs, and what they answer."""

from polygraphy.domain.compare.detailed import (
    BiasResult,
    BiasThreshold,
    DetailedResult,
    ErrorDistributionResult,
    ErrorDistributionThreshold,
    NonFiniteResult,
    NonFiniteThreshold,
    TopKResult,
    TopKThreshold,
    UlpResult,
    UlpThreshold,
)
from polygraphy.domain.compare.detailed_functions import (
    BiasCompareFunc,
    ErrorDistributionCompareFunc,
    NonFiniteCompareFunc,
    TopKCompareFunc,
    UlpCompareFunc,
)
from polygraphy.domain.compare.differences import OutputCompareResult
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
from polygraphy.domain.compare.result import ComparedTensor, CompareResult, UncomparedResult
from polygraphy.domain.compare.simple import SimpleCompareFunc
from polygraphy.domain.limits.threshold import Threshold
from polygraphy.domain.tensors.pickling import pickled_as

__all__ = [
    "BaseCompareFunc",
    "BiasCompareFunc",
    "BiasResult",
    "BiasThreshold",
    "CompareResult",
    "ComparedTensor",
    "CosineSimilarityCompareFunc",
    "CosineSimilarityResult",
    "CosineSimilarityThreshold",
    "DetailedResult",
    "ErrorDistributionCompareFunc",
    "ErrorDistributionResult",
    "ErrorDistributionThreshold",
    "IndicesCompareFunc",
    "IndicesResult",
    "L2CompareFunc",
    "L2Result",
    "L2Threshold",
    "LpipsThreshold",
    "MetricResult",
    "MetricThreshold",
    "NonFiniteCompareFunc",
    "NonFiniteResult",
    "NonFiniteThreshold",
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
    "TopKCompareFunc",
    "TopKResult",
    "TopKThreshold",
    "UlpCompareFunc",
    "UlpResult",
    "UlpThreshold",
    "UncomparedResult",
]

for _each in tuple(globals().values()):
    if isinstance(_each, type) and issubclass(_each, (CompareResult, Threshold)):
        pickled_as("polygraphy.comparator.compare")(_each)
