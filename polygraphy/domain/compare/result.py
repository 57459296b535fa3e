"""What a comparison function answers about one output."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import inf, isnan
from typing import Any

import numpy as np
from attrs import fields, frozen

from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.pickling import pickled_as


@pickled_as("polygraphy.comparator.compare")
@frozen
class ComparedTensor:
    """One side of a comparison, for the record."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @staticmethod
    def of(name: str, array: np.ndarray[Any, Any]) -> ComparedTensor:
        """Describe an array."""
        return _described(name, array.dtype, array.shape)

    def __str__(self) -> str:
        return f"{self.name!r} (dtype={self.dtype}, shape={self.shape})"


@lru_cache(maxsize=1024)
def _described(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> ComparedTensor:
    """Describe a tensor; those of many iterations share one description."""
    return ComparedTensor(name, str(dtype), shape)


@pickled_as("polygraphy.comparator.compare")
class CompareResult:
    """The answer about one output: truthy when it passed.

    Attributes:
        thresholds: what the output was held to.
        tensor0: the output of the first run, for the record; None when the result was loaded.
        tensor1: the output of the second run.
    """

    def __init__(self, thresholds: Any = None) -> None:
        self.thresholds = thresholds
        self.tensor0: ComparedTensor | None = None
        self.tensor1: ComparedTensor | None = None

    @property
    def output0_name(self) -> str | None:
        """Name of the output in the first run."""
        return self.tensor0.name if self.tensor0 else None

    @property
    def output1_name(self) -> str | None:
        """Name of the output in the second run."""
        return self.tensor1.name if self.tensor1 else None

    def set_thresholds(self, thresholds: Any) -> None:
        """Hold the same metrics to other thresholds."""
        self.thresholds = thresholds

    @property
    def excess(self) -> float | None:
        """How many times what is tolerated is needed; at most 1 when the output passed, infinite
        when nothing would do; None when there is no telling.
        """
        return None

    def metric_fields(self) -> tuple[str, ...]:
        """Name the metrics."""
        return ()

    def metric_values(self) -> dict[str, float | None]:
        """Return the metrics by name; None where one was not computed."""
        return {}

    @property
    def is_in_decibels(self) -> bool:
        """Whether the metrics are ratios of a signal to its noise, in decibels."""
        return False

    def with_metrics(self, values: Mapping[str, float | None]) -> CompareResult:
        """Return a result of the same kind with other metrics, held to the same thresholds.

        Raises:
            UsageError: there are no metrics that tell.
        """
        raise UsageError(f"A {type(self).__name__} has no metrics that could be averaged.")

    def describe(self) -> tuple[str, bool] | None:
        """Return the verdict in a line, and whether it passed; None where a line cannot tell."""
        if self.thresholds is None:
            return None
        described: tuple[str, bool] | None = self.thresholds.describe(self.metric_values())
        return described

    @property
    def nbytes(self) -> int:
        """How many bytes the arrays take that are behind the result."""
        return 0

    def own_arrays(self) -> None:
        """Go on with copies of the arrays that are behind the result, so that those may change."""

    def settle(self) -> None:
        """Compute what the result promises and let go of the arrays behind it."""

    def __bool__(self) -> bool:
        raise NotImplementedError

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what a pickle says; NVIDIA's has the metrics as attributes, and names of outputs."""
        if "output0_name" not in state:
            vars(self).update(state)
            return
        thresholds = state["thresholds"]
        if thresholds is not None:  # Made again, with what theirs do not have.
            names = [each.name for each in fields(type(thresholds)) if each.name != "reason"]
            thresholds = type(thresholds)(*(getattr(thresholds, name) for name in names))
        type(self).__init__(self, thresholds=thresholds)
        self._take_their_metrics(state)
        sides = [state["output0_name"], state["output1_name"]]
        self.tensor0, self.tensor1 = (ComparedTensor(name, "?", ()) for name in sides)

    def _take_their_metrics(self, state: dict[str, Any]) -> None:
        """Take the metrics from the state of one of NVIDIA's pickles."""

    def __eq__(self, other: object) -> bool:
        """Compare with a verdict: what passed equals True, what failed False."""
        if isinstance(other, (bool, np.bool_)):
            return bool(self) == bool(other)
        return NotImplemented

    __hash__ = object.__hash__


@pickled_as("polygraphy.comparator.compare")
class UncomparedResult(CompareResult):
    """A failure without metrics: the output is missing on one side, or the shapes differ.

    Attributes:
        reason: what was found and what was expected, in a sentence.
        is_missing: whether one side does not have the output at all.
    """

    def __init__(self, reason: str, *, is_missing: bool = False) -> None:
        super().__init__()
        self.reason = reason
        self.is_missing = is_missing

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"UncomparedResult({self.reason!r})"


def excess_ratio(needed: float | None, allowed: float) -> float:
    """Return `needed` as a multiple of what is `allowed`."""
    if needed is None or isnan(needed):
        return inf
    if allowed == 0:
        return inf if needed > 0 else 0.0
    return needed / allowed
