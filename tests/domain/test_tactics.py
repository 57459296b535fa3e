from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polygraphy.domain.tactics import Algorithm, TacticReplay, TensorInfo
from tests.domain.strategies import names

STRIDES: Any = (4, 1)
INFO = TensorInfo("DataType.FLOAT", STRIDES, -1, 1)


def algorithm(tactic: int) -> Algorithm:
    return Algorithm(0x8000000D, tactic, [INFO], [INFO, INFO])


replays = st.dictionaries(names, st.integers(0, 2).map(algorithm)).map(TacticReplay)


def test_values_are_normalized() -> None:
    strides: Any = [4, 1]
    info = TensorInfo(DType(), strides)
    assert (info.dtype, info.strides) == ("DataType.HALF", (4, 1))
    assert (info.vectorized_dim, info.components_per_element) == (None, None)
    assert algorithm(1).inputs == (INFO,)
    assert hash(algorithm(1)) == hash(algorithm(1))
    with pytest.raises(AttributeError):
        algorithm(1).tactic = 2  # type: ignore[misc]


class DType:
    def __str__(self) -> str:
        return "DataType.HALF"


def test_as_people_read_it() -> None:
    info = "TensorInfo(DataType.FLOAT, (4, 1), -1, 1)"
    assert str(INFO) == info
    text = (
        f"(Implementation: 2147483661, Tactic: 7) | Inputs: ({info},) | Outputs: ({info}, {info})"
    )
    assert str(algorithm(7)) == text
    replay = TacticReplay().add("conv", algorithm(7)).add("relu", algorithm(7))
    assert str(replay) == (
        f"Layer: conv\n    Algorithm: {text}\nLayer: relu\n    Algorithm: {text}"
    )
    assert "Inputs: () | Outputs: ()" in str(Algorithm(1, 2, [], []))


def test_adding_is_chained_and_replaces() -> None:
    replay = TacticReplay()
    assert replay.add("conv", algorithm(1)).add("conv", algorithm(2)) is replay
    assert replay == {"conv": algorithm(2)}


@given(replays, replays)
def test_the_difference_is_what_must_change(mine: TacticReplay, theirs: TacticReplay) -> None:
    difference = mine.difference(theirs)
    for name in {*mine, *theirs}:
        assert (name in difference) == (mine.get(name) != theirs.get(name))
    assert {name: pair[::-1] for name, pair in difference.items()} == theirs.difference(mine)
    changed = {**mine, **{name: choice for name, (_, choice) in difference.items()}}
    assert {name: choice for name, choice in changed.items() if choice is not None} == theirs


@given(replays)
def test_nothing_differs_from_itself(replay: TacticReplay) -> None:
    assert replay.difference(replay) == {}
