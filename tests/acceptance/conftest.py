"""Runs command lines as a user does: in a process of their own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import frozen

from tests.support.forked import Ended, ForkServer

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
def polygraphy(fork_server: ForkServer, request: pytest.FixtureRequest) -> Callable[..., Done]:
    """Return a function that runs ``polygraphy`` with the words of a command line in the current
    folder: in a fork of a waiting interpreter, or, for tests that are marked ``cold`` and where the
    environment differs, in a new one.
    """
    cold = request.node.get_closest_marker("cold") is not None

    def run(command: str, *, env: dict[str, str] | None = None, cwd: Path | None = None) -> Done:
        name, *words = shlex.split(command)
        assert name == "polygraphy"
        environment = {**os.environ, **(env or {})}
        if cold or not fork_server.accepts(environment):
            done = subprocess.run(
                [sys.executable, "-m", "polygraphy", *words],
                capture_output=True,
                text=True,
                check=False,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=cwd,
            )
            ended = Ended(done.returncode, done.stdout, done.stderr)
        else:
            ended = fork_server.run([name, *words], cwd or Path.cwd(), environment)
        assert "Traceback" not in ended.out + ended.err, ended.out + ended.err
        return Done(*ended)

    return run
