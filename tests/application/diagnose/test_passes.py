"""Half precision is a party whose passes are its nodes: the fewest are found, and few are loaded."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import ceil, log2
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.adapters.fake import FakeNarrowModels
from polygraphy.application.diagnose.precision.half import LoweredModel, Tolerance, Trial
from polygraphy.domain.search.subsets import healing_passes
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.facts import ModelFacts

NODES = [f"n{index}" for index in range(12)]
SETS = st.sets(st.sampled_from(NODES), max_size=4)
FEEDS = [{"x": np.array([1.0, -2.0], np.float32)}]


def trial(losing: Collection[str], lowered: LoweredModel | None = None) -> Trial:
    model = FakeNarrowModels(NODES, losing, DataType.FLOAT16).open(None, DataType.FLOAT16)
    return Trial(model, Tolerance(DataType.FLOAT16, ModelFacts()), FEEDS, lowered=lowered)


@given(SETS)
def test_the_nodes_that_lose_everything_stay_in_float32_and_no_others(losing: set[str]) -> None:
    found = trial(losing).result()
    assert found.verdict == ("fault" if losing else "agree")
    assert set(found.kept) == losing
    assert {node for one in found.culprits for node in one.nodes} <= losing


@given(SETS, SETS)
def test_a_party_is_searched_by_what_it_computes_whatever_nodes_lose_elsewhere(
    losing: set[str], needed: set[str]
) -> None:
    """What nodes lose where every operator rounds says only which of them are asked first."""

    def load(*, plain: bool = False, without: Collection[str] = ()) -> Any:
        holds = plain or needed <= set(without)

        def compute(feed: Mapping[str, Any]) -> dict[str, Any]:
            return {"y": feed["x"] if holds else np.full_like(feed["x"], np.inf)}

        return compute

    found = trial(losing, LoweredModel(NODES, load)).result()
    assert bool(found) == (not needed)
    assert set(found.kept) == needed


def test_what_was_loaded_last_is_not_loaded_again_and_without_any_pass_it_is_plain() -> None:
    loads: list[Any] = []

    def load(*, plain: bool = False, without: Collection[str] = ()) -> Any:
        loads.append("plain" if plain else tuple(without))
        return dict

    lowered = LoweredModel(["a", "b"], load)
    for without in ([], [], ["b"], ["b", "other"], ["b", "a"], ["a", "b"], []):
        lowered.run({"x": 1}, without)
    assert loads == [(), ("b",), "plain", ()]
    assert lowered.loads == len(loads)


@given(SETS, st.randoms())
def test_the_fewest_passes_are_found_in_few_tries_where_the_likeliest_come_first(
    guilty: set[str], random: Any
) -> None:
    rest = [name for name in NODES if name not in guilty]
    random.shuffle(rest)
    tried: list[set[str]] = []

    def heals(without: Collection[str]) -> bool:
        tried.append(set(without))
        return guilty <= set(without)

    found = healing_passes([*guilty, *rest], heals, is_ranked=True)
    assert found is not None and set(found) == guilty
    many = max(1, len(guilty))
    assert len(tried) <= 2 * many * ceil(log2(2 * many) + 1) + 3
