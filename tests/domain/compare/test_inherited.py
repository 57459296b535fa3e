"""What rounding explains allows for what the inputs of a layer brought along, and for no more."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polygraphy.domain.compare import SimpleCompareFunc
from polygraphy.domain.results.results import (
    IterationResult,
    Lineage,
    RecomputedTensors,
    RunResults,
)
from tests.support.examples import scaled

AUTO = SimpleCompareFunc(rtol="auto", atol="auto")


class Subtraction:
    """A layer that takes 1 from its input, which makes much of differences of inputs close to 1;
    and one that looks where the largest entry is.
    """

    def __init__(self, spread: float = 0.0) -> None:
        self.spread = spread

    def recompute(
        self, name: str, runs: Sequence[Mapping[str, Any]], epsilon: float
    ) -> RecomputedTensors | None:
        assert (epsilon == 0) == (name == "index")
        if name == "unknown":
            return None
        if name == "index":
            return RecomputedTensors([np.argmax(run["x"]) for run in runs], np.zeros(()))
        values = [run["x"].astype(np.float64) - 1 for run in runs]
        return RecomputedTensors(values, np.full(values[0].shape, self.spread))


def sides(
    name: str, inputs: Sequence[Any], added: Any = 0, models: Any = None
) -> tuple[IterationResult, IterationResult]:
    first = models or Subtraction()
    made = []
    for number, x in enumerate(inputs):
        value = np.argmax(x) if name == "index" else (x - np.float32(1)).astype(np.float32)
        outputs = IterationResult({name: value if number else value + added})
        model = first[number] if isinstance(first, tuple) else first
        outputs.lineage = Lineage(model.recompute, {"x": x, name: value})
        made.append(outputs)
    return made[0], made[1]


def inputs(size: int = 64, seed: int = 0) -> list[Any]:
    """Return values close to 1, and the same but for their last digits."""
    random = np.random.default_rng(seed)
    x = (1 + 1e-4 * random.normal(size=size)).astype(np.float32)
    return [x, (x + np.float32(3e-7) * random.choice((-1, 1), size)).astype(np.float32)]


@settings(max_examples=scaled(40), deadline=None)
@given(st.integers(0, 1000), st.integers(0, 63))
def test_what_inputs_bring_along_is_allowed_for_and_faults_are_not(seed: int, place: int) -> None:
    name, data = "y", inputs(seed=seed)
    plain = [IterationResult(each) for each in sides(name, data)]
    assert not AUTO(*plain)[name]
    passed = AUTO(*sides(name, data))[name]
    assert passed
    assert "plus the differences of its inputs" in passed.tolerance.reason
    assert passed.max_absdiff <= passed.tolerance.atol
    fault = np.zeros(64, np.float32)
    fault[place] = 5e-7  # No larger than what the inputs bring along.
    assert not AUTO(*sides(name, data, fault))[name]


def test_a_badly_conditioned_layer_may_add_what_rounding_of_its_operands_does() -> None:
    fault = np.full(64, 5e-7, np.float32)
    assert not AUTO(*sides("y", inputs(), fault))["y"]
    assert AUTO(*sides("y", inputs(), fault, Subtraction(spread=1e-7)))["y"]


def test_exact_values_are_those_that_the_inputs_lead_to() -> None:
    data = [np.array([1, 2, 3], np.float32), np.array([1, 3, 2], np.float32)]
    assert AUTO(*sides("index", data))["index"]
    assert not AUTO(*sides("index", data, np.int64(1)))["index"]


@pytest.mark.parametrize("models", [None, (Subtraction(), Subtraction())])
def test_one_implementation_computes_both(models: Any) -> None:
    name = "unknown" if models is None else "y"
    assert not AUTO(*sides(name, inputs(), models=models))[name]


def test_nothing_is_allowed_for_where_values_are_not_finite() -> None:
    data = inputs()
    fault = np.zeros(64, np.float32)
    fault[3] = np.nan
    assert not AUTO(*sides("y", data, fault))["y"]


def test_given_tolerances_stay_what_they_are() -> None:
    assert not SimpleCompareFunc(rtol=1e-9, atol=1e-9)(*sides("y", inputs()))["y"]


def test_what_outputs_were_computed_from_is_not_kept() -> None:
    outputs, _ = sides("y", inputs())
    results = RunResults([("runner", [outputs])])
    copied = pickle.loads(pickle.dumps(results))
    assert copied[0][1][0].lineage is None
    assert outputs.lineage is not None
