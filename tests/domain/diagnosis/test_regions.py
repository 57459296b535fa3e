"""Which nodes a fused one stands for, and which rewrites heal together."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.model.regions import (
    missing_nodes,
    nodes_around,
    read_by_region,
    region_before,
)
from polygraphy.domain.profiling.execution import profile_node
from polygraphy.domain.search.subsets import healing_alone, healing_passes

NAMES = [f"pass{number}" for number in range(30)]


@given(st.sets(st.sampled_from(NAMES), min_size=1, max_size=3))
def test_the_passes_that_heal_together_are_found(guilty: set[str]) -> None:
    tried = []

    def heals(without: object) -> bool:
        tried.append(without)
        return guilty <= set(without)  # type: ignore[call-overload]

    assert set(healing_passes(NAMES, heals) or ()) == guilty
    assert len(tried) < 150
    alone = healing_alone(NAMES, heals)
    assert alone == (sorted(guilty) if len(guilty) == 1 else [])


def test_nothing_heals_what_no_pass_does() -> None:
    assert healing_passes(NAMES, lambda without: False) is None
    assert healing_passes([], lambda without: True) == []


def graph(nodes: Sequence[Node]) -> Graph:
    return Graph(nodes=tuple(nodes))


def chain(*ops: str) -> list[Node]:
    return [
        profile_node(f"n{at}", op, [f"t{at}"], [f"t{at + 1}"], settings=op)
        for at, op in enumerate(ops)
    ]


def test_a_region_goes_back_to_the_tensors_that_survive() -> None:
    nodes = chain("Conv", "Pad", "MaxPool", "Relu")
    assert region_before(graph(nodes), "t3", {"t0", "t1"}) == [1, 2]
    assert region_before(graph(nodes), "t3", {"t0", "t1", "t2"}) == [2]


def test_a_node_that_is_still_there_took_no_part() -> None:
    nodes = chain("Conv", "Cast", "Cast", "Relu")
    executed = [nodes[0], profile_node("n3", "Relu", ["t1"], ["t4"], settings="Relu")]
    assert missing_nodes(graph(nodes), [1, 2, 3], graph(executed), "t4") == [1, 2]
    fused = [nodes[0], profile_node("f", "FusedRelu", ["t1"], ["t4"])]
    assert missing_nodes(graph(nodes), [1, 2, 3], graph(fused), "t4") == [1, 2, 3]


def test_a_node_whose_output_was_only_renamed_took_no_part() -> None:
    """As before a quantization that is moved up."""
    nodes = [profile_node("g", "Gemm", ["t0"], ["t1"]), *chain("A", "B", "C")[1:]]
    moved_up = [
        profile_node("g", "Gemm", ["t0"], ["t1/q"], "alpha"),
        profile_node("f", "F", [], ["t3"]),
    ]
    assert missing_nodes(graph(nodes), [0, 1, 2], graph(moved_up), "t3") == [1, 2]
    other = [profile_node("g", "Gemm", ["t9"], ["t1/q"]), *moved_up[1:]]
    assert missing_nodes(graph(nodes), [0, 1, 2], graph(other), "t3") == [0, 1, 2]


def test_a_copy_is_read_instead_of_what_survives() -> None:
    executed = [
        profile_node("a", "A", ["t0"], ["t1"]),
        profile_node("copy", "B", ["t1"], ["t2/copy"]),
        profile_node("b", "B", ["t1"], ["t2"]),
        profile_node("c", "C", ["t2/copy"], ["t3"]),
    ]
    assert read_by_region(graph(executed), "t3", {"t0", "t1", "t2"}) == {"t1"}


def test_what_lies_between_two_nodes_is_taken_with_them() -> None:
    nodes = [*chain("A", "B", "C", "D"), profile_node("join", "Add", ["t1", "t4"], ["y"])]
    assert nodes_around(graph(nodes), [0], 1) == [0, 1, 2, 3, 4]
    assert nodes_around(graph(nodes), [2], 1) == [1, 2, 3]
