"""How a model is divided, and the table about it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.checks.capability import (
    ModelNode,
    ModelPart,
    Problem,
    SupportReport,
    parts_of,
)


@st.composite
def groupings(draw: st.DrawFn) -> tuple[int, list[list[int]]]:
    """Nodes, some of which are in groups."""
    labels = draw(st.lists(st.integers(-1, 3), min_size=1, max_size=30))
    groups = [[node for node, one in enumerate(labels) if one == label] for label in range(4)]
    return len(labels), [group for group in groups if group]


@given(groupings())
def test_parts_hold_every_node_once_and_keep_groups_apart(
    grouping: tuple[int, list[list[int]]],
) -> None:
    count, groups = grouping
    parts = parts_of(count, groups)
    assert [node for part in parts for node in part.nodes] == list(range(count))
    for part in parts:
        holders = [group for group in groups if set(part.nodes) & set(group)]
        assert bool(holders) == part.is_supported
        assert not holders or set(part.nodes) <= set(holders[0])
    for before, after in pairwise(parts):
        merged = {*before.nodes, *after.nodes}
        assert before.is_supported or after.is_supported
        assert not any(merged <= set(group) for group in groups)


def test_parts_are_saved_under_the_first_and_the_last_node() -> None:
    assert ModelPart(3, 6, True).file_name == "supported_subgraph-nodes-3-5.onnx"
    assert ModelPart(0, 1, False).file_name == "unsupported_subgraph-nodes-0-0.onnx"


NODES = (ModelNode("Conv", "a"), ModelNode("Custom", "b"), ModelNode("Custom"), ModelNode("Relu"))


def test_the_table_of_problems() -> None:
    report = SupportReport(
        False,
        NODES,
        (Problem("No plugin", 1, "Custom", "b"), Problem("Bad\n axis", stack=("outer", "inner"))),
    )
    title, head, rule, *rows = report.table().splitlines()
    assert (title, head) == ("===== Summary =====", "Stack trace    | Operator | Node | Reason")
    assert set(rule) == {"-"} and len(rule) >= len(head)
    assert rows == [
        "               | Custom   | b    | No plugin",
        "outer -> inner |          |      | Bad axis",
    ]


def test_the_table_of_parts_counts_operators() -> None:
    why = (Problem("No plugin"),)
    parts = (
        ModelPart(0, 1, True),
        ModelPart(1, 3, False, why),
        ModelPart(3, 4, False, why),
    )
    lines = SupportReport(False, NODES, parts=parts).table().splitlines()
    assert [line.split(" | ") for line in lines[3:]] == [
        ["Custom  ", "2    ", "No plugin", "[[1, 3]]"],
        ["Relu    ", "1    ", "No plugin", "[[3, 4]]"],
    ]
