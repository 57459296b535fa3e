"""Command lines, run in this process as a shell would run them."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from polygraphy.cli.main import main

__all__ = ["Run", "exit_code", "run"]

Run = Callable[[str], tuple[int, str]]


def exit_code(line: str) -> int:
    """Run a command line and return its exit code."""
    try:
        return main(shlex.split(line))
    except SystemExit as end:
        return int(end.code or 0)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return what runs a command line in a folder of its own, and answers exit code and output."""
    monkeypatch.chdir(tmp_path)

    def call(line: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["polygraphy", *shlex.split(line)])
        capsys.readouterr()
        code = exit_code(line)
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return code, said.out + said.err

    return call
