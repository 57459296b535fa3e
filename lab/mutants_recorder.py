"""Record which lines of the product each test reaches; `mutants.py` uses it as ``sitecustomize``.

Every interpreter of a test run imports it: the workers of pytest, the fork server and its forks,
and the commands that tests start. The variable ``PYTEST_CURRENT_TEST``, which pytest sets and
processes inherit, names the test. Needs ``sys.monitoring`` (Python 3.12).
"""

from __future__ import annotations

import atexit
import gzip
import json
import os
import sys
from typing import Any

FOLDER = "MUTANTS_FOLDER"
"""The variable that names the folder of the records; without it nothing is recorded."""

ROOT = "MUTANTS_ROOT"
"""The variable that names the folder of the package whose lines count."""

_TOOL = 4  # Debuggers, coverage, profilers and optimizers have the other numbers.


class _Recorder:
    """Collects the lines reached since the last test began, and writes them as one record."""

    def __init__(self, folder: str, root: str) -> None:
        self._folder, self._root = folder, root.rstrip(os.sep) + os.sep
        self._test = ""
        self._lines: dict[str, set[int]] = {}

    def start(self) -> None:
        monitoring = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        self._disabled = monitoring.DISABLE
        self._restart = monitoring.restart_events
        monitoring.use_tool_id(_TOOL, "mutants")
        monitoring.register_callback(_TOOL, monitoring.events.LINE, self._reach)
        monitoring.set_events(_TOOL, monitoring.events.LINE)

    def _reach(self, code: Any, line: int) -> Any:
        path = code.co_filename
        if path.startswith(self._root):
            self._lines.setdefault(path[len(self._root) :], set()).add(line)
        return self._disabled  # A line counts once for each test.

    def enter(self, test: str) -> None:
        """Begin with another test."""
        self.write()
        self._test = test
        self._restart()

    def forget(self) -> None:
        """Begin anew in a fork, which inherits what its parent has reached."""
        self._lines = {}
        self._test = ""
        self._restart()

    def write(self) -> None:
        """Append what was reached since the last record."""
        test = self._test or os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        if test and self._lines:
            lines = {path: sorted(numbers) for path, numbers in self._lines.items()}
            path = f"{self._folder}/lines-{os.getpid()}.gz"
            with gzip.open(path, "at", compresslevel=3) as file:
                file.write(json.dumps({"test": test, "lines": lines}) + "\n")
        self._lines = {}


def _install() -> _Recorder:
    recorder = _Recorder(os.environ[FOLDER], os.environ[ROOT])
    recorder.start()
    os.register_at_fork(after_in_child=recorder.forget)
    atexit.register(recorder.write)
    leave = os._exit

    def exit_after_writing(status: int) -> Any:
        recorder.write()
        leave(status)

    os._exit = exit_after_writing  # type: ignore[assignment, unused-ignore]
    return recorder


RECORDER = _install() if FOLDER in os.environ and hasattr(sys, "monitoring") else None


# As a plugin of pytest (-p sitecustomize): the records of each test, its outcome and its seconds.


def pytest_runtest_logstart(nodeid: str) -> None:
    """Begin with a test, before its fixtures are set up."""
    if RECORDER:
        RECORDER.enter(nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    """Write down how a test ended, in the process that ran it."""
    if RECORDER and not hasattr(report, "node"):  # That one was sent by a worker.
        row = {"test": report.nodeid, "when": report.when, "outcome": report.outcome}
        row["seconds"] = round(report.duration, 4)
        path = f"{os.environ[FOLDER]}/ends-{os.getpid()}.jsonl"
        with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(json.dumps(row) + "\n")
        if report.when == "teardown":
            RECORDER.write()
