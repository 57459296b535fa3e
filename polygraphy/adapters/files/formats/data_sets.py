"""Input data as the ONNX project ships them with its models: folders ``test_data_set_0``,
``test_data_set_1``, ... of files ``input_0.pb``, ``input_1.pb``, ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from polygraphy.adapters.os.paths import translated_os_errors
from polygraphy.ports.models import read_tensor

_INPUT = re.compile(r"input_(\d+)\.pb")
_SET = re.compile(r"test_data_set_(\d+)")


def data_sets_in(path: Path) -> list[Path]:
    """Return the folders of data in a folder, which may be one itself; none in anything else."""
    if not path.is_dir():
        return []
    if _numbered(path, _INPUT):
        return [path]
    return [folder for folder in _numbered(path, _SET) if _numbered(folder, _INPUT)]


def iterate_data_sets(folders: list[Path]) -> Iterator[dict[str, Any]]:
    """Yield a feed dictionary per folder. A tensor without a name is called after its file, and
    belongs to the input in its place.

    Raises:
        FileError: a file is damaged, or holds something else than a tensor.
    """
    for folder in folders:
        feed = {}
        for file in _numbered(folder, _INPUT):
            name, array = read_tensor(file)
            feed[name or file.stem] = array
        yield feed


class StoredDataSets:
    """Implements the port `Stored` for such folders; each holds one iteration."""

    kind: type = dict

    def __init__(self, folders: list[Path]) -> None:
        """Take the folders; their files are read when iterations are asked for."""
        self._folders = folders
        self.runs: tuple[tuple[str, int], ...] = (("", len(folders)),)

    def iterations(self) -> Iterator[dict[str, Any]]:
        """Yield a feed dictionary per folder; FileError when a file is damaged."""
        return iterate_data_sets(self._folders)

    def value(self) -> list[dict[str, Any]]:
        return list(self.iterations())


def _numbered(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    """Return what in a folder is named by a pattern, in the order of its number."""
    if not folder.is_dir():
        return []
    with translated_os_errors(folder, "read the folder"):
        found = [
            (int(match[1]), entry)
            for entry in folder.iterdir()
            if (match := pattern.fullmatch(entry.name))
        ]
    return [entry for _, entry in sorted(found)]
