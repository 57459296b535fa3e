"""Finds the fewest nodes that must stay in floating point.

Losses of independent sites add up as squares, roughly: what each site loses by itself predicts what
is left without a set of nodes. The prediction only decides which sets are tried first; a set counts
because it was run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import combinations, islice
from math import comb, inf

from attrs import field, frozen

from polygraphy.domain.quantization.rules import Rules

_ENUMERATED = 60_000
"""Up to so many sets of a size are all predicted; of more, sets grow from the best smaller ones."""
_BEAM = 400
"""So many sets of a size are kept where they grow."""
_SHARE = 0.5
"""The share of the remaining runs that sets of one size may take."""
_HOPELESS = 4.0
"""A set that is predicted to be so many times above the target is not tried."""


class OutOfRunsError(Exception):
    """There are no runs left."""


@frozen
class Search:
    """What a search came to.

    Attributes:
        kept: the nodes that stay in floating point; None if no set was enough.
        value: what is left with them.
        runs: how many sets were run.
        proven: the largest size of which every set was tried, and none was enough.
        curve: by the number of nodes, the best set of that size that was run, and what is left.
        is_cut_short: whether the runs or the time were over.
    """

    kept: Sequence[str] | None
    value: float
    runs: int
    proven: int = 0
    curve: dict[int, tuple[Sequence[str], float]] = field(factory=dict)
    is_cut_short: bool = False


class SetSearch:
    """A search for the fewest nodes.

    Args:
        rules: what is quantized without some nodes.
        measure: runs the model with some sites quantized, and returns the metric.
        predict: returns what some sites are expected to lose, as the square.
        target: what may be left.
        most: how many sets may be run.
        is_over: whether the time is over.
    """

    def __init__(
        self,
        rules: Rules,
        measure: Callable[[Collection[int]], float],
        predict: Callable[[Collection[int]], float],
        target: float,
        most: int,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._rules, self._measure, self._predict = rules, measure, predict
        self._target, self._most, self._is_over = target, most, is_over
        self._known: dict[frozenset[int], float] = {}
        self._quantized: dict[frozenset[str], frozenset[int]] = {}
        self._predicted: dict[frozenset[int], float] = {}
        self._curve: dict[int, tuple[Sequence[str], float]] = {}
        self.runs = 0

    def left(self, without: Iterable[str]) -> float:
        """Run the model without quantizing some nodes, and return the remaining loss.

        Raises:
            OutOfRunsError: there are no runs left.
        """
        names = frozenset(without)
        sites = self.sites(names)
        if sites not in self._known:
            if self.runs >= self._most or self._is_over():
                raise OutOfRunsError
            self.runs += 1
            self._known[sites] = self._measure(sites)
        value = self._known[sites]
        if len(names) not in self._curve or value < self._curve[len(names)][1]:
            self._curve[len(names)] = [name for name in self._order if name in names], value
        return value

    def sites(self, without: frozenset[str]) -> frozenset[int]:
        """Return the sites that remain without some nodes."""
        if without not in self._quantized:
            self._quantized[without] = frozenset(self._rules.quantized(without))
        return self._quantized[without]

    @property
    def _order(self) -> list[str]:
        """The candidates in the order in which they are tried."""
        return self._rules.candidates

    def predict(self, without: frozenset[str]) -> float:
        """Return the predicted square of the remaining loss."""
        sites = self.sites(without)
        if sites not in self._predicted:
            self._predicted[sites] = self._predict(sites)
        return self._predicted[sites]

    def result(self) -> Search:
        """Run the search and return its result."""
        kept: Sequence[str] | None = None
        value, proven, is_cut_short = inf, 0, False
        try:
            value = self.left(())
            if value <= self._target:
                return Search([], value, self.runs, curve=self._curve)
            names = self._order
            for size in range(1, len(names) + 1):
                found, is_complete = self._search_size(size)
                if found is not None:
                    kept = self._smaller(found)
                    break
                if is_complete and proven == size - 1:
                    proven = size
        except OutOfRunsError:
            is_cut_short = True
        best = min(self._good(), key=lambda pair: len(pair[0]), default=None)
        if best is not None and (kept is None or len(best[0]) < len(kept)):
            kept, value = best
        if kept is not None:
            proven = self._proven(len(kept), proven)
            value = self._known[self.sites(frozenset(kept))]
        return Search(kept, value, self.runs, proven, self._curve, is_cut_short)

    def _good(self) -> Iterator[tuple[Sequence[str], float]]:
        """Return an iterator over the sets that reach the target, with their metric."""
        return ((names, value) for names, value in self._curve.values() if value <= self._target)

    def _proven(self, size: int, proven: int) -> int:
        """Try the remaining smaller sets if enough runs are left; return the proven size."""
        names = self._order
        try:
            while proven < size - 1:
                sets = [frozenset(one) for one in combinations(names, proven + 1)]
                unknown = {self.sites(one) for one in sets} - self._known.keys()
                if len(unknown) > self._most - self.runs:
                    break
                if any(self.left(one) <= self._target for one in sets):
                    break
                proven += 1
        except OutOfRunsError:
            pass
        return proven

    def _search_size(self, size: int) -> tuple[Sequence[str] | None, bool]:
        """Return a set of a size that is enough, and whether all sets of that size were tried."""
        ranked, is_all = self._rank_sets(size)
        allowed = max(4, int(_SHARE * (self._most - self.runs)))
        distinct = {self.sites(one) for _, one in ranked}
        is_complete = is_all and len(distinct) <= allowed and size <= 2
        tried = self.runs
        for power, names in ranked:
            is_hopeless = power > _HOPELESS * self._target_power
            if not is_complete and (is_hopeless or self.runs - tried >= allowed):
                break
            if self.left(names) <= self._target:
                return [name for name in self._order if name in names], False
        return None, is_complete

    @property
    def _target_power(self) -> float:
        """Return the predicted loss at the target, from the sum of losses of all sites."""
        everything = self._known[self.sites(frozenset())]
        predicted = self.predict(frozenset())
        if not 0 < everything < inf or self._target <= 0:
            return inf
        return max(predicted * (self._target / everything) ** 2, self._target**2)

    def _rank_sets(self, size: int) -> tuple[list[tuple[float, frozenset[str]]], bool]:
        """Return sets of a size sorted by predicted loss, and whether these are all."""
        names = self._order
        if comb(len(names), size) <= _ENUMERATED:
            sets = {frozenset(one) for one in combinations(names, size)}
            is_all = True
        else:
            sets, is_all = self._grow_sets(size), False
        ranked = sorted(
            ((self.predict(one), one) for one in sets),
            key=lambda pair: (pair[0], sorted(pair[1])),
        )
        return ranked, is_all

    def _grow_sets(self, size: int) -> set[frozenset[str]]:
        """Return sets of some size that grow from nodes and groups around a site."""
        groups = [frozenset([name]) for name in self._order]
        for number in range(len(self._rules.sites)):
            askers = frozenset(self._rules.askers(number))
            if 1 < len(askers) <= min(size, 6):
                groups.append(askers)
        groups = [*dict.fromkeys(groups)]
        level: dict[int, list[frozenset[str]]] = {0: [frozenset()]}
        for count in range(1, size + 1):
            made = {
                base | group
                for group in groups
                for before in range(max(0, count - 6), count)
                for base in level.get(before, ())
                if len(base | group) == count
            }
            level[count] = [*islice(sorted(made, key=self.predict), _BEAM)]
        return set(level[size])

    def _smaller(self, names: Sequence[str]) -> Sequence[str]:
        """Return a set without nodes that it does not need."""
        kept = list(names)
        for name in names:
            rest = [one for one in kept if one != name]
            if rest and self.left(rest) <= self._target:
                kept = rest
        return kept


def curve_at(search: Search, sizes: Sequence[int]) -> list[tuple[int, float]]:
    """Return, by size, the loss of the best set that was run."""
    made: list[tuple[int, float]] = []
    for size in sizes:
        values = [value for count, (_, value) in search.curve.items() if count <= size]
        if values and max(search.curve) >= size:
            made.append((size, min(values)))
    return made
