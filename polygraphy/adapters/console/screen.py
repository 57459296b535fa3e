"""What the console shows while a run goes on, of unknown length.

Lines are held back until it is known whether they are shown one by one, or summed up in a table.
The log file gets every line at its time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

from polygraphy.logger import G_LOGGER
from polygraphy.logger.sinks import of_one_stream, write_console

if TYPE_CHECKING:
    from polygraphy.logger.sinks import Line

_PATIENCE = 10.0
"""Seconds for which lines are held back: a model may take minutes to build."""


class Screen:
    """Shows, holds back or drops the lines of the log; used with the lock of the logger held.

    It holds lines back from `hold` on. `release` shows them, and what follows; `sum_up` drops those
    that tell a run, and all that is not at least `least` severe.
    """

    def __init__(self, least: int, patience: float = _PATIENCE) -> None:
        """Set how severe lines are that are shown beside a table.

        Args:
            least: the least severity of lines that tell no run.
            patience: how long lines are held back, in seconds.
        """
        self._least = least
        self._patience = patience
        self._held: list[tuple[Line, bool]] = []
        self._holds = False
        self._sums_up = False
        self._tells = False
        self._timer: Timer | None = None
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def __call__(self, lines: list[Line]) -> list[Line]:
        """Return the lines that are shown now."""
        if self._sums_up:
            return [] if self._tells else [line for line in lines if line[1] >= self._least]
        is_bad = not self._tells and any(severity >= G_LOGGER.ERROR for _, severity in lines)
        if self._holds and not is_bad:
            self._held += [(line, self._tells) for line in lines]
            return []
        self._show_held()
        return lines

    def _show_held(self) -> None:
        shown = [line for line, _ in self._held]
        self._forget()
        if shown:
            write_lines(shown)

    def _forget(self) -> None:
        self._held.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def holds(self) -> bool:
        """Whether lines are held back."""
        return self._holds

    @property
    def is_summary(self) -> bool:
        """Whether a run is summed up."""
        return self._sums_up

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Lines that are logged inside the block tell a run, and are dropped where it is summed
        up.
        """
        before, self._tells = self._tells, True
        try:
            yield
        finally:
            self._tells = before

    def keep(self, log: Callable[[], object]) -> None:
        """Hold back what `log` logs until another line is shown, or a run begins."""
        before, self._holds = self._holds, True
        with self.telling():
            log()
        self._holds = before

    def hold(self) -> None:
        """Hold lines back from now on, but no longer than it is bearable."""
        if self._holds or self._sums_up:
            return
        self._holds = True
        self._timer = Timer(self._patience, self.release)
        self._timer.daemon = True
        self._timer.start()

    def release(self) -> None:
        """Show what is held back, and what follows."""
        with G_LOGGER._lock:
            self._holds = False
            self._show_held()

    def _leave_to_parent(self) -> None:
        """In a forked process, show nothing that its parent shows: what is held back, and what
        happens in a run. What the child warns of is shown at once, because it may crash.
        """
        self._held.clear()
        self._timer = None
        self._holds, self._sums_up = False, True

    def sum_up(self) -> list[Line]:
        """Drop lines that tell a run from now on; return the other ones that are held back and
        severe enough to be shown.
        """
        with G_LOGGER._lock:
            self._sums_up, self._holds = True, False
            kept = [line for line, tells in self._held if not tells and line[1] >= self._least]
            self._forget()
            return kept


def is_abridged() -> bool:
    """Return whether a program shows the essence on the console, rather than every line."""
    return G_LOGGER.console_gate is not None


@contextmanager
def only_in_file() -> Iterator[None]:
    """Lines that are logged inside the block are for the log file alone."""
    before = G_LOGGER.console_gate
    G_LOGGER.console_gate = _nothing
    try:
        yield
    finally:
        G_LOGGER.console_gate = before


def _nothing(lines: list[Line]) -> list[Line]:
    return []


def write_lines(lines: Sequence[Line]) -> None:
    """Write lines to the console; their severity is their colour."""
    rest = list(lines)
    with G_LOGGER._lock:
        while rest:
            run = of_one_stream(rest)
            write_console(run, colors=G_LOGGER.colors)
            del rest[: len(run)]


def columns() -> int | None:
    """Return the columns of the terminal; None where the output is no terminal."""
    import shutil

    stream = sys.stdout
    if stream is None or not stream.isatty():
        return None
    return shutil.get_terminal_size().columns


def wrapped(text: str, indent: int) -> list[str]:
    """Return the lines of a text that has to fit a terminal."""
    from textwrap import wrap

    width = columns()
    return [text] if width is None else wrap(text, width, subsequent_indent=" " * indent)
