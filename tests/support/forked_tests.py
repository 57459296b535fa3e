"""A plugin of pytest that runs tests in forks of the process that collected them.

    python -m pytest -p tests.support.forked_tests --forks 4

Each process of pytest-xdist imports and collects all tests, which takes seven seconds, and sends
six messages for each test. Here the tests are collected once, and a test needs one message, so
that further processes cost nothing. A process gets the tests of one module at a time, and the next
one that is free gets the next module.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, NoReturn

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the number of processes."""
    group = parser.getgroup("forked tests")
    group.addoption("--forks", type=int, default=0, metavar="NUMBER", help="run tests in forks")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in forks if the option asks for it; return True, otherwise None."""
    number = session.config.getoption("--forks")
    if sys.platform in ("win32", "darwin"):  # On macOS, system frameworks do not work after a fork.
        return None
    if not number or session.config.option.collectonly or session.testsfailed:
        return None
    _Loop(session).run(number)
    return True


class _Fork(NamedTuple):
    """A process that runs tests."""

    pid: int
    connection: Connection
    expected: deque[int]
    """Positions of the tests that it got and has not reported, in its order."""


class _Results(NamedTuple):
    """What a process sends after each test."""

    reports: list[Any]
    warnings: list[dict[str, Any]]


class _Loop:
    """What hands out tests, and reports their results as if they had run here."""

    def __init__(self, session: pytest.Session) -> None:
        """Collect the tests of a session by module."""
        self._session = session
        self._config = session.config
        self._modules = deque(_positions_by_module(session.items))
        self._forks: dict[Connection, _Fork] = {}
        self._started = 0

    def run(self, number: int) -> None:
        """Run all tests in a number of processes."""
        self._config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        try:
            for _ in range(number):
                self._start()
            while self._forks:
                for connection in wait(list(self._forks)):
                    assert isinstance(connection, Connection)
                    self._listen_to(self._forks[connection])
        finally:
            for fork in self._forks.values():
                # SIGKILL, because a test may handle other signals.
                os.kill(fork.pid, signal.SIGKILL)
            for fork in self._forks.values():
                os.waitpid(fork.pid, 0)

    def _start(self, left: Sequence[int] = ()) -> None:
        """Start a process that first runs the remaining tests of another one."""
        here, there = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._started += 1
        pid = os.fork()
        if pid == 0:
            for connection in (here, *self._forks):
                connection.close()
            _separate(self._config, f"fork{self._started}")
            _serve(self._session, there, deque(left))
        there.close()
        self._forks[here] = _Fork(pid, here, deque(left))

    def _listen_to(self, fork: _Fork) -> None:
        """Receive the results of a test from a process, and report them."""
        results: _Results | str | None = "end"
        with suppress(EOFError, ConnectionResetError):
            results = fork.connection.recv()
        if isinstance(results, str):
            self._bury(fork)
            return
        if results is None:
            positions = self._modules.popleft() if self._modules else []
            fork.expected.extend(positions)
            with suppress(BrokenPipeError):
                # The process has ended; reading its connection reports that next.
                fork.connection.send(positions)
            return
        for row in results.warnings:
            message = warnings.WarningMessage(**row.pop("message"))
            hook = self._config.hook.pytest_warning_recorded
            hook.call_historic(kwargs={"warning_message": message, **row})
        restore = self._config.hook.pytest_report_from_serializable
        item = self._session.items[fork.expected.popleft()]
        self._report(item, [restore(config=self._config, data=data) for data in results.reports])

    def _bury(self, fork: _Fork) -> None:
        """Report the test that ended a process as failed, and start another process."""
        del self._forks[fork.connection]
        code = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])
        if code == 0 and not fork.expected:
            return
        ended = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        if not fork.expected:
            raise RuntimeError(f"A process that had run its tests ended {ended}.")
        item = self._session.items[fork.expected.popleft()]
        text = f"The process of this test ended {ended}."
        kind = pytest.TestReport
        self._report(item, [kind(item.nodeid, item.location, {}, "failed", text, "call")])
        self._start(fork.expected)

    def _report(self, item: pytest.Item, reports: list[pytest.TestReport]) -> None:
        """Report the results of a test to pytest; raise if the session must stop."""
        hook = self._config.hook
        for report in reports:
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)


def _positions_by_module(items: list[pytest.Item]) -> Iterator[list[int]]:
    """Yield the positions of the tests of each module."""
    for _, positions in groupby(range(len(items)), lambda at: items[at].path):
        yield list(positions)


class _Recorder:
    """A plugin that keeps what a test reports until it is sent."""

    def __init__(self, config: pytest.Config) -> None:
        """Start without reports."""
        self._config = config
        self.results = _Results([], [])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a report."""
        hook = self._config.hook.pytest_report_to_serializable
        self.results.reports.append(hook(config=self._config, report=report))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        """Keep a warning if every process knows its class."""
        known = next(kind for kind in warning_message.category.__mro__ if _is_known(kind))
        message = {
            "message": known(str(warning_message.message)),
            "category": known,
            "filename": warning_message.filename,
            "lineno": warning_message.lineno,
        }
        row = {"message": message, "when": when, "nodeid": nodeid, "location": location}
        self.results.warnings.append(row)


def _is_known(kind: type) -> bool:
    """Return whether every process knows a class: it is builtin or one of pytest."""
    return kind.__module__ == "builtins" or isinstance(getattr(pytest, kind.__name__, None), type)


class _Silent:
    """What stands for pytest's terminal in a process that does not write to it."""

    def __init__(self, config: pytest.Config) -> None:
        """Store the settings."""
        self._tw = config.get_terminal_writer()


def _serve(session: pytest.Session, connection: Connection, todo: deque[int]) -> NoReturn:
    """Run tests until none are left, then exit."""
    code = 1
    try:
        recorder = _Recorder(session.config)
        session.config.pluginmanager.register(recorder, "forked tests")
        recorder.results = _Results([], [])  # Omits the warnings of the collection.
        while _fill(todo, connection, session):
            item = session.items[todo.popleft()]
            following = _fill(todo, connection, session)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            connection.send(recorder.results)
            recorder.results = _Results([], [])
        atexit._run_exitfuncs()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _fill(todo: deque[int], connection: Connection, session: pytest.Session) -> pytest.Item | None:
    """Return the next test, or None; request the tests of another module if needed."""
    if not todo:
        connection.send(None)
        todo.extend(connection.recv())
    return session.items[todo[0]] if todo else None


def _separate(config: pytest.Config, name: str) -> None:
    """Give this process its own captured output and folder, and no terminal."""
    silent = _Silent(config)
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(silent, "terminalreporter")
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    if capture.is_globally_capturing():
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()
    folders: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    folders._basetemp = folders.getbasetemp() / name
    folders._basetemp.mkdir(mode=0o700)
