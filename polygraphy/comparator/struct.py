"""Results of runs and comparisons, by runner, iteration and output.

Pickles name these classes by this module, as NVIDIA's do.
"""

from typing import Any

from polygraphy.comparator import AccuracyResult, AccuracyResults, IterationResult, RunResults
from polygraphy.domain.results.results import Part
from polygraphy.domain.tensors.facts import DeferredFacts, InputHint, ModelFacts

__all__ = [
    "AccuracyResult",
    "AccuracyResults",
    "DeferredFacts",
    "InputHint",
    "IterationResult",
    "LazyArray",
    "ModelFacts",
    "Part",
    "RunResults",
]


class LazyArray:
    """A wrapper with a method `load` that returns its array, which is in memory."""

    def __init__(self, arr: Any) -> None:
        """Set the array."""
        self.arr = arr

    def load(self) -> Any:
        """Return the array."""
        return self.arr
