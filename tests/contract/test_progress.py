"""What everything that follows a job promises, asked of each."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from polygraphy.adapters.console.progress import TerminalProgress
from polygraphy.adapters.fake import RecordingProgress
from polygraphy.binding import resolve
from polygraphy.ports.reporting import Progress


class Terminal(io.StringIO):
    """A stream that looks like a terminal."""

    def isatty(self) -> bool:
        return True


def _on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Progress:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    return TerminalProgress(now=iter(range(1000)).__next__)


@pytest.fixture(params=["fake", "piped", "terminal"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Progress]:
    """Return what makes the adapter, within a test: streams are captured again before each."""
    made: dict[str, Callable[[], Progress]] = {
        "fake": RecordingProgress,
        "piped": TerminalProgress,
        "terminal": lambda: _on_a_terminal(monkeypatch),
    }
    return made[request.param]


def test_the_adapter_is_bound() -> None:
    assert isinstance(resolve(Progress), TerminalProgress)


@pytest.mark.parametrize("total", [3, None, 0])
@pytest.mark.parametrize("steps", [0, 3, 5])
def test_a_job_takes_as_many_steps_as_it_takes(
    make: Callable[[], Progress], total: int | None, steps: int
) -> None:
    with make().follow("job [red]", total) as step:
        for _ in range(steps):
            step()


def test_jobs_follow_each_other(make: Callable[[], Progress]) -> None:
    for name in ("first", "second"):
        with make().follow(name, 1) as step:
            step()


def test_a_job_of_somebody_else_is_watched(make: Callable[[], Progress]) -> None:
    progress = make()
    with progress.watch("job [red]") as tell:
        tell("first [blue]")
        with progress.watch("inside") as tell_inside:
            tell_inside("part")
    with progress.watch("job that tells nothing"):
        pass
    with pytest.raises(KeyError), progress.watch("job"):
        raise KeyError


def test_what_a_job_raises_goes_on(make: Callable[[], Progress]) -> None:
    with pytest.raises(KeyError), make().follow("job", 2) as step:
        step()
        raise KeyError


def test_nothing_is_left_behind(
    make: Callable[[], Progress], capfd: pytest.CaptureFixture[str]
) -> None:
    progress = make()
    streams = sys.stdout, sys.stderr
    with progress.follow("job", 2) as step:
        step()
        step()
    assert (sys.stdout, sys.stderr) == streams
    assert capfd.readouterr().out == ""


def test_the_fake_writes_down_what_it_followed() -> None:
    fake = RecordingProgress()
    with fake.follow("job", 2) as step:
        step()
        assert [(job.steps, job.has_ended) for job in fake.jobs] == [(1, False)]
    assert [(job.what, job.total, job.has_ended) for job in fake.jobs] == [("job", 2, True)]
    with pytest.raises(AssertionError, match="was used after it ended"):
        step()
    with fake.watch("other") as tell:
        tell("part")
    assert (fake.jobs[1].total, fake.jobs[1].parts) == (None, ["part"])
    with pytest.raises(AssertionError, match="was used after it ended"):
        tell("more")
