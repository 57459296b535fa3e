"""The choice of log lines that the console shows."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from polygraphy.logger import G_LOGGER
from polygraphy.logger.severity import PROGRESS
from polygraphy.logger.sinks import lines_of_first_stream, write_console

if TYPE_CHECKING:
    from polygraphy.logger.sinks import Line

EVERYTHING, WAITING, ANSWERS, WARNINGS = "everything", "waiting", "answers", "warnings"
_INCONCLUSIVE = 4
_INFO = "[I] "


class Screen:
    """Shows lines of the log, keeps them until their form is known, or drops them; called with the
    lock of the logger held.

    Attributes:
        form: `EVERYTHING`; `WAITING`, which keeps all lines but errors; `ANSWERS`, all but what a
            command is doing (`G_LOGGER.progress`); or `WARNINGS`. In all but the first, lines that
            are logged within `hide_lines` are not shown, because the console shows their content in
            its own way.
    """

    def __init__(self, form: str, least: int) -> None:
        """Set the form, and the least severity shown in forms other than the first."""
        self.form = form
        self._least = least
        self._held: list[tuple[Line, bool]] = []
        self._tells = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._hide_in_fork)

    def __call__(self, lines: list[Line]) -> list[Line]:
        """Return the lines to show now."""
        if self.form == EVERYTHING:
            return lines
        if self.form == WAITING:
            call = [] if self._tells else [line for line in lines if line[1] >= G_LOGGER.ERROR]
            self._held += [(line, self._tells) for line in lines if line not in call]
            return call
        return [] if self._tells else self._visible_lines(lines)

    def _visible_lines(self, lines: Sequence[Line]) -> list[Line]:
        """Return the lines that are severe enough to be shown."""
        if self.form == WARNINGS:
            return [line for line in lines if line[1] >= self._least]
        return [
            (text.removeprefix(_INFO), severity)
            for text, severity in lines
            if severity >= self._least and severity != PROGRESS
        ]

    @contextmanager
    def hide_lines(self) -> Iterator[None]:
        """Mark lines logged inside the block as hidden:
        the console shows their content in its own way.
        """
        before, self._tells = self._tells, True
        try:
            yield
        finally:
            self._tells = before

    def settle(self, form: str) -> None:
        """Change the form of the log, and show the kept lines that this form shows."""
        with G_LOGGER._lock:
            screen, self._held = self._held, []
            self.form = form
            lines = [line for line, tells in screen if form == EVERYTHING or not tells]
            lines = lines if form == EVERYTHING else self._visible_lines(lines)
            if lines:
                write_lines(lines)

    def _hide_in_fork(self) -> None:
        """Hide, in a forked process, the lines that its parent shows.
        Warnings are shown at once, because it may crash.
        """
        self._held.clear()
        if self.form == WAITING:
            self.form = WARNINGS


def is_abridged() -> bool:
    """Return whether a program shows a summary on the console, not every line."""
    return G_LOGGER.console_gate is not None


def shows_answers() -> bool:
    """Return whether the console shows answers instead of the lines of the log."""
    gate = G_LOGGER.console_gate
    return isinstance(gate, Screen) and gate.form == ANSWERS


def keeps_lines() -> bool:
    """Return whether lines of the log are kept, or dropped, during a run."""
    gate = G_LOGGER.console_gate
    return isinstance(gate, Screen) and gate.form in (WAITING, WARNINGS)


def say(text: str, severity: int = G_LOGGER.INFO, indent: int | None = None) -> None:
    """Print an answer without the tags of the log, which gets it as a message.
    `indent` applies to the second and later lines of a sentence."""
    log(text, severity)
    show(text.split("\n") if indent is None else wrap_text(text, indent), severity)


def log(text: str, severity: int = G_LOGGER.INFO) -> None:
    """Log a message; a console with answers shows it in another form."""
    with log_to_file_only() if shows_answers() else nullcontext():
        G_LOGGER.log(text, severity)


def show(lines: Iterable[str], severity: int = G_LOGGER.INFO) -> None:
    """Show lines only on the console, if it shows answers."""
    level = max(G_LOGGER.severity, G_LOGGER.console_severity)
    if shows_answers() and severity >= level:
        write_lines([(line, severity) for line in lines])


def show_instead(text: str, lines: Iterable[str]) -> None:
    """Log a message. A console that does not show the log line by line shows `lines` instead."""
    if not is_abridged():
        G_LOGGER.info(text)
        return
    with log_to_file_only():
        G_LOGGER.info(text)
    if max(G_LOGGER.severity, G_LOGGER.console_severity) <= G_LOGGER.INFO:
        write_lines([(line, G_LOGGER.INFO) for line in lines])


@contextmanager
def log_to_file_only() -> Iterator[None]:
    """Write lines logged inside the block to the log file only."""
    before = G_LOGGER.console_gate
    G_LOGGER.console_gate = _nothing
    try:
        yield
    finally:
        G_LOGGER.console_gate = before


def _nothing(lines: list[Line]) -> list[Line]:
    """Return an empty list."""
    return []


def write_lines(lines: Sequence[Line]) -> None:
    """Write lines to the console, colored by severity."""
    rest_lines = list(lines)
    with G_LOGGER._lock:
        while rest_lines:
            run = lines_of_first_stream(rest_lines)
            write_console(run, colors=G_LOGGER.colors)
            del rest_lines[: len(run)]


def verdict_lines(code: int, words: str, seconds: float) -> list[Line]:
    """Return the last lines of a program: passed, failed or inconclusive, and the reason."""
    word, severity = ("PASSED", G_LOGGER.FINISH) if code == 0 else ("FAILED", G_LOGGER.ERROR)
    if code == _INCONCLUSIVE:
        word, severity = "INCONCLUSIVE", G_LOGGER.WARNING
    text = "  ".join(filter(None, (word, words, f"({seconds:.1f} s)")))
    return [(line, severity) for line in wrap_text(text, len(word) + 2)]


def columns() -> int | None:
    """Return the number of columns of the terminal; None if the output is not a terminal."""
    import shutil

    stream = sys.stdout
    if stream is None or not stream.isatty():
        return None
    return shutil.get_terminal_size().columns


def wrap_text(text: str, indent: int) -> list[str]:
    """Return the lines of a text wrapped to the terminal."""
    from textwrap import wrap

    width = columns()
    return [text] if width is None else wrap(text, width, subsequent_indent=" " * indent)
