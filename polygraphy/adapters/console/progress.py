"""Progress: a line at the bottom of a terminal; elsewhere, a line of the log now and then."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import timedelta
from threading import Event, RLock, Thread, Timer
from typing import Any

from polygraphy.adapters.console.screen import keeps_lines
from polygraphy.logger import G_LOGGER
from polygraphy.logger.sinks import escape_controls

_DELAY = 0.5
"""Seconds that a job takes before there is a line: what is done by then needs none."""

_REPORTS = (30.0, 60.0)
"""Seconds until the log says that a job still runs, and until it does so again."""

_PAUSE = 0.1
"""Seconds between two drawings of a line."""
_BAR = 40
"""Characters of a bar."""
_CLEAR = "\r\x1b[K"

# Progress lines in use: only one can be drawn, because two would overwrite each other.
_drawn: list[_Line] = []


class _Line:
    """A line at the bottom of a terminal, redrawn on standard error; text written to the terminal
    meanwhile appears above it."""

    def __init__(self, text: Callable[[], str]) -> None:
        """Set the function that returns the current text."""
        self._text = text
        self._stream = sys.stderr
        self._lock = RLock()
        self._ended = Event()
        self._process = os.getpid()
        self._redirected: dict[str, Any] = {}
        # Whether output above ends within a line; the progress line is drawn after its end.
        self._is_within_line = False

    def start(self) -> None:
        """Start drawing the line."""
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is not None and stream.isatty():
                self._redirected[name] = _StreamAbove(stream, self)
                setattr(sys, name, self._redirected[name])
        self._draw()
        Thread(target=self._redraw, daemon=True).start()

    def stop(self) -> None:
        """Clear the progress line, if it was drawn."""
        self._ended.set()
        for name, stream in self._redirected.items():
            if getattr(sys, name) is stream:
                setattr(sys, name, stream.stream)
        if self._redirected:
            with self._lock:
                self._put(_CLEAR)

    def write(self, stream: Any, text: str) -> int:
        """Write a text above the line; return the number of characters."""
        if self._ended.is_set() or os.getpid() != self._process:  # A forked process draws nothing.
            written: int = stream.write(text)
            return written
        with self._lock:
            if not self._is_within_line:
                self._put(_CLEAR)
            written = stream.write(text)
            stream.flush()
            self._is_within_line = not text.endswith("\n")
            self._draw()
        return written

    def _redraw(self) -> None:
        """Draw the line repeatedly until it is stopped."""
        while not self._ended.wait(_PAUSE):
            self._draw()

    def _draw(self) -> None:
        """Draw the line once, cut to the width of the terminal."""
        with self._lock:
            if not self._is_within_line and not self._ended.is_set():
                self._put(_CLEAR + self._text()[: shutil.get_terminal_size().columns - 1])

    def _put(self, text: str) -> None:
        """Write to the stream; stop drawing if that fails."""
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        try:
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
            self._stream.flush()
        except (OSError, ValueError):  # The terminal was closed.
            self._ended.set()


class _StreamAbove:
    """A terminal stream whose text appears above the progress line."""

    def __init__(self, stream: Any, line: _Line) -> None:
        """Wrap a stream, whose text appears above a line."""
        self.stream = stream
        self._line = line

    def write(self, text: str) -> int:
        """Write a text; return the number of characters."""
        return self._line.write(self.stream, text)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the stream."""
        return getattr(self.stream, name)


class TerminalProgress:
    """Draws a progress bar below the lines of the log, if standard error is a terminal."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Set the clock, in seconds."""
        self._now = now

    def follow(self, what: str, total: int | None) -> AbstractContextManager[Callable[[], None]]:
        """Return a context manager that shows the progress of a job.
        See `polygraphy.ports.reporting`.
        """
        return self._bar(what, total) if _is_watched() else nullcontext(_ignore_step)

    def watch(self, what: str) -> AbstractContextManager[Callable[[str], None]]:
        """Return a context manager that shows the stage of a job; see `polygraphy.ports.reporting`.
        Inside a job with a bar, nothing is drawn. Without a terminal, the log shows the stage from
        time to time.
        """
        if not _is_watched():
            return _log_progress(what)
        return _stage_line(what) if not _drawn else nullcontext(_ignore_stage)

    @contextmanager
    def _bar(self, what: str, total: int | None) -> Iterator[Callable[[], None]]:
        """Draw a bar once the job takes long; yield the function to call after each step."""
        start, steps, is_drawn = self._now(), 0, False
        began = time.monotonic()
        line = _Line(lambda: _bar_text(what, steps, total, time.monotonic() - began))
        with ExitStack() as stack:

            def step() -> None:
                """Count a step, and draw the bar once the job takes long."""
                nonlocal steps, is_drawn
                steps += 1
                if not is_drawn and self._now() - start >= _DELAY:
                    is_drawn = True
                    stack.enter_context(_draw_line(line))

            yield step


@contextmanager
def _draw_line(line: _Line) -> Iterator[None]:
    """Draw a line inside the block."""
    _drawn.append(line)
    line.start()
    try:
        yield
    finally:
        line.stop()
        _drawn.remove(line)


@contextmanager
def _stage_line(what: str) -> Iterator[Callable[[str], None]]:
    """Draw a line once the job takes long; yield the function that reports a stage."""
    began, current = time.monotonic(), what

    def tell(part: str) -> None:
        """Show a stage of the job."""
        nonlocal current
        current = f"{what}: {part}"

    line = _Line(lambda: f"{current}  {_format_elapsed(time.monotonic() - began)}")
    timer = Timer(_DELAY, line.start)
    timer.daemon = True
    _drawn.append(line)
    timer.start()
    try:
        yield tell
    finally:
        timer.cancel()
        timer.join()
        line.stop()
        _drawn.remove(line)


@contextmanager
def _log_progress(what: str) -> Iterator[Callable[[str], None]]:
    """Log the stage while the job takes long; yield the function that reports a stage."""
    ended, start, current = Event(), time.monotonic(), ""

    def tell(part: str) -> None:
        """Remember the stage of the job."""
        nonlocal current
        current = part

    def report() -> None:
        """Log the stage at intervals until the job ends."""
        pause, pauses = _REPORTS
        while not ended.wait(pause):
            seconds = f"{time.monotonic() - start:.0f} s"
            text = (
                f"{what}: {current} (after {seconds})" if current else f"{what}: {seconds} so far"
            )
            G_LOGGER.info(text)
            if keeps_lines() and sys.stderr is not None and G_LOGGER.is_enabled_for(G_LOGGER.INFO):
                print(escape_controls(text), file=sys.stderr, flush=True)
            pause = pauses

    reporter = Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield tell
    finally:
        ended.set()
        reporter.join()


def _bar_text(what: str, steps: int, total: int | None, seconds: float) -> str:
    """Return the progress of a job as text, with elapsed and estimated remaining time."""
    elapsed = _format_elapsed(seconds)
    if not total:
        return f"{what}  {steps}/?  {elapsed}"
    full = _BAR * min(steps, total) // total
    elapsed_text = (
        _format_elapsed(seconds * (total - steps) / steps) if 0 < steps <= total else "-:--:--"
    )
    bar = "#" * full + "-" * (_BAR - full)
    return f"{what} [{bar}] {steps}/{total}  {elapsed}, {elapsed_text} left"


def _format_elapsed(seconds: float) -> str:
    """Return seconds as ``H:MM:SS``."""
    return str(timedelta(seconds=int(seconds)))


def _is_watched() -> bool:
    """Return whether a user can see a bar, and did not request silence or another log format."""
    stream = sys.stderr
    if stream is None or stream.closed or not stream.isatty() or os.environ.get("TERM") == "dumb":
        return False
    if G_LOGGER.json or G_LOGGER.use_python_logging_system:
        return False
    return G_LOGGER.is_enabled_for(G_LOGGER.INFO)


def _ignore_step() -> None:
    """Ignore a step."""


def _ignore_stage(part: str) -> None:
    """Ignore a stage."""
