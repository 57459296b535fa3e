"""Functions that compare the outputs of two runs, and what they answer."""

from polygraphy.domain.compare.result import (
    ComparedTensor,
    CompareResult,
    OutputCompareResult,
    UncomparedResult,
)
from polygraphy.domain.compare.simple import BaseCompareFunc, SimpleCompareFunc

__all__ = [
    "BaseCompareFunc",
    "CompareResult",
    "ComparedTensor",
    "OutputCompareResult",
    "SimpleCompareFunc",
    "UncomparedResult",
]
