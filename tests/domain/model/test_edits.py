"""What came and went between two outlines of a model."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.model import Graph, Model
from polygraphy.domain.model.difference import Edit, Outline, differences, edit_between
from polygraphy.domain.model.graph import Node

labels = st.lists(st.tuples(st.sampled_from(["Add", "Mul"]), st.sampled_from("abc")))
names = st.lists(st.sampled_from("xyz"))
outlines = st.builds(
    lambda nodes, weights: Outline(Model("", Graph()), Counter(nodes), Counter(weights)),
    labels,
    names,
)


@given(outlines, outlines)
def test_what_came_and_went_leads_from_one_model_to_the_other(one: Outline, other: Outline) -> None:
    edit = edit_between(one, other)
    nodes = Counter(one.nodes) - Counter(edit.removed_nodes) + Counter(edit.added_nodes)
    weights = Counter(one.weights) - Counter(edit.removed_weights) + Counter(edit.added_weights)
    assert (nodes, weights) == (other.nodes, other.weights)
    assert not set(edit.removed_nodes) & set(edit.added_nodes)
    assert not set(edit.removed_weights) & set(edit.added_weights)


@given(outlines)
def test_nothing_came_or_went_where_nothing_changed(one: Outline) -> None:
    assert edit_between(one, one) == Edit()


def test_a_node_in_front_of_others_is_the_only_difference() -> None:
    nodes = tuple(Node("", "Relu", "", (f"x{i}",), (f"x{i + 1}",)) for i in range(3))
    with_another = (Node("new", "Neg", "", ("x",), ("x0",)), *nodes)
    reference, candidate = (Model("", Graph(nodes=each)) for each in (nodes, with_another))
    [found] = differences(reference, candidate)
    assert (found.name, found.candidate) == ("new", "Neg(x) -> x0")
