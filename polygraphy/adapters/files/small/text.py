"""Text files on disk."""

from __future__ import annotations

from pathlib import Path

from polygraphy.adapters.os.paths import atomic_file, translated_os_errors
from polygraphy.domain.errors import DamagedFileError, FileError

_EXECUTE = 0o111


class DiskTextFiles:
    """Reads text files, and writes them whole or not at all."""

    def read(self, path: str) -> str:
        try:
            with translated_os_errors(path, "read"):
                return Path(path).read_bytes().decode()
        except ValueError as error:
            raise DamagedFileError(f"Could not read {path}: {error}.", path=path) from error

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
