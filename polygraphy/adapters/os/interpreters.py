"""Other interpreters of Python: where they are, and what they say."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from polygraphy.adapters.os.paths import translated_os_errors
from polygraphy.binding import resolve
from polygraphy.domain.errors import BackendError, FileError
from polygraphy.ports.running import Commands

_SECONDS = 300.0
_INTERPRETERS = ("bin/python", "Scripts/python.exe", "python.exe")


def interpreter_of(path: str) -> str:
    """Return the interpreter of a virtual environment, or the path of one as it is."""
    if not os.path.isdir(path):  # noqa: PTH112
        if not os.access(path, os.X_OK):
            raise FileError(f"{path} is no interpreter: it cannot be run.", path=path)
        return path
    with translated_os_errors(path, "read the folder"):
        found = [Path(path) / name for name in _INTERPRETERS if (Path(path) / name).exists()]
    if not found:
        raise FileError(
            f"{path} is no virtual environment: it has no {_INTERPRETERS[0]}.", path=path
        )
    return str(found[0])


def output_of(
    command: Sequence[str],
    path: str,
    *,
    timeout: float = _SECONDS,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Return what a command wrote.

    Raises:
        BackendError: it failed; with its last line, and the path that it is about.
    """
    done = resolve(Commands).start(command, timeout=timeout, environment=environment).wait()
    if done.code == 0:
        return done.output
    lines = [line for line in done.output.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else ""
    ended = f"signal {-done.code}" if done.code < 0 else f"exit code {done.code}"
    raise BackendError(f"{path}: {last or f'it ended with {ended} and said nothing'}")


def value_behind(output: str, word: str) -> str | None:
    """Return what stands behind a word at the start of a line."""
    lines = (line.partition(" ") for line in output.splitlines())
    return next((rest.strip() for first, _, rest in lines if first == word), None)
