"""The search for the fewest nodes in float, with little time."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence

import numpy as np
import pytest

from polygraphy.domain.quantization.powers import PowerSum, measure_powers
from polygraphy.domain.quantization.rules import Rules, rules_of
from polygraphy.domain.quantization.search import Search, SetSearch
from polygraphy.domain.quantization.site_requests import SiteRequests, numbers_of
from polygraphy.domain.quantization.sites import FloatNode, Kind, Site

COUNT = 120
BAD = {17: 0.9, 63: 0.6, 64: 0.5}


def loss(on: Collection[int]) -> float:
    return sum(BAD.get(number, 0.01) ** 2 for number in on) ** 0.5


def search(
    powers: Sequence[float], measure: Callable[[Collection[int]], float], target: float, most: int
) -> Search:
    """Search a chain of nodes; each reads a site of its own."""
    every = range(len(powers))
    sites = [Site(f"t{number}", "activation", None) for number in every]
    nodes = [FloatNode(f"n{n}", "Conv", [f"t{n}"], [f"out{n}"]) for n in every]
    rules = Rules(nodes, sites, {node.name: "inputs" for node in nodes})
    return SetSearch(rules, measure, PowerSum(powers, {}), target, most).result()


def test_few_runs_find_what_loses_most() -> None:
    groups = [[number] for number in range(COUNT)]
    measured = measure_powers(groups, [1.0] * COUNT, loss, 40)
    assert measured.runs <= 40 and measured.together > 60
    worst = sorted(range(COUNT), key=lambda number: -measured.values[number])[:3]
    assert sorted(worst) == sorted(BAD)
    result = search(measured.values, loss, 0.2, 30)
    assert result.kept == ["n17", "n63", "n64"] and result.runs < 30


@pytest.mark.slow
def test_a_large_set_is_found_with_few_runs() -> None:
    powers = [0.01 if number % 6 else 1.0 for number in range(COUNT)]  # 20 of 120 must go.

    def measure(on: Collection[int]) -> float:
        return sum(powers[number] for number in on) ** 0.5

    result = search(powers, measure, 1.001, 30)
    assert result.kept is not None and len(result.kept) == 20


def test_a_pair_that_the_prediction_misses_is_kept() -> None:
    powers = [1.0] * 3 + [1e-4] * 37

    def measure(on: Collection[int]) -> float:
        if not {6, 7} & {*on}:  # The integers of these two hide the loss of all others.
            return 0.1
        return sum(powers[number] for number in on) ** 0.5

    result = search(powers, measure, 0.2, 2000)
    assert result.kept == ["n6", "n7"] and result.proven == 1


@pytest.mark.parametrize("large", [1.0, 1e12])
def test_a_large_power_leaves_no_trace(large: float) -> None:
    total = PowerSum([large, 1e-9, 1e-9], {2: (0, [1], 5e-9)})
    assert total(0b010) == pytest.approx(1e-9, rel=1e-6)
    assert total(0b011) == pytest.approx(large + 6e-9, rel=1e-12)  # The weight is quantized again.


def test_a_node_that_only_moves_elements_asks_if_the_quantizer_forces_it() -> None:
    sites = [Site(name, "activation", None) for name in ("x", "flat", "half", "y")]
    nodes = [
        FloatNode("reshape", "Reshape", ["x"], ["flat"]),
        FloatNode("div", "Div", ["flat"], ["half"]),
        FloatNode("conv", "Conv", ["half"], ["y"]),
    ]
    # No Div is quantized by default: get_qdq_config of ONNX Runtime made this model.
    for producer in ("static", "olive"):
        forced = rules_of(nodes, sites, producer)
        assert forced.asks == dict.fromkeys(("reshape", "div", "conv"), "all")
        assert forced.float_sites(["div", "conv"]) == [2, 3] and forced.float_sites(["conv"]) == [3]
    sites = [Site(name, "activation", None) for name in ("x", "half", "y")]
    nodes = [
        FloatNode("conv", "Conv", ["x"], ["half"]),
        FloatNode("reshape", "Reshape", ["half"], ["y"]),
    ]
    assert rules_of(nodes, sites, "static").asks["reshape"] == "follows"


def test_nncf_excludes_embeddings_and_what_a_max_pool_reads_for_the_next_node() -> None:
    nodes = [
        FloatNode("gather", "Gather", ("table", "ids"), ("rows",)),
        FloatNode("relu", "Relu", ("rows",), ("r",)),
        FloatNode("pool", "MaxPool", ("r",), ("p",)),
        FloatNode("conv", "Conv", ("p", "w"), ("y",)),
    ]
    kinds: dict[str, Kind] = {"table": "weight", "r": "activation", "w": "weight"}
    sites = [Site(name, kind, None) for name, kind in kinds.items()]
    rules = rules_of(nodes, sites, "nncf")
    assert not rules.fixed
    assert rules.float_sites(["gather"]) == [0]
    assert rules.float_sites(["conv"]) == [1, 2]


def test_what_follows_a_removed_relu_is_not_quantized_without_its_source() -> None:
    sites = [Site(name, "activation", None) for name in ("x", "positive", "turned")]
    nodes = [
        FloatNode("conv", "Conv", ["x"], ["positive//raw"]),
        FloatNode("turn", "Transpose", ["positive"], ["turned"]),
        FloatNode("max", "ReduceMax", ["turned"], ["y"]),
        FloatNode("relu", "Relu", ["positive//raw"], ["positive"]),
    ]
    rules = rules_of(nodes, sites, "static")
    assert not rules.fixed and rules.float_sites(["conv"]) == [0, 1, 2]


def remaining(
    nodes: Sequence[FloatNode], sites: Sequence[Site], asks: dict[str, str], without: set[str]
) -> set[int]:
    """Mark tensors node by node, as a quantizer does."""
    marked: set[str] = set()
    for node in nodes:
        kind = asks[node.name]
        reads = node.reads[:1] if kind == "follows" else () if kind == "output" else node.reads
        if node.name in without or (kind == "follows" and not marked.intersection(reads)):
            continue
        marked |= {*reads, *(() if kind == "inputs" else node.makes)}
    return {number for number, site in enumerate(sites) if site.name in marked}


def test_sets_that_grow_keep_the_sites_that_a_quantizer_marks() -> None:
    rng = random.Random(5)
    for _ in range(30):
        nodes = [
            FloatNode(f"n{n}", "", [f"t{rng.randrange(n + 1)}" for _ in "ab"], [f"t{n + 1}"])
            for n in range(10)
        ]
        asks = {node.name: rng.choice(("all", "inputs", "follows", "output")) for node in nodes}
        sites = [Site(f"t{number}", "activation", None) for number in range(11)]
        asked = SiteRequests(nodes, sites, asks, {}, ())
        names = [f"n{number}" for number in rng.sample(range(10), 5)]
        bits = asked.remaining(asked.nodes(names), asked.nodes(names[:3]))
        assert {*numbers_of(bits)} == remaining(nodes, sites, asks, {*names})


def test_the_nearest_node_with_a_weight_is_found_behind_others() -> None:
    from polygraphy.domain.quantization.sites import FloatNode, nearest_before

    nodes = [
        FloatNode("far", "MatMul", ["x", "v"], ["a"]),
        FloatNode("near", "MatMul", ["a", "w"], ["b"]),
        FloatNode("relu", "Relu", ["b"], ["c"]),
        FloatNode("sum", "Add", ["c", "c"], ["d"]),
    ]
    assert nearest_before("sum", nodes, ["far", "near"]) == "near"
    assert nearest_before("far", nodes, ["far", "near"]) == "far"
    assert nearest_before("relu", nodes, []) == "relu"


def test_each_node_is_excluded_in_the_quantizer_that_quantizes_it() -> None:
    from polygraphy.domain.quantization.lines import nodes_by_quantizer
    from polygraphy.domain.quantization.schemes import Scheme
    from polygraphy.domain.quantization.sites import FloatNode, Site

    scheme = Scheme("int8", np.ones(()), np.zeros(()))
    blocks = Scheme("uint4", np.ones((2, 1)), np.zeros((2, 1)), 1, 16)
    sites = [
        Site("x", "activation", scheme),
        Site("a", "operator", blocks),
        Site("b", "operator", scheme),
    ]
    nodes = [
        FloatNode("packed", "MatMul", ["x", "w"], ["a"]),
        FloatNode("dynamic", "MatMul", ["a", "v"], ["b"]),
        FloatNode("add", "Add", ["b", "x"], ["c"]),
    ]
    names = [node.name for node in nodes]
    expected = {"nbits": ["packed"], "dynamic": ["dynamic"], "static": ["add"]}
    for producer in ("nbits", "dynamic"):
        assert nodes_by_quantizer(producer, nodes, sites, names) == expected
    assert nodes_by_quantizer("nncf", nodes, sites, names) == {"nncf": names}
    assert nodes_by_quantizer("static", nodes, sites[:1], ["add"]) == {"static": ["add"]}
    assert nodes_by_quantizer("nbits", nodes, sites[1:2], names) == {"nbits": names}


def test_sets_that_reach_nothing_in_common_add_their_effects() -> None:
    rng = random.Random(6)
    apart = 0
    for _ in range(200):
        nodes = [
            FloatNode(f"n{n}", "", [f"t{rng.randrange(max(n - 3, 0), n + 1)}"], [f"t{n + 1}"])
            for n in range(16)
        ]
        asks = {node.name: rng.choice(("all", "inputs", "follows", "output")) for node in nodes}
        sites = [Site(f"t{number}", "activation", None) for number in range(17)]
        asked = SiteRequests(nodes, sites, asks, {}, ())
        powers = PowerSum([rng.random() for _ in sites], {3: (2, [4, 5], rng.random())})
        one, other = (asked.nodes(f"n{n}" for n in rng.sample(range(16), 2)) for _ in "ab")
        if asked.reach(one, powers.linked) & asked.reach(other, powers.linked):
            continue
        apart += 1
        power = [powers.power_in_units(asked.remaining(one_of)) for one_of in (0, one, other)]
        assert powers.power_in_units(asked.remaining(one | other)) == power[1] + power[2] - power[0]
    assert apart > 20
