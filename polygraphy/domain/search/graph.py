"""The part of a graph in which something goes wrong.

Sets of nodes are bits of an integer: bit `i` stands for node `i`. A part is made of some last nodes
and of everything that they depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import frozen

from polygraphy.domain.search.subsets import Outcome

_BALANCE = 4
"""A node is tested by itself if that decides about at least one in this number of suspects either
way."""

Test = Callable[[Sequence[int]], Outcome]


@frozen
class BadPart:
    """A part of a graph that fails its test.

    Attributes:
        ends: its last nodes, in order; none if no smaller part than the whole was found.
        part: all nodes of it.
        suspects: its nodes that may be at fault: no tested part that passed contains them.
    """

    ends: tuple[int, ...]
    part: int
    suspects: int


def members(nodes: int) -> list[int]:
    """Return the positions of the nodes in a bit mask, in order."""
    listed = []
    while nodes:
        lowest = nodes & -nodes
        listed.append(lowest.bit_length() - 1)
        nodes ^= lowest
    return listed


def dependency_sets(dependencies: Sequence[Iterable[int]]) -> list[int]:
    """Return, by node, the bit mask of the node and all nodes that it depends on.

    Args:
        dependencies: the nodes that each depends on directly, all of which are before it.
    """
    reached: list[int] = []
    for node, direct in enumerate(dependencies):
        nodes = 1 << node
        for next_index in direct:
            nodes |= reached[next_index]
        reached.append(nodes)
    return reached


def first_bad_part(reach: Sequence[int], test: Test) -> BadPart:
    """Return, by bisection, a bad part whose smaller parts are all good.

    Such a part is found if a part is bad as soon as it contains a node at fault. The search takes
    at most about ``2.4 log2(n)`` tests, whether the graph is a chain or has many branches, which
    are tested together.

    Args:
        reach: each node with all nodes that it depends on; see `dependency_sets`. The whole graph
            is assumed to be bad, and not tested.
        test: returns the outcome for the part with these last nodes, none of which depends on
            another.
    """
    search = _BisectionState(reach)
    while True:
        ends = search.proposal()
        if ends is None:
            return search.smallest_bad_part()
        search.learn(ends, test(ends))


def first_bad_part_in_order(reach: Sequence[int], test: Test) -> BadPart:
    """Return a bad part whose smaller parts are all good,
    by testing each node's part from the last one; no result is inferred from another."""
    search = _BisectionState(reach)
    for node in range(len(reach) - 1, -1, -1):
        if search.is_smaller(node):
            search.learn((node,), test((node,)), derives=False)
    return search.smallest_bad_part()


class _BisectionState:
    """The results of the search so far, and the part to test next."""

    def __init__(self, reach: Sequence[int]) -> None:
        """Start with the whole graph as the smallest bad part."""
        self._reach = reach
        self._part = self._suspects = (1 << len(reach)) - 1
        self._ends: tuple[int, ...] = ()
        self._tested: set[tuple[int, ...]] = set()

    def smallest_bad_part(self) -> BadPart:
        """Return the smallest part known to be bad."""
        return BadPart(self._ends, self._part, self._suspects & self._part)

    def is_smaller(self, node: int) -> bool:
        """Return whether a node's part is within the smallest bad part."""
        reach = self._reach[node]
        return bool(self._part >> node & 1) and reach & self._part == reach and reach != self._part

    def learn(self, ends: tuple[int, ...], outcome: Outcome, *, derives: bool = True) -> None:
        """Record an outcome; `derives`: all parts of a good part are good."""
        self._tested.add(ends)
        nodes = self._union(ends)
        if outcome is Outcome.BAD:
            self._ends, self._part = ends, nodes
            self._suspects &= nodes
        elif outcome is Outcome.GOOD and derives:
            self._suspects &= ~nodes
        elif outcome is Outcome.GOOD:
            self._suspects &= ~(1 << ends[0])

    def proposal(self) -> tuple[int, ...] | None:
        """Return the last nodes of the part to test next; None if the search is over."""
        listed = members(self._suspects)
        total = len(listed)
        scored = []
        for node in listed:
            settled = (self._reach[node] & self._suspects).bit_count()
            scored.append((min(settled, total - settled), node))
        best = max(scored, key=lambda pair: (pair[0], -pair[1]), default=(0, -1))
        if best[0] * _BALANCE < total and total > 2:
            group = self._group(listed, total)
            if group is not None:
                return group
        scored.sort(key=lambda pair: (-pair[0], pair[1]))
        return next(((node,) for _, node in scored if self._is_new((node,))), None)

    def _group(self, listed: Sequence[int], total: int) -> tuple[int, ...] | None:
        """Return the last nodes of a part with about half of the suspects, or None.
        The result is None if that part was tested before."""
        nodes = 0
        chosen: list[int] = []
        for node in listed:
            grown = nodes | self._reach[node]
            if (grown & self._suspects).bit_count() == total:
                break
            nodes = grown
            chosen.append(node)
            if 2 * (nodes & self._suspects).bit_count() >= total:
                break
        ends = self._last_nodes(chosen)
        return ends if ends and self._is_new(ends) else None

    def _last_nodes(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """Return the nodes on which no other chosen node depends."""
        covered = 0
        last = []
        for node in reversed(chosen):
            if not covered >> node & 1:
                last.append(node)
                covered |= self._reach[node]
        return tuple(reversed(last))

    def _is_new(self, ends: tuple[int, ...]) -> bool:
        """Return whether the part that ends at these nodes was not tested, and is not a known
        one."""
        return ends not in self._tested and self._union(ends) != self._part

    def _union(self, ends: Iterable[int]) -> int:
        """Return the nodes that ends need, as a bit mask."""
        nodes = 0
        for node in ends:
            nodes |= self._reach[node]
        return nodes
