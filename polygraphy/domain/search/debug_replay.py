"""Saved verdicts of a search, with which it resumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import Factory, frozen

from polygraphy.domain.search.subsets import Outcome

DEFAULT_PATH = "polygraphy_debug_replay.json"
"""File that `debug` commands save a replay to, and remove after a search that finishes."""

_SUCCESS = {Outcome.GOOD: True, Outcome.BAD: False, Outcome.UNRESOLVED: None}


@frozen
class IterationRecord:
    """The outcome and the checked state of one iteration, as a replay stores them.

    Attributes:
        outcome: the outcome of its check.
        iteration: its number.
        state: the checked state, in plain values.
    """

    outcome: Outcome
    iteration: int
    state: Mapping[str, Any] = Factory(dict)

    def is_about(self, state: Mapping[str, Any]) -> bool:
        """Return whether the record belongs to the same check, judged by the fields that both
        have."""
        return all(self.state[name] == value for name, value in state.items() if name in self.state)

    @property
    def success(self) -> bool | None:
        """Return whether the iteration passed; None if unknown."""
        return _SUCCESS[self.outcome]

    @staticmethod
    def outcome_of(success: bool | None) -> Outcome:
        """Return the outcome for a value of `success`:
        True passed, False failed, None is unresolved."""
        return next(outcome for outcome, passed in _SUCCESS.items() if passed is success)


class DebugReplay(dict[str, IterationRecord]):
    """Maps ``_N<iteration>`` to iterations; with several searches, also ``_<suffix>``."""

    @staticmethod
    def key(iteration: int, suffix: str = "") -> str:
        """Return the key of an iteration."""
        return f"_N{iteration}_{suffix}" if suffix else f"_N{iteration}"
