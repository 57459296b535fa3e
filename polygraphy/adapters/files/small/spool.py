"""Keeps bytes in a temporary file, which has no name and is deleted automatically."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import IO

from polygraphy.adapters.os.paths import translate_os_errors
from polygraphy.domain.errors import FileError


def open_spool() -> TemporarySpool:
    """Return an empty spool; its file is created on the first write."""
    return TemporarySpool()


class TemporarySpool:
    """A spool in a temporary file; implements the port `Spool`."""

    def __init__(self) -> None:
        """Create an empty spool without a file."""
        self._file: IO[bytes] | None = None
        self._places: list[tuple[int, int]] = []
        self._end = 0

    def put(self, data: bytes) -> int:
        """Append bytes, and return the ticket to read them with.
        Raise FileError if the disk is full.
        """
        with translate_os_errors(Path(tempfile.gettempdir()), "write to"):
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this
            self._file.seek(self._end)
            self._file.write(data)
            self._file.flush()
        self._places.append((self._end, len(data)))
        self._end += len(data)
        return len(self._places) - 1

    def take(self, ticket: int) -> bytes:
        """Return the bytes of a ticket."""
        start, size = self._places[ticket]
        assert self._file is not None
        with translate_os_errors(Path(tempfile.gettempdir()), "read from"):
            self._file.seek(start)
            data = self._file.read(size)
        if len(data) != size:
            raise FileError(f"A temporary file is truncated: {len(data)} bytes instead of {size}.")
        return data

    def __del__(self) -> None:
        """Close and delete the file."""
        if self._file is not None:
            self._file.close()
