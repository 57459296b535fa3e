"""Which tactics are suspected."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.tactics import (
    Algorithm,
    TacticReplay,
    TensorInfo,
    suspicious_tactics,
)
from tests.domain.strategies import names


def algorithm(tactic: int) -> Algorithm:
    return Algorithm(1, tactic, [], [])


replays = st.lists(st.dictionaries(names, st.integers(0, 3).map(algorithm)).map(TacticReplay))


@given(replays, replays)
def test_what_is_suspected_was_chosen_by_bad_builds_only(
    good: list[TacticReplay], bad: list[TacticReplay]
) -> None:
    found = suspicious_tactics(good, bad)
    pairs = {(name, choice) for name, choices in found.items() for choice in choices}
    of = lambda replays: {pair for replay in replays for pair in replay.items()}  # noqa: E731
    assert pairs == of(bad) - of(good)
    assert all(len(set(choices)) == len(choices) > 0 for choices in found.values())


def test_they_are_in_the_order_in_which_they_were_met() -> None:
    first = TacticReplay({"b": algorithm(2), "a": algorithm(1)})
    second = TacticReplay({"a": algorithm(3), "b": algorithm(1)})
    assert suspicious_tactics([], [first, second]) == {
        "b": (algorithm(2), algorithm(1)),
        "a": (algorithm(1), algorithm(3)),
    }


def io_info(**facts: Any) -> Any:
    return SimpleNamespace(dtype="DataType.HALF", strides=[4, 2, 1], **facts)


def test_what_a_builder_reports_becomes_values() -> None:
    infos = [
        io_info(vectorized_dim=-1, components_per_element=1),
        io_info(vectorized_dim=1, components_per_element=8),
        io_info(),
    ]
    context = SimpleNamespace(num_inputs=2, num_outputs=1)
    choice = SimpleNamespace(
        algorithm_variant=SimpleNamespace(implementation=2147483661, tactic=-5),
        get_algorithm_io_info=infos.__getitem__,
    )
    assert Algorithm.from_trt(context, choice) == Algorithm(
        2147483661,
        -5,
        [
            TensorInfo("DataType.HALF", (4, 2, 1), -1, 1),
            TensorInfo("DataType.HALF", (4, 2, 1), 1, 8),
        ],
        [TensorInfo("DataType.HALF", (4, 2, 1))],
    )


def test_a_replay_goes_to_json_and_back() -> None:
    replay = TacticReplay().add("conv", algorithm(7))
    assert TacticReplay.from_json(replay.to_json()) == replay
