"""Command lines of polygraphy, run in forks of this process, also as a shell reads them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from polygraphy.cli.main import main

_SHIM = """#!/bin/sh
for word in polygraphy "$@"; do printf '%s\\0' "$word"; done >>"$LAB_WORDS"
printf '\\0' >>"$LAB_WORDS"
"""
SECONDS = 300


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str


def run(words: Sequence[str], folder: Path) -> Done:
    """Run ``polygraphy WORDS`` in a folder, in a fork of this process."""
    with tempfile.TemporaryFile("w+") as stream:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _run(words, folder, stream.fileno())
        _, status = os.waitpid(pid, 0)
        stream.seek(0)
        return Done(os.waitstatus_to_exitcode(status), stream.read())


def _run(words: Sequence[str], folder: Path, output: int) -> None:
    """Run a command in this process, write its result to a file descriptor, and exit."""
    import signal

    code = 1
    try:
        signal.alarm(SECONDS)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(folder)
        sys.argv = ["polygraphy", *words]
        try:
            code = main()
        except SystemExit as end:
            code = int(end.code or 0)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def run_line(line: str, folder: Path) -> Done:
    """Run the commands of a shell line in order, until one fails; return the last result."""
    with tempfile.TemporaryDirectory() as scratch:
        shim, words = Path(scratch, "polygraphy"), Path(scratch, "words")
        shim.write_text(_SHIM)
        shim.chmod(0o755)
        env = {**os.environ, "PATH": f"{scratch}:{os.environ['PATH']}", "LAB_WORDS": str(words)}
        shell = subprocess.run(["sh", "-c", line], cwd=folder, env=env, capture_output=True,
                               text=True, check=False)  # fmt: skip
        if shell.returncode or not words.exists():
            return Done(shell.returncode or 127, shell.stdout + shell.stderr)
        done = Done(127, "")
        for command in words.read_text().split("\0\0")[:-1]:
            done = run(command.split("\0")[1:], folder)
            if done.code:
                break
        return done
