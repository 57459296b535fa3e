"""Which tensors hold the same."""

from __future__ import annotations

import numpy as np

from polygraphy.domain.diagnosis.borrowed import (
    Borders,
    SameTensors,
    _forms_of_array,
    is_close,
    is_informative,
    results_of_missing_nodes,
)
from polygraphy.domain.model.graph import Graph, Node


def test_a_mask_does_not_hide_what_differs_beside_it() -> None:
    scores = np.linspace(-1, 1, 16, dtype=np.float32)
    masked = np.where(np.arange(16) % 2, np.float32(-1e9), scores)
    other = np.where(np.arange(16) % 2, np.float32(-1e9), scores * np.float32(1.5))
    assert not is_close(masked, other)
    assert is_close(masked, masked * np.float32(1 + 1e-6))


def test_a_tensor_that_was_moved_is_only_the_one_of_its_name() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    known = SameTensors({"other": array})
    assert known.find_equal("mine", array, ()) == "other"
    assert known.find_equal("mine", array.reshape(3, 2), ()) == "other"
    assert known.find_equal("mine", array, (), is_moved=True) is None
    assert known.find_equal("mine", array, {"other"}) is None
    assert known.find_equal("mine", np.zeros_like(array), ()) is None


def test_an_equal_part_of_a_tensor_does_not_show_that_its_maker_is_right() -> None:
    nodes = (
        Node("prelu", "PRelu", "", ("x", "slope"), ("all",)),
        Node("slice", "Slice", "", ("all", "from", "to"), ("part",)),
        Node("relu", "Relu", "", ("all",), ("rest",)),
    )
    graph = Graph(nodes=nodes)
    values = {name: np.arange(4, dtype=np.float32) for name in ("all", "part", "rest")}
    assert Borders(graph, graph, values).makers_of(["part"]) == {1}
    assert Borders(graph, graph, values).makers_of(["rest"]) == {0, 2}


def test_an_empty_weight_has_no_parts_to_borrow() -> None:
    assert [*_forms_of_array(np.zeros((0, 3)), np.ones((2, 3)))] == []
    assert len([*_forms_of_array(np.ones((4, 3)), np.ones((2, 3)))]) == 2


def test_arrays_that_match_others_by_accident_show_nothing() -> None:
    assert is_informative(np.array([0.5, 1.5]))
    for array in (np.arange(9), np.array([0.5]), np.full(9, np.nan), np.full(9, 0.5)):
        assert not is_informative(array)


def test_what_a_mask_fills_in_makes_no_other_tensor_equal() -> None:
    """Most elements of causal scores are filled in."""
    scores = np.full((4, 4), -1e9, np.float32)
    scores[0] = np.linspace(-1, 1, 4)
    other = scores.copy()
    other[0] = other[0][::-1]
    known = SameTensors({"theirs": scores})
    assert known.find_equal("mine", scores, ()) == "theirs"
    assert known.find_equal("mine", other, ()) is None


def test_a_node_that_adds_a_tensor_to_itself_is_not_missing() -> None:
    array = np.linspace(-1, 2, 6, dtype=np.float32).reshape(2, 3)
    other, folded = array + 1, array.reshape(1, 2, 3)
    assert [op for op, _ in results_of_missing_nodes(array, [other])][-4:] == [
        "Mul",
        "Add",
        "Div",
        "Sub",
    ]
    for tensor in (array, folded):
        assert [op for op, _ in results_of_missing_nodes(tensor, [array])][-1] == "Mul"
