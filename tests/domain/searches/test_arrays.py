"""Which array of a computation differs, where it is far from what it should be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polygraphy.domain.search.arrays import nearest_array

_STEPS, _INPUTS, _UNITS = 5, 6, 5
_RNG = np.random.default_rng(0)
_WEIGHTS = {
    "w": _RNG.standard_normal((3 * _UNITS, _INPUTS)) * 0.4,
    "r": _RNG.standard_normal((3 * _UNITS, _UNITS)) * 0.4,
    "b": _RNG.standard_normal(3 * _UNITS) * 0.8,
}
_X = np.tanh(_RNG.standard_normal((_STEPS, _INPUTS)))


def recur(**changed: Any) -> Any:
    """Return the results of a gated recurrent layer, step by step."""
    weights = {**_WEIGHTS, **changed}
    w, r, b = (np.split(weights[name], 3) for name in "wrb")
    results, state = [], np.zeros(_UNITS)
    for row in _X:
        keep, reset = (0.5 + np.tanh((w[i] @ row + r[i] @ state + b[i]) / 2) / 2 for i in (0, 1))
        new = np.tanh(w[2] @ row + r[2] @ (reset * state) + b[2])
        state = (1 - keep) * new + keep * state
        results.append(state)
    return np.stack(results)


def far(name: str) -> Any:
    """Return a weight with one element far from what it should be; a bias that is zero."""
    array = np.array(_WEIGHTS[name])
    if name == "b":
        return array * 0
    array.flat[1] += 6
    return array


@pytest.mark.slow
@pytest.mark.parametrize("name", ["w", "b"])
def test_the_array_is_solved_for_though_it_is_far_from_what_it_should_be(name: str) -> None:
    goal, start = recur(), {**_WEIGHTS, name: far(name)}
    functions = {key: lambda array, key=key: recur(**{**start, key: array}) for key in _WEIGHTS}
    found = nearest_array(
        functions, start, goal, lambda result: bool(np.allclose(result, goal, atol=1e-4)), 6000
    )
    assert found is not None
    assert found[0] == name
    assert np.allclose(found[1], _WEIGHTS[name], atol=1e-2)


def test_an_element_beyond_the_range_in_which_it_has_an_effect_is_solved_for() -> None:
    healthy = np.linspace(-0.8, 0.9, _INPUTS)
    start = np.where(np.arange(_INPUTS) == 2, 5.0, healthy)

    def sample(array: Any) -> Any:
        """Return results that do not change with an element outside of -1 to 1."""
        return np.clip(array, -1, 1) * _X

    goal = sample(healthy)
    found = nearest_array(
        {"w": sample},
        {"w": start},
        goal,
        lambda result: bool(np.allclose(result, goal, atol=1e-4)),
        6000,
    )
    assert found is not None
    assert np.allclose(found[1], healthy, atol=1e-3)
