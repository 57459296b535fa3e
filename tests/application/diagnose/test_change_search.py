"""The search for a changed node that all oracles share."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from polygraphy.adapters.onnx.run.reference import OnnxParty
from polygraphy.adapters.onnxruntime.party import OnnxrtParty
from polygraphy.application.diagnose.changes.change_search import ChangeSearch, OtherTensor
from polygraphy.application.diagnose.parts import Submodel
from polygraphy.domain.diagnosis.borrowed import with_weight
from polygraphy.domain.search.run_budget import RunBudget
from polygraphy.ports.editing import open_model
from tests.support.models import make, value

X = np.linspace(-2, 2, 8, dtype=np.float32)


class Crashing(OnnxParty):
    """The reference evaluator, which ends its process if a node has a large number."""

    rewrites = ("all",)

    def load(self, model: Any, **how: Any) -> Any:
        largest = max(one.f for node in model.graph.node for one in node.attribute)
        return os._exit(3) if largest > 50 else super().load(model, **how)


def leaky(alpha: float) -> onnx.ModelProto:
    """A model of one node with a number."""
    node = helper.make_node("LeakyRelu", ["x"], ["y"], "leaky", alpha=alpha)
    return make("leaky", [node], [value("x", [8])], [value("y", [8])])


def search(model: onnx.ModelProto, goal: Any, party: Any, budget: RunBudget) -> ChangeSearch:
    """Return the search for a change of the model."""
    part = Submodel(model, {"x": X})
    return ChangeSearch(open_model(model).graph, part, {"y": goal}, (party,), budget)


@pytest.mark.slow
@pytest.mark.usefixtures("forks")
def test_a_crash_ends_the_search_for_one_number_and_no_more() -> None:
    goal = np.where(X < 0, 0.37 * X, X)
    [found] = search(leaky(0.7), goal, OnnxParty(), RunBudget()).find_numbers(0)
    assert found.node.attribute("alpha") == pytest.approx(0.37)
    assert not [*search(leaky(0.7), goal, Crashing(), RunBudget()).find_numbers(0)]


def test_an_epsilon_is_not_negative() -> None:
    """With a single group, a negative epsilon does the same as a larger scale."""
    node = helper.make_node("LayerNormalization", ["x", "scale"], ["y"], "norm", epsilon=1e-5)
    weights = {"scale": np.ones(8, np.float32)}
    model = make("norm", [node], [value("x", [8])], [value("y", [8])], weights=weights)
    goal = 1.5 * (X - X.mean()) / X.std()
    assert not [*search(model, goal, OnnxrtParty(), RunBudget()).find_numbers(0)]


def test_a_budget_counts_what_was_tried_and_says_what_was_not() -> None:
    budget = RunBudget(runs=2)
    assert not [*search(leaky(0.7), 5 * X, OnnxParty(), budget).find_usual_variants(0)]
    assert (budget.taken, budget.is_cut_short, budget.is_spent) == (2, True, True)
    assert not [*search(leaky(0.7), 5 * X, OnnxParty(), spent := RunBudget(0)).find_numbers(0)]
    assert spent.is_cut_short


def test_a_tensor_of_another_type_or_shape_is_not_tried() -> None:
    budget, goal = RunBudget(), np.where(X < 1, 0.7 * (X - 1), X - 1)
    arrays = {"short": X[:4], "double": X.astype(np.float64), "right": X - 1}
    others = [OtherTensor(*one) for one in arrays.items()]
    found = search(leaky(0.7), goal, OnnxParty(), budget).find_inputs(0, others, ())
    assert [one.node.inputs for one in found] == [("right",)]
    assert budget.taken == 1


@pytest.mark.parametrize("party", [OnnxParty(), OnnxrtParty()], ids=["evaluator", "runtime"])
def test_a_sum_may_read_a_tensor_with_another_shape(party: Any) -> None:
    node = helper.make_node("Add", ["x", "mean"], ["y"], "sum")
    model = make("sum", [node], [value("x", [8]), value("mean", [1])], [value("y", [8])])
    arrays = {"three": X[:3], "near": X + 1, "double": np.float64(X), "right": X * X}
    part = Submodel(model, {"x": X, "mean": X[:1]})
    goals = {"y": X + X * X}
    found = ChangeSearch(open_model(model).graph, part, goals, (party,), budget := RunBudget())
    others = [OtherTensor(*one) for one in arrays.items()]
    reads = [one.node.inputs for one in found.find_inputs(0, others, ())]
    assert (reads, budget.taken) == ([("x", "right")], 4)


@pytest.mark.slow
@pytest.mark.parametrize("read", [["x", "x"], ["x", "t"]], ids=["twice", "elsewhere"])
def test_a_tensor_is_replaced_at_one_place_where_it_is_read_at_several(read: list[str]) -> None:
    nodes = [helper.make_node("Mul", read, ["m"], "product")]
    nodes += [helper.make_node("Tanh", ["x"], ["t"], "tanh")]
    nodes += [helper.make_node("Add", ["m", "t"], ["y"], "sum")]
    nodes = nodes if "t" not in read else [nodes[1], nodes[0], nodes[2]]
    model = make("places", nodes, [value("x", [8])], [value("y", [8])])
    right = X - 3
    goal = right * (np.tanh(X) if "t" in read else X) + np.tanh(X)
    found = search(model, goal, OnnxParty(), RunBudget()).find_inputs(
        [node.name for node in nodes].index("product"),
        [*(OtherTensor(f"decoy{at}", X + at) for at in range(1, 100)), OtherTensor("right", right)],
        (),
    )
    assert next(found).node.inputs == ("right", read[1])


def test_a_budget_is_smaller_for_larger_models() -> None:
    sizes = [(1, 1), (1, 100), (1, 1000), (1, 10**6), (100 << 20, 50)]
    assert [RunBudget.for_model(*one).runs for one in sizes] == [8192, 2000, 200, 64, 81]
    weights = [0, 12 << 20, 115 << 20, 340 << 20, 1 << 40]
    assert [RunBudget.for_loads(1, one, 32, 320).runs for one in weights] == [320, 320, 35, 12, 12]


class Recording(OnnxParty):
    """The reference evaluator, which records the sizes of what it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def load(self, model: Any, **how: Any) -> Any:
        compute = super().load(model, **how)

        def run(feed: Any) -> Any:
            values = compute(feed)
            self.sizes += [np.size(value) for value in values.values()]
            return values

        return run


def test_a_change_that_makes_a_tensor_much_larger_is_not_run() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv", strides=[40])
    model = make(
        "conv",
        [node],
        [value("x", [1, 1, 640])],
        [value("y", [None, None, None])],
        weights={"w": np.ones((1, 1, 3), np.float32)},
    )
    part = Submodel(model, {"x": np.linspace(-1, 1, 640, dtype=np.float32).reshape(1, 1, -1)})
    party, goal = Recording(), np.full((1, 1, 16), 3, np.float32)
    graph = open_model(model).graph
    tried = ChangeSearch(graph, part, {"y": goal}, (party,), RunBudget(), limit=1 << 30)
    assert not [*tried.find_usual_variants(0)]
    assert 16 in party.sizes
    assert max(party.sizes) <= 8 * 16


def test_a_change_of_computed_pads_that_makes_a_tensor_much_larger_is_not_run() -> None:
    nodes = [
        helper.make_node("Concat", ["before", "behind"], ["pads"], "join", axis=0),
        helper.make_node("Pad", ["x", "pads"], ["y"], "pad"),
    ]
    weights = {"before": np.array([1]), "behind": np.array([0])}
    model = make("pad", nodes, [value("x", [8])], [value("y", [None])], weights=weights)
    part, graph, party = Submodel(model, {"x": X}), open_model(model).graph, Recording()
    goal = {"y": np.concatenate([[0, 0], X]).astype(np.float32)}
    tried = ChangeSearch(graph, part, goal, (party,), RunBudget(), limit=1 << 10)
    changed = [with_weight(graph, 0, "before", np.array([pad])) for pad in (10**5, 2)]
    assert [*tried.select_matching(changed)] == changed[1:]
    assert max(party.sizes) == 10


def test_the_stated_shape_of_an_output_does_not_exclude_a_change_to_a_smaller_one() -> None:
    """The model was exported with the axis that is wrong."""
    node = helper.make_node("ReduceL2", ["x"], ["y"], "length", axes=[0], keepdims=1)
    model = make("length", [node], [value("x", [1, 8, 16])], [value("y", [1, 8, 16])], opset=13)
    array = np.linspace(-1, 1, 128, dtype=np.float32).reshape(1, 8, 16)
    goal = np.sqrt(np.square(array).sum(axis=2, keepdims=True))
    part, graph = Submodel(model, {"x": array}), open_model(model).graph
    tried = ChangeSearch(graph, part, {"y": goal}, (OnnxParty(),), RunBudget(), limit=1 << 30)
    [found, *_] = tried.find_usual_variants(0)
    assert found.node.attribute("axes") == (2,)
