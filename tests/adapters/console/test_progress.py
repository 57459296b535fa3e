"""A bar is drawn on a terminal, and nowhere else."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from polygraphy.adapters.console import progress
from polygraphy.adapters.console.progress import TerminalProgress
from polygraphy.logger import G_LOGGER

Shown = Callable[..., str]


class Terminal(io.StringIO):
    """A stream that looks like a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Return a function that follows a job on a terminal, and gives what that shows."""

    def follow_on_terminal(seconds: list[float], total: int | None = 10) -> str:
        stream = Terminal()
        monkeypatch.setattr(sys, "stderr", stream)
        follow(seconds, total)
        return stream.getvalue()

    monkeypatch.setenv("TERM", "xterm")
    return follow_on_terminal


def follow(seconds: list[float], total: int | None) -> None:
    """Take a step at each of some times after the start."""
    clock = iter([0.0, *seconds])
    with TerminalProgress(now=lambda: next(clock)).follow("Running", total) as step:
        for _ in seconds:
            step()


def test_a_bar_shows_how_far_a_job_is(shown: Shown) -> None:
    text = shown([1.0], 10)
    assert "Running" in text
    assert "1/10" in text


def test_a_bar_goes_without_a_total(shown: Shown) -> None:
    assert "1/?" in shown([1.0], None)


def watched(monkeypatch: pytest.MonkeyPatch, delay: float) -> str:
    """Return what is shown of a job that tells one thing, and then takes a tenth of a second."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "_DELAY", delay)
    with TerminalProgress().watch("Building") as tell:
        tell("first [part]")
        time.sleep(0.1)
    return stream.getvalue()


def test_a_job_of_somebody_else_shows_how_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    text = watched(monkeypatch, 0.01)
    assert "Building: first [part]" in text
    assert "0:00:0" in text
    assert watched(monkeypatch, 10) == ""


def test_there_is_one_bar_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with TerminalProgress(now=iter([0.0, 1.0, 2.0]).__next__).follow("Running", 2) as step:
        step()
        assert "Building" not in watched(monkeypatch, 0.01)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
def test_a_fork_writes_though_its_line_was_being_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    line = progress._Line(lambda: "Running")
    line.start()
    drawing, done = threading.Event(), threading.Event()

    def draw() -> None:
        with line._lock:
            drawing.set()
            done.wait()

    thread = threading.Thread(target=draw)
    thread.start()
    drawing.wait()
    child = os.fork()
    if child == 0:
        sys.stderr.write("from the fork\n")
        os._exit(7)
    ended = (0, 0)
    for _ in range(100):
        ended = os.waitpid(child, os.WNOHANG)
        if ended[0]:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
    done.set()
    thread.join()
    line.stop()
    assert os.waitstatus_to_exitcode(ended[1]) == 7


def test_a_quick_job_gets_no_bar(shown: Shown) -> None:
    assert shown([0.1, 0.2, 0.4]) == ""


def test_a_bar_begins_when_a_job_takes_longer(shown: Shown) -> None:
    assert "2/10" in shown([0.1, 0.6])


@pytest.mark.parametrize(
    "silence",
    [
        lambda patch: patch.setenv("TERM", "dumb"),
        lambda patch: patch.setattr(G_LOGGER, "json", True),
        lambda patch: patch.setattr(G_LOGGER, "use_python_logging_system", True),
        lambda patch: patch.setattr(G_LOGGER, "module_severity", G_LOGGER.WARNING),
    ],
)
def test_who_asks_for_silence_gets_it(
    silence: Callable[[pytest.MonkeyPatch], None],
    shown: Shown,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silence(monkeypatch)
    assert shown([1.0]) == ""


def test_a_pipe_gets_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    follow([1.0], 10)
    assert capsys.readouterr().err == ""


PROGRAM = """
import time
from polygraphy.adapters.console import progress
from polygraphy.adapters.console.progress import TerminalProgress
from polygraphy.logger import G_LOGGER
clock = iter(range(100))
G_LOGGER.log_file = "run.log"
with TerminalProgress(now=lambda: next(clock)).follow("Running", 3) as step:
    for index in range(3):
        step()
        G_LOGGER.info(f"line {index}")
"""


@pytest.mark.parametrize("pipes_output", [True, False])
def test_the_log_is_whole_beside_a_bar(tmp_path: Path, pipes_output: bool) -> None:
    leader, follower = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "PYTHONPATH": str(Path.cwd())},
        stdout=subprocess.PIPE if pipes_output else follower,
        stderr=follower,
    )
    os.close(follower)
    piped = done.communicate()[0]
    shown = _read(leader)
    lines = [f"line {index}" for index in range(3)]
    assert "Running" in shown
    if pipes_output:
        assert piped.decode().splitlines() == [f"[I] {line}" for line in lines]
        assert not any(line in shown for line in lines)
    else:
        assert all(line in shown for line in lines)
    log = (tmp_path / "run.log").read_text(encoding="utf-8")
    assert log.splitlines() == [f"[I] {line}" for line in lines]


def _read(descriptor: int) -> str:
    data = b""
    try:
        while chunk := os.read(descriptor, 4096):
            data += chunk
    except OSError:  # The other end is closed, and all is read.
        pass
    os.close(descriptor)
    return data.decode()


def test_the_log_says_what_is_done_where_nobody_watches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_REPORTS", (0.02, 0.2))
    with TerminalProgress().watch("Building engine") as tell:
        time.sleep(0.1)
        tell("timing conv")
        time.sleep(0.3)
    said = capsys.readouterr().out
    assert re.search(r"^\[I\] Building engine: 0 s so far$", said, re.M)
    assert said.endswith("[I] Building engine: timing conv (after 0 s)\n")


def test_a_quick_job_leaves_no_line_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    with TerminalProgress().watch("Building engine") as tell:
        tell("timing conv")
    assert capsys.readouterr().out == ""
