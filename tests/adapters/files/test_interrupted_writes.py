"""Whatever interrupts a write, what was there before stays, and nothing is left lying about."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polygraphy.adapters.files.json.json_codec import Encoder
from polygraphy.adapters.files.store import json_io
from polygraphy.adapters.files.store.store import FileResultStore
from polygraphy.domain.errors import FileError
from polygraphy.domain.results.results import IterationResult, RunResults
from tests.support.forked import ForkServer

STORE = FileResultStore()
LARGE = 500_000


@pytest.fixture(autouse=True)
def _in_folder_with_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("results.json").write_text("before")


def results(value: float = 0) -> RunResults:
    return RunResults(
        (name, [IterationResult({"y": np.full(LARGE, value)})]) for name in ("a", "b", "c")
    )


class _Interrupting:
    """Raises when it is saved."""


@Encoder.register(_Interrupting)
def _interrupt(value: _Interrupting) -> Any:
    raise KeyboardInterrupt


def _write_by_item(last: Any) -> None:
    with STORE.writer("results.json", RunResults) as writer:
        writer.add(results())
        writer.add(last)


def _save_whole(last: Any) -> None:
    STORE.save([results(), last], "results.json")


@pytest.mark.parametrize("write", [_write_by_item, _save_whole])
def test_an_interrupt_leaves_what_was_there(write: Callable[[Any], None]) -> None:
    last: Any = RunResults([(name, [_Interrupting()]) for name in "abc"])  # type: ignore[list-item]
    with pytest.raises(KeyboardInterrupt):
        write(last)
    assert os.listdir() == ["results.json"]
    assert Path("results.json").read_text() == "before"


def test_an_error_in_the_middle_of_a_folder_leaves_nothing() -> None:
    Path("empty").mkdir()
    for dest in ("empty", "new"):
        writing = STORE.writer(dest, dict)
        with pytest.raises(FileError, match="Python objects"), writing as writer:
            writer.add({"x": np.zeros(3)})
            writer.add({"x": np.array([None])})
    assert sorted(os.listdir()) == ["empty", "results.json"]
    assert os.listdir("empty") == []


def test_an_item_that_failed_spoils_the_file_even_if_the_error_was_caught() -> None:
    for dest in ("results.json", "folder"):
        writing, caught = STORE.writer(dest, dict), suppress(FileError)
        with pytest.raises(FileError, match="an earlier item"), writing as writer, caught:
            writer.add({"x": np.zeros(3), "y": np.array([None])})
        writing = STORE.writer(dest, dict)
        with pytest.raises(FileError, match="an earlier item"), writing as writer:
            with suppress(FileError):
                writer.add({"y": np.array([None])})
            writer.add({"x": np.zeros(3)})
    assert os.listdir() == ["results.json"]
    assert Path("results.json").read_text() == "before"


def test_an_error_about_another_file_is_not_said_to_be_about_this_one() -> None:
    with pytest.raises(FileNotFoundError), STORE.writer("results.json", dict):
        Path("no such picture.png").read_bytes()
    assert Path("results.json").read_text() == "before"


PROLOGUE = """
    import resource, signal, os
    import numpy as np
    from polygraphy.adapters.files.store.store import FileResultStore
    from polygraphy.domain.results.results import IterationResult, RunResults
    from polygraphy.logger import G_LOGGER

    G_LOGGER.module_severity = G_LOGGER.CRITICAL
    store = FileResultStore()
    results = RunResults(
        (name, [IterationResult({"y": np.zeros(500_000)})]) for name in ("a", "b", "c")
    )
"""

ON_A_FULL_DISK = """
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, most))
    try:
        {write}
    except Exception as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))  # What is printed goes to a file.
        print(type(error).__name__, error)
"""

WRITES = {
    "whole": 'store.save(results, "results.json")',
    "by item": """with store.writer("results.json", RunResults) as writer:
            writer.add(results)""",
    "into a folder": """with store.writer("folder", RunResults) as writer:
            writer.add(results)""",
}


def run(program: str) -> int:
    """Run a program in a new interpreter and return its exit code."""
    command = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 100_000, 6_000_000, 14_000_000])
@pytest.mark.parametrize("write", WRITES)
def test_a_full_disk_leaves_what_was_there(write: str, limit: int, fork_server: ForkServer) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("the size of files can only be limited on Linux")
    program = textwrap.dedent(PROLOGUE + ON_A_FULL_DISK.format(limit=limit, write=WRITES[write]))
    ended = fork_server.run(["-c", program], Path.cwd())
    assert ended.code == 0, ended.err
    dest = "folder" if write == "into a folder" else "results.json"
    assert ended.out.startswith(f"FileError Could not write {dest}"), ended.out
    assert ended.out.rstrip().endswith("File too large.")
    assert os.listdir() == ["results.json"]
    assert Path("results.json").read_text() == "before"


def test_a_full_device_is_reported() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with pytest.raises(FileError, match=r"Could not write /dev/full: No space left"):
        STORE.save(results(), "/dev/full")
    writing = STORE.writer("/dev/full", RunResults)
    with pytest.raises(FileError, match=r"Could not write /dev/full: No space"), writing as writer:
        writer.add(results())
    with Path("/dev/full").open("wb") as file:
        with pytest.raises(FileError, match=r"Could not write /dev/full: No space left"):
            json_io.save(results(), file)
        with suppress(OSError):
            file.close()


@pytest.mark.slow
@pytest.mark.parametrize("signal_name", ["SIGINT", "SIGKILL"])
def test_a_killed_process_leaves_what_was_there(signal_name: str) -> None:
    code = run(PROLOGUE + f"""
    with store.writer("results.json", RunResults) as writer:
        writer.add(results)
        os.kill(os.getpid(), signal.{signal_name})
        """)
    assert code == -getattr(signal, signal_name)
    assert Path("results.json").read_text() == "before"
    if signal_name == "SIGINT":
        assert os.listdir() == ["results.json"]
