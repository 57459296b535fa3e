"""Rows for the vertices of a directed graph, so that edges point downwards.

A vertex stands one row below the lowest of those that it depends on (longest-path layering), and
what depends on nothing is lowered to just above the first that takes it, which keeps edges short.
The time taken is linear in the number of vertices and edges.

Source: Healy and Nikolov, "Hierarchical drawing algorithms", Handbook of Graph Drawing and
Visualization, 2013, chapter 13.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

Edge = tuple[int, int]
"""From one vertex to another, by number."""


def rows_of(count: int, edges: Sequence[Edge]) -> list[int]:
    """Return the row of each vertex, from 0 at the top.

    Every edge leads to a lower row, except those that close a circle, of which there are none in
    a valid model.

    Args:
        count: number of vertices.
        edges: pairs of vertices from 0 to `count` - 1; there may be several of the same two.
    """
    after: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for start, end in edges:
        if start != end:
            after[start].append(end)
            waiting[end] += 1
    sources = [vertex for vertex in range(count) if not waiting[vertex]]
    rows = _longest_paths(after, waiting, deque(sources))
    for vertex in sources:
        below = min((rows[end] for end in after[vertex]), default=rows[vertex] + 1)
        rows[vertex] = max(rows[vertex], below - 1)
    return rows


def _longest_paths(after: list[list[int]], waiting: list[int], ready: deque[int]) -> list[int]:
    rows = [0] * len(after)
    placed = [False] * len(after)
    next_in_circle = 0
    while True:
        while ready:
            vertex = ready.popleft()
            placed[vertex] = True
            for end in after[vertex]:
                if placed[end]:  # The edge closes a circle, and points upwards.
                    continue
                rows[end] = max(rows[end], rows[vertex] + 1)
                waiting[end] -= 1
                if not waiting[end]:
                    ready.append(end)
        while next_in_circle < len(after) and placed[next_in_circle]:
            next_in_circle += 1
        if next_in_circle == len(after):
            return rows
        ready.append(next_in_circle)  # Only circles are left: they are cut at their first vertex.
        waiting[next_in_circle] = -1
