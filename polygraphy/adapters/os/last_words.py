"""A line about a process that a library ends, such as by a segmentation fault.

Nothing can be relied on inside of a process that crashes. So a shell waits for the end of a pipe
that only this process holds, and writes the line unless it is dismissed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from polygraphy.logger.plain import plain

_WITNESS = 'read -r dismissed || printf "%s\\n" "$0" >&2'

_witnesses: list[subprocess.Popen[bytes]] = []


@contextmanager
def last_words(text: str) -> Iterator[None]:
    """Have a line written to standard error if the process ends inside the block, however it does.

    Where there is no shell, nothing is written.
    """
    witness = _started(text)
    try:
        yield
    finally:
        if witness is not None:
            _dismiss(witness)


def dismiss_witnesses() -> None:
    """Have nothing written: the process is about to end itself."""
    for witness in tuple(_witnesses):
        _dismiss(witness)


def _started(text: str) -> subprocess.Popen[bytes] | None:
    try:
        # A session of its own: ctrl-C in a terminal reaches this process alone.
        witness = subprocess.Popen(
            ["/bin/sh", "-c", _WITNESS, plain(text)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    _witnesses.append(witness)
    return witness


def _dismiss(witness: subprocess.Popen[bytes]) -> None:
    with suppress(ValueError):
        _witnesses.remove(witness)
    with suppress(OSError, ValueError, subprocess.TimeoutExpired):
        witness.communicate(b"dismissed\n", timeout=1)
