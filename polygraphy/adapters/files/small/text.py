"""Text files on disk."""

from __future__ import annotations

from pathlib import Path

from polygraphy.adapters.os.paths import atomic_file
from polygraphy.domain.errors import FileError

_EXECUTE = 0o111


class DiskTextFiles:
    """Reads text files, and writes them whole or not at all."""

    def read(self, path: str) -> str:
        try:
            return Path(path).read_bytes().decode()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise FileError(f"Could not read {path}: {reason}.", path=path) from error

    def write(self, path: str, text: str, *, executable: bool = False) -> None:
        """Write a file in UTF-8; who may read an executable one may run it."""
        try:
            content = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise FileError(f"Could not write {path}: {error}.", path=path) from error
        with atomic_file(path) as stream:
            stream.write(content)
        if executable:
            mode = Path(path).stat().st_mode
            Path(path).chmod(mode | (mode >> 2 & _EXECUTE))
