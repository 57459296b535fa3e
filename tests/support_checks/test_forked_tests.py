"""Tests that run in forks are reported as if they had run in one process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.forked import IN_A_FORK, ForkServer

ONE = """
import os, warnings, pytest

@pytest.fixture(scope="module")
def once(tmp_path_factory):
    yield tmp_path_factory.mktemp("once")
    print("module is torn down")

@pytest.mark.parametrize("number", range(3))
def test_shared(once, number):
    (once / str(number)).touch()
    assert len([*once.iterdir()]) == number + 1

def test_wrong(once):
    os.write(1, b"what it wrote")
    assert 1 == 2

def test_skipped():
    pytest.skip("for a reason")
"""
OTHER = """
import os, signal, warnings, pytest

class Own(UserWarning):
    pass

@pytest.fixture
def leaves():
    yield
    raise ValueError("not torn down")

def test_warning():
    warnings.warn(Own("what it warned of"))

def test_killed():
    os.kill(os.getpid(), signal.SIGKILL)

def test_after(leaves):
    pass

def test_ended():
    os._exit(0)

def test_last(tmp_path):
    assert not [*tmp_path.iterdir()]
"""


@pytest.fixture
def session(tmp_path: Path, fork_server: ForkServer) -> list[str]:
    """Return the words of a session in two forks, with two modules."""
    (tmp_path / "test_one.py").write_text(ONE)
    (tmp_path / "test_other.py").write_text(OTHER)
    words = ["-p", "tests.support.forked_tests", "--forks", "2", "-p", "no:cacheprovider"]
    return ["pytest", *IN_A_FORK, *words, "--rootdir", ".", "-rfE"]


def test_each_test_is_reported_once(
    session: list[str], fork_server: ForkServer, tmp_path: Path
) -> None:
    done = fork_server.run(session, tmp_path, {**os.environ, "COLUMNS": "150"})
    assert done.code == 1, done.out + done.err
    *_, last = done.out.splitlines()
    assert "3 failed, 6 passed, 1 skipped, 1 warning, 1 error in " in last, done.out
    assert done.out.count("what it wrote") == 2  # The line of the test, and its output.
    assert done.out.count("UserWarning: what it warned of") == 1
    assert "FAILED test_one.py::test_wrong - assert 1 == 2" in done.out
    assert "FAILED test_other.py::test_killed - The process of this test ended by si" in done.out
    assert "FAILED test_other.py::test_ended - The process of this test ended with exi" in done.out
    assert "ERROR test_other.py::test_after - ValueError: not torn down" in done.out


def test_a_session_stops_at_the_first_failure(
    session: list[str], fork_server: ForkServer, tmp_path: Path
) -> None:
    (tmp_path / "test_one.py").unlink()
    done = fork_server.run([*session, "-x"], tmp_path)
    assert done.code == 1
    assert "1 failed, 1 passed, 1 warning in " in done.out.splitlines()[-1], done.out
