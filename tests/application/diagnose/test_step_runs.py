"""What is known of a model that runs step by step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polygraphy.application.diagnose.comparisons.step_runs import Party, _match_state
from polygraphy.domain.states.memory import StepFacts, StepFeed
from polygraphy.domain.states.pairs import GROWS, REPLACED, SLOTS, StatePair


def party(*feeds: StepFeed, first: Any = None) -> Party:
    made = {"y": "last", "x": "early"}
    nodes = [SimpleNamespace(label=label, makes=[name]) for name, label in made.items()]
    model: Any = SimpleNamespace(nodes=nodes)
    return Party("ort", None, model, None, feeds, None, first)  # type: ignore[arg-type]


def test_the_maker_of_an_output_may_be_in_the_model_of_the_first_step() -> None:
    first = SimpleNamespace(nodes=[SimpleNamespace(label="begin", makes=["own", "x"])])
    feed = StepFeed({}, StepFacts(0, 0, 1), [], {"own": "only_first"})
    with_first, without = party(feed, first=first), party(feed)
    assert [with_first.maker_of(name) for name in ("y", "x")] == [["last"], ["early"]]
    assert (with_first.maker_of("only_first"), with_first.maker_of("none")) == (["begin"], [])
    assert (without.maker_of("y"), without.maker_of("only_first")) == (["last"], [])


@pytest.mark.parametrize(
    ("kind", "axis", "shape"),
    [(GROWS, 1, (1, 5, 4)), (REPLACED, None, (1, 7, 4)), (SLOTS, 1, (1, 2, 4))],
)
def test_a_state_has_the_length_that_its_kind_implies(
    kind: str, axis: int | None, shape: tuple[int, ...]
) -> None:
    pair = StatePair("present", "past", kind, axis)
    feeds = [
        StepFeed({"past": np.zeros((1, 2, 4), np.float32)}, StepFacts(0, 0, 5), [pair]),
        StepFeed({}, StepFacts(1, 5, 1), [pair]),
    ]
    like = _match_state(party(*feeds), pair, 1, None, np.ones((1, 7, 4)))
    assert (like.shape, str(like.dtype)) == (shape, "float32")
