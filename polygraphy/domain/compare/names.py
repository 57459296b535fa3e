"""Every comparison function, and what it answers, by name: importing them all takes a while."""

from polygraphy.domain.compare import metrics
from polygraphy.domain.compare.function import BaseCompareFunc, PairwiseCompareFunc
from polygraphy.domain.compare.indices import IndicesCompareFunc, IndicesResult
from polygraphy.domain.compare.metric import DetailedResult, MetricResult, MetricThreshold
from polygraphy.domain.compare.metrics import *  # noqa: F403
from polygraphy.domain.compare.result import (
    ComparedTensor,
    CompareResult,
    OutputCompareResult,
    UncomparedResult,
)
from polygraphy.domain.compare.simple import SimpleCompareFunc
from polygraphy.domain.limits import Threshold
from polygraphy.domain.tensors.pickling import pickle_as

__all__ = [
    "BaseCompareFunc",
    "CompareResult",
    "ComparedTensor",
    "DetailedResult",
    "IndicesCompareFunc",
    "IndicesResult",
    "MetricResult",
    "MetricThreshold",
    "OutputCompareResult",
    "PairwiseCompareFunc",
    "SimpleCompareFunc",
    "UncomparedResult",
]
__all__ += metrics.__all__

for _each in tuple(globals().values()):
    if isinstance(_each, type) and issubclass(_each, (CompareResult, Threshold)):
        pickle_as("polygraphy.comparator.compare")(_each)
