"""Commands and functions that are not run in processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from attrs import frozen

from polygraphy.domain.search.check_rules import TIMED_OUT, Finished
from polygraphy.ports.running import RunningCommand

T = TypeVar("T")


class FunctionCommands:
    """Calls a function in place of each command.

    Attributes:
        commands: those that were run, in order.
    """

    def __init__(self, answer: Callable[[Sequence[str]], int | str]) -> None:
        """Take a function of the command's words, which returns an exit code, or what the command
        writes before it ends with 0.
        """
        self.commands: list[list[str]] = []
        self._answer = answer

    def prepare(self, command: Sequence[str]) -> None:
        """Do nothing: there is no process."""

    def start(
        self,
        command: Sequence[str],
        *,
        timeout: float | None = None,
        folder: str | None = None,
        environment: Mapping[str, str] | None = None,
        afresh: bool = False,
    ) -> RunningCommand:
        """Call the function; no time passes, so only a command that has none to take is stopped."""
        self.commands.append(list(command))
        if timeout == 0:
            return FinishedCommand(Finished(TIMED_OUT, "", 0.0, True))
        answer = self._answer(command)
        done = Finished(answer, "") if isinstance(answer, int) else Finished(0, answer)
        return FinishedCommand(done)

    def run(self, command: Sequence[str], *, timeout: float | None = None) -> Finished:
        """Call the function; see `start`."""
        return self.start(command, timeout=timeout).wait()


@frozen
class FinishedCommand:
    """A command that has come to its end already."""

    done: Finished

    def wait(self) -> Finished:
        """Return how it ended."""
        return self.done

    def stop(self) -> None:
        """Do nothing: it has ended."""


class InlineIsolation:
    """Calls functions right here, and remembers what for; fails instead for what it is set to.

    Attributes:
        calls: what was called, with the time it was allowed.
    """

    def __init__(self, crashes: dict[str, Exception] | None = None) -> None:
        """Map what is being done to the error that it ends with."""
        self.calls: list[tuple[str, float | None]] = []
        self._crashes = crashes or {}

    def __call__(
        self,
        function: Callable[[], T],
        *,
        what: str,
        timeout: float | None = None,
        is_silent: bool = False,
    ) -> T:
        """Call a function, or raise the error that was prepared for it."""
        self.calls.append((what, timeout))
        if what in self._crashes:
            raise self._crashes[what]
        return function()
