"""Adds to files of results what is found out later."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polygraphy.adapters.files.json.content_error import content_errors_named
from polygraphy.adapters.files.json.json_writer import write_json
from polygraphy.adapters.os.paths import atomic_file, translated_os_errors
from polygraphy.domain.errors import FileError

PLAIN_MEMBER = b',\n    "inference_results": '
"""What stands before the outputs in plain values."""

ENDING = b',\n    "polygraphy_class": "RunResults"\n}'
"""How files of results end that were written here."""


def annotate(path: Path, facts: Mapping[str, Any]) -> None:
    """Add members to the JSON object in a file of results, which is written again: until that is
    done, the file stays as it was.

    Raises:
        FileError: the file is not there, was not written here, or cannot be written.
    """
    with translated_os_errors(path, "read"):
        size = path.stat().st_size
        with path.open("rb") as source:
            source.seek(max(size - len(ENDING), 0))
            if source.read() != ENDING:
                raise FileError(
                    f"Nothing can be added to {path}: it does not end as results do that were saved"
                    " here.",
                    path=path,
                )
            source.seek(0)
            with atomic_file(path) as target:
                shutil.copyfileobj(source, target, 1 << 20)
                target.seek(size - len(ENDING), os.SEEK_SET)
                target.truncate()
                _write(facts, target.write, path)
                target.write(ENDING)


def _write(facts: Mapping[str, Any], write: Any, path: Path) -> None:
    with content_errors_named(f"save to {path}", path):
        for name, fact in facts.items():
            write(f',\n    "{name}": '.encode("ascii"))
            write_json(fact, write, depth=1)
