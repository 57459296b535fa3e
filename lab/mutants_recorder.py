"""Record which of some lines each test reaches; `mutants.py` uses it as ``sitecustomize``.

Every interpreter of a test run imports it: the workers of pytest, the fork server and its forks,
and the commands that tests start. The variable ``PYTEST_CURRENT_TEST``, which pytest sets and
processes inherit, names the test. Needs ``sys.monitoring`` (Python 3.12).

Only the functions that contain one of the lines are watched: the first call of each function of
the process looks whether it does, and no later call costs anything.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterable
from typing import Any

FOLDER = "MUTANTS_FOLDER"
"""The variable that names the folder of the records; without it nothing is recorded."""

ROOT = "MUTANTS_ROOT"
"""The variable that names the folder whose files the lines are of."""

LINES = "lines.txt"
"""The name of the file of the lines in the folder of the records: ``12 path/of/file.py``."""

# A free tool number of `sys.monitoring`: others belong to debuggers, coverage tools, profilers and
# optimizers.
_TOOL = 4


class _Recorder:
    """Collects the lines reached since the last test began, and writes them as one record."""

    def __init__(self, folder: str, root: str) -> None:
        """Read the wanted lines from a folder."""
        self._folder = folder
        self._wanted = _read_lines(os.path.join(folder, LINES), root)  # noqa: PTH118
        self._test = ""
        self._reached: set[tuple[str, int]] = set()

    def start(self) -> None:
        """Start to watch functions that have wanted lines."""
        self._monitoring = monitoring = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        events = monitoring.events
        monitoring.use_tool_id(_TOOL, "mutants")
        monitoring.register_callback(_TOOL, events.LINE, self._reach)
        monitoring.register_callback(_TOOL, events.PY_START, self._enter_function)
        monitoring.set_events(_TOOL, events.PY_START)

    def _enter_function(self, code: Any, _offset: int) -> Any:
        """Watch the lines of a function if any is wanted; return DISABLE for its calls."""
        wanted = self._wanted.get(code.co_filename)
        if wanted and any(line in wanted for _, _, line in code.co_lines()):
            events = self._monitoring.events
            self._monitoring.set_local_events(_TOOL, code, events.LINE)
        return self._monitoring.DISABLE

    def _reach(self, code: Any, line: int) -> Any:
        """Record a wanted line; return DISABLE for other lines."""
        name = self._wanted[code.co_filename].get(line)
        if name is None:
            return self._monitoring.DISABLE
        self._reached.add((name, line))
        return None

    def enter(self, test: str) -> None:
        """Record what was reached for the last test, and start another."""
        self.write()
        self._test = test

    def forget(self) -> None:
        """Start without lines in a fork, which inherits those of its parent."""
        self._reached = set()
        self._test = ""

    def write(self) -> None:
        """Append the lines reached since the last record to a file."""
        test = self._test or os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        if test and self._reached:
            _append(f"{self._folder}/lines-{os.getpid()}.jsonl", test=test, lines=self._reached)
        self._reached = set()


def _read_lines(path: str, root: str) -> dict[str, dict[int, str]]:
    """Return the recorded path of each line, by the absolute path of its file."""
    wanted: dict[str, dict[int, str]] = {}
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        for row in file:
            line, _, name = row.rstrip("\n").partition(" ")
            wanted.setdefault(os.path.join(root, name), {})[int(line)] = name  # noqa: PTH118
    return wanted


def _append(path: str, **row: Any) -> None:
    """Append a row to a file of JSON lines."""
    import json  # Imported here, because many commands in tests do not need it.

    text = json.dumps({k: sorted(v) if isinstance(v, set) else v for k, v in row.items()})
    with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text + "\n")


def write_lines(folder: str, lines: Iterable[tuple[str, int]]) -> None:
    """Write the list of lines to record."""
    with open(os.path.join(folder, LINES), "w", encoding="utf-8") as file:  # noqa: PTH118, PTH123
        file.writelines(f"{line} {path}\n" for path, line in sorted(lines))


def _install() -> _Recorder:
    """Start a recorder for this process and its forks, and return it."""
    recorder = _Recorder(os.environ[FOLDER], os.environ[ROOT])
    recorder.start()
    os.register_at_fork(after_in_child=recorder.forget)
    atexit.register(recorder.write)
    leave = os._exit

    def exit_after_writing(status: int) -> Any:
        """Write the records, then leave the process with a status."""
        recorder.write()
        leave(status)

    os._exit = exit_after_writing  # type: ignore[assignment, unused-ignore]
    return recorder


RECORDER = _install() if FOLDER in os.environ and hasattr(sys, "monitoring") else None


# Hooks of a pytest plugin (-p sitecustomize), which record each test, its outcome and its seconds.


def pytest_runtest_logstart(nodeid: str) -> None:
    """Start the record of a test, before its fixtures are set up."""
    if RECORDER:
        RECORDER.enter(nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    """Append the outcome of a test, in the process that ran it."""
    if RECORDER and not hasattr(report, "node"):
        # A report with this attribute was sent by a worker, which has already recorded it.
        _append(
            f"{os.environ[FOLDER]}/ends-{os.getpid()}.jsonl",
            test=report.nodeid,
            when=report.when,
            outcome=report.outcome,
            seconds=round(report.duration, 4),
        )
        if report.when == "teardown":
            RECORDER.write()
