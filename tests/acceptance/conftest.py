"""Runs command lines as a user does: in a process of their own."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import frozen

__all__ = ["Done"]


@frozen
class Done:
    """What a command line left behind: exit code and output, the latter without the names of
    runs.
    """

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@pytest.fixture
def polygraphy() -> Callable[..., Done]:
    """Return a function that runs ``polygraphy`` with the words of a command line in the current
    folder.
    """

    def run(command: str, *, env: dict[str, str] | None = None, cwd: Path | None = None) -> Done:
        import os

        name, *words = shlex.split(command)
        assert name == "polygraphy"
        done = subprocess.run(
            [sys.executable, "-m", "polygraphy", *words],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
            cwd=cwd,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    return run
