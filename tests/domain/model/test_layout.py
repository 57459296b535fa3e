"""Drawings: edges point downwards, nothing overlaps, and nodes stand near what they belong to."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.model.drawing import LONGEST_ROUTE, layout_of, rows_of, spread_centers

sizes = st.integers(1, 25)
acyclic = sizes.flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.lists(
            st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).map(
                lambda pair: (min(pair), max(pair))
            ),
            max_size=60,
        ).map(lambda edges: [edge for edge in edges if edge[0] != edge[1]]),
    )
)
anything = sizes.flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=60),
    )
)


@given(acyclic)
def test_edges_point_downwards(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = graph
    rows = rows_of(count, edges)
    assert all(rows[start] < rows[end] for start, end in edges)
    assert min(rows) >= 0


@given(acyclic)
def test_what_depends_on_something_is_as_high_as_can_be(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    count, edges = graph
    rows = rows_of(count, edges)
    before: dict[int, list[int]] = {}
    for start, end in edges:
        before.setdefault(end, []).append(start)
    sources = {vertex for vertex in range(count) if vertex not in before}
    for vertex, above in before.items():
        inner = [start for start in above if start not in sources]
        if inner:
            assert rows[vertex] == 1 + max(rows[start] for start in inner)


@given(anything)
def test_circles_are_drawn_as_well(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = graph
    layout = layout_of(count, edges)
    assert len(layout.rows) == len(layout.columns) == count
    assert len(layout.bends) == len(edges)


@given(anything)
def test_nothing_overlaps(graph: tuple[int, list[tuple[int, int]]]) -> None:
    layout = layout_of(*graph)
    by_row: dict[int, list[float]] = {}
    for row, column in zip(layout.rows, layout.columns):
        by_row.setdefault(row, []).append(column)
    for columns in by_row.values():
        gaps = np.diff(sorted(columns))
        assert (gaps >= 1 - 0.02).all()  # Columns are rounded to hundredths.


@given(acyclic)
def test_edges_bend_in_every_row_between_their_ends(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    count, edges = graph
    layout = layout_of(count, edges)
    for (start, end), bends in zip(edges, layout.bends):
        between = layout.rows[end] - layout.rows[start] - 1
        assert len(bends) in {0, between}
        assert bends or between == 0 or between > LONGEST_ROUTE


@given(
    st.lists(
        st.tuples(st.integers(-20, 20), st.sampled_from([0.2, 1.0, 3.0])), min_size=1, max_size=8
    )
)
def test_spreading_moves_no_more_than_it_must(entries: list[tuple[int, float]]) -> None:
    wanted, widths = sorted(want for want, _ in entries), [width for _, width in entries]
    placed = spread_centers(wanted, widths)
    steps = [(left + right) / 2 for left, right in pairwise(widths)]
    assert all(b - a >= step - 1e-9 for a, b, step in zip(placed, placed[1:], steps))
    assert sum(placed) == pytest.approx(sum(wanted))  # Each block keeps its center of mass.
    if all(b - a >= step for a, b, step in zip(wanted, wanted[1:], steps)):
        assert placed == pytest.approx(wanted)


def test_spreading_keeps_the_middle() -> None:
    assert spread_centers([0, 0, 0], [1, 1, 1]) == [-1, 0, 1]
    assert spread_centers([0, 10], [1, 1]) == [0, 10]


def test_a_skipped_connection_goes_around_what_it_skips() -> None:
    layout = layout_of(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    assert len(layout.bends[3]) == 2
    for row, bend in zip((1, 2), layout.bends[3]):
        assert abs(bend - layout.columns[row]) >= 0.58


def test_a_constant_stands_right_above_what_takes_it() -> None:
    edges = [(0, 1), (1, 2), (2, 3), (4, 3)]
    assert rows_of(5, edges)[4] == 2


@pytest.mark.slow
def test_ten_thousand_nodes_take_a_moment() -> None:
    count = 10_000
    edges = [(i, i + 1) for i in range(count - 1)]
    edges += [(i, i + 3) for i in range(0, count - 3, 2)] + [(0, i) for i in range(50, count, 97)]
    start = time.process_time()
    layout = layout_of(count, edges)
    assert time.process_time() - start < 5
    assert max(layout.rows) == count - 1
