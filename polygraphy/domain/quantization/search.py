"""Finds the fewest nodes that must stay in floating point.

Losses of independent sites add up as squares, roughly: what each site loses by itself predicts what
is left without a set of nodes. The prediction only decides which sets are tried first; a set counts
because it was run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import combinations
from math import comb, inf

from attrs import field, frozen

from polygraphy.domain.quantization.powers import POWER_UNIT, PowerSum
from polygraphy.domain.quantization.rules import Rules
from polygraphy.domain.quantization.site_requests import numbers_of

_ENUMERATED = 20_000
"""Up to this number of sets of a size, all are predicted; beyond, sets grow from the best smaller
ones."""
_BEAM, _LEAST_BEAM, _GROWN = 400, 16, 12_000
"""Most and least sets of a size that are kept while sets grow: fewer if there are many nodes, so
that about `_GROWN` sets are predicted."""
_MANY, _PROBED = 40, (1.0, 0.5, 0.25, 0.1)
"""From this number of nodes on, sets that should be enough are run first: those with a predicted
loss of these shares of the target.
"""
_SHARE = 0.5
"""The share of the remaining runs that sets of one size may take. Chosen, not measured."""
_HOPELESS = 4.0
"""A set is not tried if its predicted error is this multiple of the target. Chosen, not measured.
"""
_PREDICTIONS = 1500
"""Sets that are predicted for each set that may be run: some seconds for 200 runs."""
_GREEDY = 2.0
"""Other sets of a size may be predicted to be better than one that grew node by node by at most
this factor. Chosen, not measured."""


class OutOfRunsError(Exception):
    """Raised if no runs are left."""


@frozen
class Search:
    """The result of a search.

    Attributes:
        kept: the nodes that stay in floating point; None if no set was enough.
        value: the remaining loss with them.
        runs: the number of sets that were run.
        proven: the largest size of which every set was tried, and none was sufficient.
        curve: by number of nodes, the best set of that size that was run, and the remaining loss.
        is_cut_short: whether the search ended because the runs or the time were used up.
    """

    kept: Sequence[str] | None
    value: float
    runs: int
    proven: int = 0
    curve: dict[int, tuple[Sequence[str], float]] = field(factory=dict)
    is_cut_short: bool = False


class SetSearch:
    """Searches for the fewest nodes to keep in floating point.

    Args:
        rules: the rules that determine which sites are quantized without some nodes.
        measure: runs the model with some sites quantized, and returns the metric.
        powers: predicts the squared loss of sites.
        target: the largest acceptable remaining loss.
        most: the largest number of sets to run.
        is_over: returns whether the time is used up.
    """

    def __init__(
        self,
        rules: Rules,
        measure: Callable[[Collection[int]], float],
        powers: PowerSum,
        target: float,
        most: int,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Set the rules, the measurement, the powers, the target and the limits of the search."""
        self._rules, self._measure, self._powers = rules, measure, powers
        self._target, self._most, self._is_over = target, most, is_over
        self._names = [*dict.fromkeys(rules.candidates)]
        self._bits = [rules.site_requests.nodes([name]) for name in self._names]
        self._known: dict[int, float] = {}
        self._quantized: dict[int, int] = {}
        self._predicted: dict[int, int] = {}
        self._reach: dict[int, int] = {0: 0}
        self._levels: dict[int, list[int]] = {0: [0]}
        self._curve: dict[int, tuple[Sequence[str], float]] = {}
        self.runs = 0

    def remaining_loss(self, without: int) -> float:
        """Run the model without quantizing some nodes (a bit mask), and return the remaining loss.

        Raises:
            OutOfRunsError: there are no runs left.
        """
        sites = self.sites(without)
        if sites not in self._known:
            self._check_time()
            if self.runs >= self._most:
                raise OutOfRunsError
            self.runs += 1
            self._known[sites] = self._measure([*numbers_of(sites)])
        value = self._known[sites]
        size = without.bit_count()
        if size not in self._curve or value < self._curve[size][1]:
            self._curve[size] = self._node_names(without), value
        return value

    def sites(self, without: int) -> int:
        """Return the sites that remain quantized without some nodes; both as bits."""
        if without not in self._quantized:
            self._quantized[without] = self._rules.site_requests.remaining(without)
        return self._quantized[without]

    def _node_names(self, without: int) -> list[str]:
        """Return the names of the nodes in a bit mask, in the order of the candidates."""
        return [name for name, bit in zip(self._names, self._bits) if bit & without]

    def _check_time(self) -> None:
        """Raise OutOfRunsError if the time or the predictions are used up."""
        if self._is_over() or len(self._predicted) > _PREDICTIONS * self._most:
            raise OutOfRunsError

    def predict(self, without: int) -> float:
        """Return the predicted square of the loss that remains without quantizing some nodes (a bit
        mask)."""
        return self._power_in_units(without, 0) / POWER_UNIT

    def _power_in_units(self, base: int, added: int) -> int:
        """Return the predicted square of the loss that remains without two sets of nodes, in
        multiples of 1 / `POWER_UNIT`.

        Args:
            base: nodes, whose prediction other sets share.
            added: other nodes.
        """
        without = base | added
        power = self._predicted.get(without)
        if power is None:
            if base and added and not self._affected_sites(base) & self._affected_sites(added):
                power = self._power_in_units(base, 0) + self._power_in_units(added, 0)
                power -= self._power_in_units(0, 0)
            else:
                requests = self._rules.site_requests
                power = self._powers.power_in_units(
                    requests.remaining(without, base if added else 0)
                )
            self._predicted[without] = power
        return power

    def _affected_sites(self, nodes: int) -> int:
        """Return the nodes and sites that excluding some nodes affects, as bits."""
        if nodes not in self._reach:
            self._reach[nodes] = self._rules.site_requests.reach(nodes, self._powers.linked)
        return self._reach[nodes]

    def result(self) -> Search:
        """Run the search and return its result."""
        kept_names: Sequence[str] | None = None
        value, proven, is_cut_short = inf, 0, False
        try:
            value = self.remaining_loss(0)
            if value <= self._target:
                return Search([], value, self.runs, curve=self._curve)
            most = self._upper_bound()
            for size in range(1, most):
                if size < len(self._path) and self._is_hopeless(self._path[size], _GREEDY):
                    continue
                smallest, is_complete = self._search_size(size)
                if smallest is not None:
                    kept_names = self._node_names(self._smaller_set(smallest))
                    break
                if is_complete and proven == size - 1:
                    proven = size
            else:
                if most < len(self._path):
                    kept_names = self._node_names(self._smaller_set(self._path[most]))
        except OutOfRunsError:
            is_cut_short = True
        kept_names = self._smallest_good(kept_names)
        if kept_names is not None:
            proven = self._prove_size(len(kept_names), proven)
            # Despite the prediction, a smaller set may be sufficient.
            kept_names = self._smallest_good(kept_names) or kept_names
            value = self._known[self.sites(self._rules.site_requests.nodes(kept_names))]
        return Search(kept_names, value, self.runs, proven, self._curve, is_cut_short)

    def _smallest_good(self, kept_names: Sequence[str] | None) -> Sequence[str] | None:
        """Return the smallest set that was run and reaches the target: a known one, or a smaller
        one; None if there is none."""
        best = min((names for names, _ in self._sets_within_target()), key=len, default=None)
        return (
            best
            if kept_names is None or (best is not None and len(best) < len(kept_names))
            else kept_names
        )

    def _upper_bound(self) -> int:
        """Return the size of a set that was run and is enough, if there are many nodes;
        one more than the number of nodes if there are few, or no such set was found."""
        count = len(self._names)
        if count < _MANY:
            return count + 1
        goals = [share * self._target_power for share in _PROBED]
        below = 0
        for size, without in enumerate(self._path):
            if not goals or self.predict(without) > goals[0]:
                continue
            del goals[0]
            if self.remaining_loss(without) > self._target:
                below = size
                continue
            return self._least_on_path(below, size)
        return count + 1

    def _least_on_path(self, below: int, enough: int) -> int:
        """Return the smallest size of a sufficient set on the path, by bisection."""
        while enough - below > 1:
            middle = (enough + below) // 2
            if self.remaining_loss(self._path[middle]) <= self._target:
                enough = middle
            else:
                below = middle
        return enough

    @cached_property
    def _path(self) -> list[int]:
        """Return sets of increasing size for models with many nodes;
        each adds the nodes with the largest predicted gain."""
        path, base = [0], 0
        if len(self._names) < _MANY:
            return path

        def gain(group: int) -> float:
            """Return the predicted gain of a group per additional site."""
            extra_bits = (group & ~base).bit_count()
            if not extra_bits:
                return 0.0
            power = self._power_in_units(base, 0) - self._power_in_units(base, group & ~base)
            return power / POWER_UNIT / extra_bits

        ranked = [(-gain(group), group) for group in self._groups]
        heapify(ranked)
        while ranked:
            _, group = heappop(ranked)
            now = gain(group)
            if ranked and now < -ranked[0][0]:
                if now > 0:
                    heappush(ranked, (-now, group))
                continue
            if now <= 0:
                continue
            base, before = base | group, base
            path += [before] * (base.bit_count() - len(path))
            path.append(base)
            self._check_time()
        return path

    def _sets_within_target(self) -> Iterator[tuple[Sequence[str], float]]:
        """Return an iterator over the sets that reach the target, with their metric."""
        return ((names, value) for names, value in self._curve.values() if value <= self._target)

    def _prove_size(self, size: int, proven: int) -> int:
        """Try the remaining smaller sets if enough runs are left; return the proven size."""
        try:
            while proven < size - 1 and comb(len(self._names), proven + 1) <= _ENUMERATED:
                sets = [sum(combination) for combination in combinations(self._bits, proven + 1)]
                if not self._has_few_sites(sets, self._most - self.runs):
                    break
                if any(self.remaining_loss(index) <= self._target for index in sets):
                    break
                proven += 1
        except OutOfRunsError:
            pass
        return proven

    def _search_size(self, size: int) -> tuple[int | None, bool]:
        """Return a set of `size` nodes that reaches the target, or None; and if all were tried.
        The set is an integer with a bit per node. The second value is whether all sets of this size
        were tried without success.
        """
        ranked, is_all = self._rank_sets(size)
        allowed = max(4, int(_SHARE * (self._most - self.runs)))
        is_complete = is_all and size <= 2
        if is_complete:
            is_complete = self._has_few_sites([index for _, index in ranked], allowed, True)
        tried = self.runs
        for _, names in ranked:
            is_hopeless = self._is_hopeless(names)
            if not is_complete and (is_hopeless or self.runs - tried >= allowed):
                break
            if self.remaining_loss(names) <= self._target:
                return names, False
        return None, is_complete

    def _has_few_sites(self, sets: Sequence[int], most: int, counts_known: bool = False) -> bool:
        """Return whether sets of nodes leave at most `most` different sets of sites quantized.
        Sets that were run count only with `counts_known`."""
        different: set[int] = set()
        for without in sets:
            sites = self.sites(without)
            if counts_known or sites not in self._known:
                different.add(sites)
                if len(different) > most:
                    return False
        return True

    def _is_hopeless(self, without: int, factor: float = 1.0) -> bool:
        """Return whether a set is predicted to be far above the target."""
        return self.predict(without) > factor * _HOPELESS * self._target_power

    @property
    def _target_power(self) -> float:
        """Return the predicted loss at the target, from the sum of losses of all sites."""
        target_power = self._known[self.sites(0)]
        predicted = self.predict(0)
        if not 0 < target_power < inf or self._target <= 0:
            return inf
        return max(predicted * (self._target / target_power) ** 2, self._target**2)

    def _rank_sets(self, size: int) -> tuple[list[tuple[int, int]], bool]:
        """Return sets of a size sorted by predicted loss, and whether these are all."""
        if comb(len(self._names), size) > _ENUMERATED:
            return (
                sorted((self._power_in_units(nodes, 0), nodes) for nodes in self._grow_sets(size)),
                False,
            )
        ranked = []
        for *nodes, last in combinations(self._bits, size):
            base = sum(nodes)
            ranked.append((self._power_in_units(base, last), base | last))
        return sorted(ranked), True

    def _grow_sets(self, size: int) -> list[int]:
        """Return sets of some size that grow from nodes and groups around a site."""
        for count in range(1, size + 1):
            if count in self._levels:
                continue
            self._check_time()
            if count < size and count < len(self._path):
                # These sets cannot reach the target, so they were not run.
                self._levels[count] = [self._path[count]]
                continue
            most = max(_LEAST_BEAM, min(_BEAM, _GROWN // len(self._groups)))
            powers: dict[int, int] = {}
            for before in range(max(0, count - 6), count):
                for base in self._levels.get(before, ()):
                    self._add_groups(base, count - before, powers)
            ranked = sorted((power, without) for without, power in powers.items())
            self._levels[count] = [without for _, without in ranked[:most]]
        return self._levels[size]

    def _add_groups(self, base: int, size: int, powers: dict[int, int]) -> None:
        """Add the predicted powers of sets that have a number of nodes more than a known one.

        Args:
            base: the known set.
            size: the number of nodes.
            powers: gets the powers, by set.
        """
        power, reached = self._power_in_units(base, 0), self._affected_sites(base)
        for group, own_power, own_reached in self._powers_alone:
            added = group & ~base
            if added.bit_count() != size or base | group in powers:
                continue
            if added == group and not reached & own_reached:
                # The same value as `_power_in_units`, without computing it.
                powers[base | group] = power - own_power
            else:
                powers[base | group] = self._power_in_units(base, added)

    @cached_property
    def _powers_alone(self) -> list[tuple[int, int, int]]:
        """Return each group of nodes, the power that excluding it removes, and its sites."""
        every = self._power_in_units(0, 0)
        return [
            (group, every - self._power_in_units(group, 0), self._affected_sites(group))
            for group in self._groups
        ]

    @cached_property
    def _groups(self) -> list[int]:
        """Return the nodes, and the groups of up to six nodes that require one site, as bits."""
        groups = [*self._bits]
        candidates = set(self._names)
        for number in range(len(self._rules.sites)):
            askers = candidates.intersection(self._rules.nodes_that_require(number))
            if 1 < len(askers) <= 6:
                groups.append(self._rules.site_requests.nodes(askers))
        return [*dict.fromkeys(groups)]

    def _smaller_set(self, without: int) -> int:
        """Return a set without the nodes that it does not need."""
        smaller = without
        bits = [bit for bit in self._bits if bit & without]
        for bit in sorted(bits, key=lambda index: self.predict(without & ~index)):
            rest_index = smaller & ~bit
            if rest_index and self.remaining_loss(rest_index) <= self._target:
                smaller = rest_index
        return smaller


def curve_at(search: Search, sizes: Sequence[int]) -> list[tuple[int, float]]:
    """Return, by size, the loss of the best set that was run."""
    points: list[tuple[int, float]] = []
    for size in sizes:
        values = [value for count, (_, value) in search.curve.items() if count <= size]
        if values and max(search.curve) >= size:
            points.append((size, min(values)))
    return points
