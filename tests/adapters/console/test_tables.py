"""Tables of outputs: what is shown of many, and on which terminals."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.adapters.console.tables import MOST_ROWS, columns_of, table_lines
from polygraphy.comparator import SimpleCompareFunc
from polygraphy.domain.accuracy.output_rows import Comparison, OutputRows, largest_jump
from polygraphy.domain.model import Graph, Node, Origin
from polygraphy.domain.report.document import with_nodes
from tests.support.examples import scaled


def table_of(errors: dict[str, float], iterations: int = 1) -> OutputRows:
    """Return a table of outputs that differ by some numbers."""
    compare, table = SimpleCompareFunc(), OutputRows(("a", "b"))
    for iteration in range(iterations):
        expected = {name: np.ones(3, np.float32) for name in errors}
        found = {name: np.float32(1) + np.full(3, error, np.float32)
                 for name, error in errors.items()}  # fmt: skip
        table.add(iteration, compare(found, expected))
    return table


def texts(table: OutputRows, width: int | None, **makers: Node) -> list[str]:
    compared = Comparison("simple", ("onnxrt", "trt"), False, 0, 1, False, table.rows())
    nodes = tuple(evolve(node, outputs=(name,)) for name, node in makers.items())
    [compared] = with_nodes([compared], Graph(nodes=nodes))
    return [text for text, _ in table_lines(compared, width=width, full_location="whole")]


@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize("name", ["y", "encoder.layers.11.attention.self.query.MatMul_output_0",
                                  "层.注意力"])  # fmt: skip
def test_a_table_fits_the_terminal(name: str, width: int) -> None:
    errors = {f"{name}{at}": 0.5 * (at > 3) for at in range(8)}
    origin = Origin("/home/me/modeling_of_something.py", 1234, "encoder.layers.11.attention")
    makers = {output: Node(output, "LayerNormalization", origin=origin) for output in errors}
    lines = texts(table_of(errors), width, **makers)
    assert max(map(columns_of, lines)) <= width
    assert [line.split()[0] for line in lines].count("x") == 4
    assert sum("/1" in line for line in lines) == 8
    assert width == 60 or any("LayerNormalization" in line for line in lines)
    assert any("modeling_of_something.py:1234" in line for line in lines) == (width == 160)


def test_the_rows_around_the_jump_are_shown_rather_than_those_where_errors_creep() -> None:
    errors = {f"y{at}": 2e-5 + at * 1e-6 for at in range(80)}
    errors = {**dict.fromkeys([f"x{at}" for at in range(20)], 0.0), **errors}
    errors["y60"] = 0.5
    lines = texts(table_of(errors), None)
    rows = [line.removeprefix("x ").split() for line in lines if "/1" in line]
    shown = {name: number for name, number, *_ in rows}
    assert {"y57", "y58", "y59", "y60", "y61", "y62", "y63"} <= shown.keys()
    assert shown["y0"] == "21"  # The first that fails.
    assert "#" in lines[0].split() and lines.count("  ...") == 3  # Each gap is marked.
    assert len(lines) <= MOST_ROWS + 3


@settings(max_examples=scaled(100))
@given(st.lists(st.sampled_from([0.0, 1e-7, 2e-5, 1e-3, 1.0, float("inf")]), max_size=12))
def test_no_row_jumps_further_than_the_one_that_is_named(errors: list[float]) -> None:
    rows = table_of({f"y{at}": error for at, error in enumerate(errors)}).rows()
    sizes = [min(max(row.worst.excess or 0.0, 0.1), 1e6) for row in rows]
    ratios = [size / max([0.1, *sizes[:at]]) for at, size in enumerate(sizes)]
    found = largest_jump(rows)
    if found is None:
        assert max(ratios, default=0.0) <= 10
    else:
        assert not rows[found].passed
        assert ratios[found] == max(ratios)
