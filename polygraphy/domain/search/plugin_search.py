"""Searches for replacements that make a model faster, based on measured latencies."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

Choice = tuple[int, ...]
"""Positions of the chosen replacements, in order."""

_NOISE = 0.01
"""Latencies that differ by no more than this share of the larger one are taken for the same."""


@frozen
class Cost:
    """The latency and memory of one inference.

    Attributes:
        latency: in seconds.
        memory: bytes for intermediate tensors; None if unknown.
    """

    latency: float
    memory: int | None = None

    @property
    def throughput(self) -> float:
        """Return inferences per second, run one at a time."""
        return 1 / self.latency if self.latency else float("inf")

    def is_below(self, cost: Cost) -> bool:
        """Return whether this cost is lower: in latency or, on a tie, in memory."""
        if abs(self.latency - cost.latency) > _NOISE * max(self.latency, cost.latency):
            return self.latency < cost.latency
        return self.memory is not None and cost.memory is not None and self.memory < cost.memory


@frozen
class SearchResult:
    """The best choice of replacements that a search found, with its cost.

    Attributes:
        chosen: the best choice; empty if no replacement is better than none.
        cost: the cost of that choice.
        tried: the number of choices that were tried.
    """

    chosen: Choice
    cost: Cost
    tried: int = 0


Measure = Callable[[Choice], "Cost | None"]
"""Returns what a choice costs; None for one that does not work."""


def greedy_search(count: int, baseline: Cost, measure: Measure) -> SearchResult:
    """Return the best combination found by adding one replacement at a time, if it lowers the cost.

    Args:
        count: number of replacements.
        baseline: the cost without any.
        measure: returns the cost of a choice; called once for each.
    """
    best = SearchResult((), baseline)
    for position in range(count):
        chosen = (*best.chosen, position)
        cost = measure(chosen)
        is_better = cost is not None and cost.is_below(best.cost)
        kept_pairs = (chosen, cost) if is_better and cost is not None else (best.chosen, best.cost)
        best = SearchResult(*kept_pairs, tried=position + 1)
    return best


def exhaustive_search(
    count: int, baseline: Cost, measure: Measure, *, most: int, enough: float
) -> SearchResult:
    """Return the best of all combinations, tested starting with the first replacements.

    Args:
        count: number of replacements.
        baseline: the cost without any.
        measure: returns the cost of a choice; called once for each.
        most: the maximum number of combinations to try.
        enough: the search ends when the latency is lower than the baseline by more than this share
            of it.
    """
    best = SearchResult((), baseline)
    for bits in range(1, min(1 << count, most + 1)):
        chosen = tuple(position for position in range(count) if bits >> position & 1)
        cost = measure(chosen)
        if cost is not None and cost.is_below(best.cost):
            best = SearchResult(chosen, cost)
        best = SearchResult(best.chosen, best.cost, tried=bits)
        if baseline.latency - best.cost.latency > enough * baseline.latency:
            break
    return best
