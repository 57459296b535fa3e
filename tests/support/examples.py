"""How many examples and cases of a test run in `make quick`, `make test` and `make test-all`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import settings

_Case = TypeVar("_Case")

_OF_EVERY_TEST = 100
"""The default of hypothesis, which the numbers in the tests are made for."""


def scaled(examples: int) -> int:
    """Return the number of examples of a property test for the current profile."""
    return max(1, examples * settings().max_examples // _OF_EVERY_TEST)


def spread(cases: Iterable[Any], count: int) -> list[Any]:
    """Return all cases, marked so that `make test` runs `count` evenly spread ones.

    The others are marked `thorough`, and run in `make test-all`.
    """
    cases = list(cases)
    kept = _spread_positions(len(cases), count)
    return [case if at in kept else _thorough(case) for at, case in enumerate(cases)]


def spread_evenly(cases: Sequence[_Case], count: int) -> list[_Case]:
    """Return at most `count` evenly spread cases."""
    kept = _spread_positions(len(cases), count)
    return [case for at, case in enumerate(cases) if at in kept]


def _spread_positions(length: int, count: int) -> set[int]:
    """Return the positions of `count` evenly spread items of a sequence."""
    return {round(at * (length - 1) / max(1, count - 1)) for at in range(count)}


def _thorough(case: Any) -> Any:
    """Return a parameter set for a case, marked `thorough`."""
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.thorough)
