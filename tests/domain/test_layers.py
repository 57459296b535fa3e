"""Segments of layers: complete, in order, within the budget, and as few as the cuts allow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.search.layers import (
    Budget,
    Layer,
    Segment,
    plan_segments,
    plan_windows,
)


def chain(*sizes: int | None) -> list[Layer]:
    """Return layers t0 -> t1 -> ..., whose tensors have these sizes."""
    return [
        Layer({f"t{i}": size}, reads=[f"t{i - 1}"] if i else ["x"]) for i, size in enumerate(sizes)
    ]


def spans(segments: list[Segment]) -> list[tuple[int, int]]:
    return [(segment.start, segment.stop) for segment in segments]


@st.composite
def models(draw: st.DrawFn) -> tuple[list[Layer], set[str], Budget, set[str]]:
    """Draw layers that read earlier ones, what is compared, a budget, and what cannot be handed
    over.
    """
    layers: list[Layer] = []
    names: list[str] = []
    for index in range(draw(st.integers(1, 12))):
        made = {
            f"t{index}_{k}": draw(st.none() | st.integers(0, 9))
            for k in range(draw(st.integers(1, 2)))
        }
        reads = draw(st.lists(st.sampled_from([*names, "x"]), max_size=3, unique=True))
        weights = dict.fromkeys(draw(st.sets(st.sampled_from(["w0", "w1", "w2"]))), 3)
        layers.append(Layer(made, reads, weights))
        names += made
    budget = Budget(
        draw(st.integers(0, 60)),
        runners=draw(st.integers(1, 3)),
        weight_copies=draw(st.integers(0, 4)),
        free_weights=draw(st.integers(0, 9)),
    )
    return (
        layers,
        draw(st.sets(st.sampled_from(names))),
        budget,
        draw(st.sets(st.sampled_from(names))),
    )


def needed(layers: list[Layer], budget: Budget, start: int, stop: int) -> int:
    """Return what a segment takes, straight from the definition."""
    sizes = {name: size for layer in layers for name, size in layer.makes.items()}
    unknown = max((size for size in sizes.values() if size is not None), default=0)
    before = {name for layer in layers[:start] for name in layer.makes}
    read_later = {name for layer in layers[start:] for name in layer.reads}
    made = {name for layer in layers[start:stop] for name in layer.makes}
    tensors = sum(
        unknown if sizes[name] is None else sizes[name] or 0
        for name in made | (before & read_later)
    )
    weights = {n: size for layer in layers[start:stop] for n, size in layer.weights.items()}
    return budget.memory_units(tensors, sum(weights.values()))


def can_cut(layers: list[Layer], cut: int, fixed: set[str]) -> bool:
    before = {name for layer in layers[:cut] for name in layer.makes}
    behind = {name for layer in layers[cut:] for name in layer.reads}
    return not before & behind & fixed


@given(models())
def test_segments_follow_each_other_and_hand_over_what_is_needed(
    model: tuple[list[Layer], set[str], Budget, set[str]],
) -> None:
    layers, compared, budget, fixed = model
    segments = plan_segments(layers, compared, budget, fixed)
    assert [index for s in segments for index in range(s.start, s.stop)] == list(range(len(layers)))
    shown = [name for segment in segments for name in segment.outputs]
    assert shown == [name for layer in layers for name in layer.makes if name in compared]
    available: set[str] = set()
    for segment in segments:
        assert available.issuperset(segment.inputs)
        made = {name for layer in layers[segment.start : segment.stop] for name in layer.makes}
        known = available | made | {"x"}
        for layer in layers[segment.start : segment.stop]:
            assert known.issuperset(layer.reads)
        assert (available | made).issuperset(segment.carried)
        assert not fixed.intersection(segment.carried)
        available = set(segment.carried)
    assert available == set()


@given(models())
def test_segments_fit_and_are_as_long_as_possible(
    model: tuple[list[Layer], set[str], Budget, set[str]],
) -> None:
    layers, compared, budget, fixed = model
    for segment in plan_segments(layers, compared, budget, fixed):
        assert segment.nbytes == needed(layers, budget, segment.start, segment.stop)
        cuts = [
            cut
            for cut in range(segment.start + 1, len(layers) + 1)
            if cut == len(layers) or can_cut(layers, cut, fixed)
        ]
        fitting = [c for c in cuts if needed(layers, budget, segment.start, c) <= budget.nbytes]
        if segment.nbytes > budget.nbytes:
            assert segment.stop == cuts[0], "only what cannot be cut exceeds the budget"
        else:
            assert segment.stop == max(fitting) or (
                needed(layers, budget, segment.start, cuts[cuts.index(segment.stop) + 1])
                > budget.nbytes
            )


def test_what_fits_stays_in_one_piece() -> None:
    assert spans(plan_segments(chain(4, 4, 4), {"t0"}, Budget(12))) == [(0, 3)]
    assert spans(plan_segments(chain(4, 4, 4), {"t0"}, Budget(11))) == [(0, 2), (2, 3)]
    assert plan_segments([], set(), Budget(0)) == []


def test_every_runner_holds_its_own_tensors() -> None:
    assert len(plan_segments(chain(4, 4, 4), {"t0"}, Budget(12, runners=2))) == 3


def test_weights_count_as_often_as_they_are_in_memory() -> None:
    layers = [Layer({f"t{i}": 0}, weights={f"w{i}": 10}) for i in range(4)]
    assert len(plan_segments(layers, {"t0"}, Budget(40, weight_copies=2))) == 2
    assert len(plan_segments(layers, {"t0"}, Budget(40, weight_copies=2, free_weights=40))) == 1


def test_a_shared_weight_counts_once() -> None:
    layers = [Layer({f"t{i}": 0}, weights={"w": 10}) for i in range(4)]
    assert len(plan_segments(layers, {"t0"}, Budget(10, weight_copies=1))) == 1


def test_a_size_that_is_not_known_is_taken_to_be_the_largest() -> None:
    assert spans(plan_segments(chain(10, None, 1), {"t0"}, Budget(20))) == [(0, 2), (2, 3)]


@pytest.mark.parametrize("reads", ["t1", "t0"])
def test_layers_in_no_order_are_not_cut(reads: str) -> None:
    layers = [Layer({"t0": 4}, [reads]), Layer({"t1": 4}), Layer({"t2": 4})]
    assert spans(plan_segments(layers, {"t0"}, Budget(0))) == [(0, 3)]


@given(models(), st.integers(0, 9))
def test_windows_are_complete_in_order_and_no_longer_than_they_may_be(
    drawn: tuple[list[Layer], set[str], Budget, set[str]], given_size: int
) -> None:
    layers, _, budget, fixed = drawn
    sizes = {name: size for layer in layers for name, size in layer.makes.items()}
    unknown = max((size for size in sizes.values() if size is not None), default=0)
    windows = plan_windows(layers, budget.nbytes, {"x": given_size}, fixed)
    assert [index for window in windows for index in window] == list(range(len(layers)))

    def taken(window: range) -> int:
        names = {n for i in window for n in (*layers[i].makes, *layers[i].reads)}
        held = (sizes.get(name, given_size) for name in names)
        return sum(unknown if size is None else size for size in held)

    def cuts(stop: int) -> bool:
        before = {name for layer in layers[:stop] for name in layer.makes}
        behind = {name for layer in layers[stop:] for name in layer.reads}
        return not before & behind & fixed

    for window in windows:
        assert cuts(window.stop)
        shorter = [stop for stop in range(window.start + 1, window.stop) if cuts(stop)]
        # What does not fit is no longer than the next cut makes it.
        assert taken(window) <= budget.nbytes or not shorter
        longer = [s for s in range(window.stop + 1, len(layers) + 1) if cuts(s)]
        if longer:
            assert taken(range(window.start, longer[0])) > budget.nbytes


def test_layers_that_are_not_in_order_are_one_window() -> None:
    assert plan_windows([Layer({"b": 1}, ["a"]), Layer({"a": 1})], 0, {}) == [range(2)]
