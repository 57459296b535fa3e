"""Running models in several backends, and comparing what comes out."""

from polygraphy.application.comparator import Comparator
from polygraphy.domain.accuracy import AccuracyResult, AccuracyResults
from polygraphy.domain.compare import (
    BaseCompareFunc,
    CompareResult,
    OutputCompareResult,
    SimpleCompareFunc,
)
from polygraphy.domain.loading import StreamingDataLoader
from polygraphy.domain.results import IterationResult, RunResults
from polygraphy.domain.synthesis import DataLoader
from polygraphy.domain.tolerance import Tolerance

__all__ = [
    "AccuracyResult",
    "AccuracyResults",
    "BaseCompareFunc",
    "Comparator",
    "CompareFunc",
    "CompareResult",
    "DataLoader",
    "IterationResult",
    "OutputCompareResult",
    "RunResults",
    "SimpleCompareFunc",
    "SimpleThreshold",
    "StreamingDataLoader",
    "Tolerance",
]

SimpleThreshold = Tolerance


class CompareFunc:
    """The comparison functions under their old names."""

    simple = SimpleCompareFunc
