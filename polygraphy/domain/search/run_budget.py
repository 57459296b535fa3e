"""How many runs of a model a search may take. That follows from the size of the model, and not from
a clock, so that a busy machine gives the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from typing import TypeVar

import numpy as np
from attrs import define

_BYTES = 8 << 30
"""Bytes of tensors that all runs of a search compute together: a few seconds of two cores."""
_LOADED_BYTES = 4 << 30
"""Bytes of weights that all runs of a search load: half a minute of one core, at eight seconds a
GiB to write, load and run them.
"""
_FEWEST_LOADS = 12
"""The fewest runs of a model, however large its weights are."""
_NODES = 200_000
"""Nodes that all runs of a search load and compute together: about ten seconds of one core, at
50 microseconds a node.
"""
_MODEL_RUNS = (64, 8192)
"""The fewest and the most runs of a whole model, each of which is loaded again."""
_PART_RUNS = (64, 768)
"""The fewest and the most runs of a part of a model."""
_FEW_NODES = 16
"""A part with more nodes gets fewer runs, because each computes all of them."""

T = TypeVar("T")


@define
class RunBudget:
    """The number of runs that a search may use, and has used.

    Attributes:
        runs: the limit.
        taken: the number of runs taken.
        is_cut_short: whether the search needed more.
        reserved: the number of runs reserved for other candidates.
    """

    runs: float = inf
    taken: int = 0
    is_cut_short: bool = False
    reserved: int = 0

    @classmethod
    def for_bytes(cls, nbytes: int, fewest: int, most: int) -> RunBudget:
        """Return the budget for runs that compute `nbytes` of tensors."""
        return cls(int(np.clip(_BYTES // max(nbytes, 1), fewest, most)))

    @classmethod
    def for_loads(cls, nbytes: int, weights: int, fewest: int, most: int) -> RunBudget:
        """Return the budget for runs that each compute `nbytes` of tensors and load `weights` bytes
        of weights."""
        loads = max(_LOADED_BYTES // max(weights, 1), _FEWEST_LOADS)
        return cls(min(cls.for_bytes(nbytes, fewest, most).runs, loads))

    @classmethod
    def for_part(cls, nbytes: int, nodes: int) -> RunBudget:
        """Return the budget for runs of a part of a model,
        by the size of its tensors and its number of nodes.
        """
        fewest, most = _PART_RUNS
        return cls.for_bytes(
            nbytes, fewest, max(most * _FEW_NODES // max(nodes, _FEW_NODES), fewest)
        )

    @classmethod
    def for_model(
        cls, nbytes: int, nodes: int, fewest: int = _MODEL_RUNS[0], most: int = _MODEL_RUNS[1]
    ) -> RunBudget:
        """Return the budget for runs of a model, by the size of its tensors and its number of
        nodes.
        """
        return cls.for_bytes(nbytes, fewest, int(np.clip(_NODES // max(nodes, 1), fewest, most)))

    @property
    def is_spent(self) -> bool:
        """Return whether no further run is allowed."""
        return self.taken >= self.runs - self.reserved

    def take(self, candidates: Iterable[T]) -> Iterator[T]:
        """Yield candidates until the budget is spent; each counts as one run."""
        for candidate in candidates:
            if self.is_spent:
                self.is_cut_short = True
                return
            self.taken += 1
            yield candidate
