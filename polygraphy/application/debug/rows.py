"""What a search shows of its iterations: a table of few lines, whatever their number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polygraphy.domain.search import Outcome
from polygraphy.logger import G_LOGGER

_ALL = 6
"""So many rows are shown whatever they say."""
_MOST = 9
"""So many rows are shown at most: after the first ones those with a failure, of half the size."""
_WIDTH = 76
_WORDS = {
    Outcome.GOOD: "passes",
    Outcome.BAD: "fails",
    Outcome.UNRESOLVED: "unresolved",
}
_COLUMNS = {"num_nodes": "nodes", "raised": "layers"}
"""What a column is called, by the name of what it shows in the state of an iteration."""


class Rows:
    """The table, of which each row is logged when its iteration is over.

    Attributes:
        left_out: how many rows are not shown.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._shown = 0
        self._column: str | None = None
        self._least: int | None = None

    def add(
        self,
        number: int,
        state: Mapping[str, Any],
        outcome: Outcome,
        seconds: float,
        reason: str = "",
    ) -> None:
        """Add a row.

        Args:
            number: how many there were before.
            state: what was checked.
            outcome: the answer.
            seconds: how long it took.
            reason: why, in a few words; may be empty.
        """
        size = self._size(state)
        if not self._is_shown(outcome, size):
            self.left_out += 1
            return
        if not self._shown:
            named = f" {_COLUMNS[self._column]:>6}" if self._column else ""
            G_LOGGER.info(f"{'#':>4}{named}  {'check':10} {'time':>8}")
        self._shown += 1
        sized = f" {'' if size is None else size:>6}" if self._column else ""
        line = f"{number:>4}{sized}  {_WORDS[outcome]:10} {seconds:6.1f} s  {_cut(reason)}"
        G_LOGGER.info(line.rstrip())

    def _size(self, state: Mapping[str, Any]) -> int | None:
        if self._column is None and not self._shown:
            self._column = next((name for name in _COLUMNS if name in state), None)
        return None if self._column is None else state.get(self._column)

    def _is_shown(self, outcome: Outcome, size: int | None) -> bool:
        is_less = size is not None and (self._least is None or 2 * size <= self._least)
        if self._shown >= _MOST:
            return False
        if self._shown >= _ALL and not (outcome is Outcome.BAD and (is_less or size is None)):
            return False
        if outcome is Outcome.BAD and size is not None:
            self._least = size
        return True


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
