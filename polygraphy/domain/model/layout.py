"""Where the parts of a graph stand when it is drawn.

The method is Sugiyama's: vertices get rows (`layering`), edges across several rows get bends in
the rows between, and each row is ordered by what its vertices are connected to. Here order and
position are found together: in sweeps down and up, each vertex is moved to the mean of its
neighbours in the row before, and a row is then spread so that nothing overlaps, with the least sum
of squared moves (pool adjacent violators).

Source: Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system
structures", IEEE Transactions on Systems, Man, and Cybernetics 11(2), 1981.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from attrs import frozen

from polygraphy.domain.model.layering import Edge, rows_of

LONGEST_ROUTE = 24
"""An edge across more rows than this is drawn straight: bends in all of them cost too much."""

_SWEEPS = 8
_BEND_WIDTH = 0.2  # Of a vertex, which is 1 wide.
_MOST_BENDS = 4  # Per vertex and edge, of all together.


@frozen
class Layout:
    """Places of vertices and edges.

    Attributes:
        rows: the row of each vertex, from 0 at the top.
        columns: where the centre of each vertex is in its row, in widths of a vertex; any real
            number.
        bends: of each edge, where it crosses the rows between its ends, in order from the upper
            one; empty when it is drawn straight.
    """

    rows: tuple[int, ...]
    columns: tuple[float, ...]
    bends: tuple[tuple[float, ...], ...]


def lay_out(count: int, edges: Sequence[Edge]) -> Layout:
    """Place the vertices and edges of a directed graph.

    Args:
        count: number of vertices.
        edges: pairs of vertices, from 0 to `count` - 1.
    """
    rows = rows_of(count, edges)
    chains = _chains(rows, edges)
    drawn = _Drawing(count, rows, edges, chains)
    for sweep in range(_SWEEPS):
        drawn.sweep(down=sweep % 2 == 0)
    columns = drawn.columns
    return Layout(
        rows=tuple(rows),
        columns=tuple(round(column, 2) for column in columns[:count]),
        bends=tuple(tuple(round(columns[bend], 2) for bend in chain) for chain in chains),
    )


def _chains(rows: Sequence[int], edges: Sequence[Edge]) -> list[list[int]]:
    """Return the numbers of the bends of each edge; they follow those of the vertices."""
    chains: list[list[int]] = [[] for _ in edges]
    budget = _MOST_BENDS * (len(rows) + len(edges))
    lengths = [rows[end] - rows[start] - 1 for start, end in edges]
    number = len(rows)
    for index in sorted(range(len(edges)), key=lengths.__getitem__):
        length = lengths[index]
        if length > min(LONGEST_ROUTE, budget):
            break
        if length > 0:
            chains[index] = list(range(number, number + length))
            number += length
            budget -= length
    return chains


class _Drawing:
    """Vertices and bends on their way to their places; a bend is a narrow vertex."""

    def __init__(
        self,
        count: int,
        rows: Sequence[int],
        edges: Sequence[Edge],
        chains: Sequence[Sequence[int]],
    ) -> None:
        total = count + sum(map(len, chains))
        self._above: list[list[int]] = [[] for _ in range(total)]
        self._below: list[list[int]] = [[] for _ in range(total)]
        self._widths = [1.0] * count + [_BEND_WIDTH] * (total - count)
        self._levels: list[list[int]] = [[] for _ in range(max(rows, default=-1) + 1)]
        for vertex, row in enumerate(rows):
            self._levels[row].append(vertex)
        for (start, end), chain in zip(edges, chains):
            for offset, bend in enumerate(chain, 1):
                self._levels[rows[start] + offset].append(bend)
            path = [start, *chain, end]
            for upper, lower in pairwise(path):
                self._below[upper].append(lower)
                self._above[lower].append(upper)
        self.columns = [0.0] * total
        for level in self._levels:
            self._place(level, [0.0] * len(level))

    def sweep(self, *, down: bool) -> None:
        """Move every vertex towards its neighbours above, row by row downwards, or towards
        those below, upwards.
        """
        neighbours = self._above if down else self._below
        columns = self.columns
        for level in self._levels if down else reversed(self._levels):
            wanted = [
                (
                    sum([columns[other] for other in neighbours[vertex]]) / len(neighbours[vertex])
                    if neighbours[vertex]
                    else columns[vertex]
                )
                for vertex in level
            ]
            if len(level) > 1:
                order = sorted(range(len(level)), key=wanted.__getitem__)
                level[:] = [level[position] for position in order]
                wanted = [wanted[position] for position in order]
            self._place(level, wanted)

    def _place(self, level: Sequence[int], wanted: Sequence[float]) -> None:
        if len(level) == 1:
            self.columns[level[0]] = wanted[0]
            return
        placed = spread(wanted, [self._widths[vertex] for vertex in level])
        for vertex, column in zip(level, placed):
            self.columns[vertex] = column


def spread(wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Return centres, as near to those wanted as possible, of things of these widths that keep
    their order and do not overlap: those with the least sum of squared moves.
    """
    offsets = [0.0]
    for left, right in pairwise(widths):
        offsets.append(offsets[-1] + (left + right) / 2)
    blocks: list[tuple[float, int]] = []  # The sum of what is wanted, and how many want it.
    for want, offset in zip(wanted, offsets):
        total, size = want - offset, 1
        while blocks and blocks[-1][0] * size > total * blocks[-1][1]:
            more, members = blocks.pop()
            total, size = total + more, size + members
        blocks.append((total, size))
    placed = [total / size for total, size in blocks for _ in range(size)]
    return [column + offset for column, offset in zip(placed, offsets)]
