"""Progress: a bar on a terminal; elsewhere, a line of the log now and then."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from threading import Event, Thread, Timer
from typing import TYPE_CHECKING

from polygraphy.adapters.console.screen import keeps_lines
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from rich.progress import Progress


_DELAY = 0.5
"""Seconds that a job takes before there is a bar: what is done by then needs none."""

_REPORTS = (30.0, 60.0)
"""Seconds until the log says that a job still runs, and until it does so again."""

_drawn: list[Progress] = []  # Two of them would draw over each other.


class TerminalProgress:
    """Draws a bar on standard error where that is a terminal, below the lines of the log."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Take a clock, in seconds."""
        self._now = now

    def follow(self, what: str, total: int | None) -> AbstractContextManager[Callable[[], None]]:
        """Follow a job for the length of a `with` block; see `polygraphy.ports.reporting`."""
        return self._bar(what, total) if _is_watched() else nullcontext(_nothing)

    def watch(self, what: str) -> AbstractContextManager[Callable[[str], None]]:
        """Follow a job; see `polygraphy.ports.reporting`. Inside of a job
        that has a bar already, nothing is drawn. Without a terminal, the log says now and then
        what is being done.
        """
        if not _is_watched():
            return _reported(what)
        return _line(what) if not _drawn else nullcontext(_nothing_told)

    @contextmanager
    def _bar(self, what: str, total: int | None) -> Iterator[Callable[[], None]]:
        start, steps, drawn = self._now(), 0, None
        with ExitStack() as stack:

            def step() -> None:
                nonlocal steps, drawn
                steps += 1
                if drawn is None and self._now() - start >= _DELAY:
                    drawn = stack.enter_context(_shown(_progress()))
                    drawn.add_task(what, total=total)
                if drawn is not None:
                    drawn.update(drawn.task_ids[0], completed=steps)

            yield step


@contextmanager
def _shown(progress: Progress) -> Iterator[Progress]:
    """Draw a bar inside the block."""
    _drawn.append(progress)
    try:
        with progress:
            yield progress
    finally:
        _drawn.remove(progress)


@contextmanager
def _line(what: str) -> Iterator[Callable[[str], None]]:
    """Draw a line once the job takes long, even if nothing is reported."""
    progress = _elapsed()
    task = progress.add_task(what)
    timer = Timer(_DELAY, progress.start)
    timer.daemon = True
    _drawn.append(progress)
    timer.start()
    try:
        yield lambda part: progress.update(task, description=f"{what}: {part}")
    finally:
        timer.cancel()
        timer.join()
        progress.stop()
        _drawn.remove(progress)


@contextmanager
def _reported(what: str) -> Iterator[Callable[[str], None]]:
    """Log what is being done while the job takes long."""
    ended, start, current = Event(), time.monotonic(), ""

    def tell(part: str) -> None:
        nonlocal current
        current = part

    def report() -> None:
        pause, pauses = _REPORTS
        while not ended.wait(pause):
            done = f": {current}" if current else ""
            said = f"{what} has taken {time.monotonic() - start:.0f} s{done}"
            G_LOGGER.info(said)
            if keeps_lines() and sys.stderr is not None and G_LOGGER.is_enabled_for(G_LOGGER.INFO):
                print(said, file=sys.stderr, flush=True)
            pause = pauses

    reporter = Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield tell
    finally:
        ended.set()
        reporter.join()


def _elapsed() -> Progress:
    """Return a line without a bar, which goes when the job ends."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
    )


def _progress() -> Progress:
    """Return the bar, which goes when the job ends; lines of the log appear above it."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
    )


def _is_watched() -> bool:
    """Return whether a bar is seen, and the user did not ask for silence or another form of log."""
    stream = sys.stderr
    if stream is None or stream.closed or not stream.isatty() or os.environ.get("TERM") == "dumb":
        return False
    if G_LOGGER.json or G_LOGGER.use_python_logging_system:
        return False
    return G_LOGGER.is_enabled_for(G_LOGGER.INFO)


def _nothing() -> None:
    """Take a step that is not shown."""


def _nothing_told(part: str) -> None:
    """Do something that is not shown."""
