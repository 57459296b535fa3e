"""What a document says of the machine and of files: versions and hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from polygraphy.domain.environment import Environment
from polygraphy.domain.report.document import FileFacts
from polygraphy.ports.binding import resolve
from polygraphy.ports.machine import Diagnosis

_BLOCK = 1 << 20
_SOURCES = ("packages", "machine")
"""What is known without importing a backend."""


def environment() -> Environment:
    """Return versions and facts about the machine."""
    return Environment(
        tuple(section for key in _SOURCES for section in resolve(Diagnosis, key).sections())
    )


def file_facts(paths: Sequence[str]) -> list[FileFacts]:
    """Return size and hash of files; neither of a folder, and of what cannot be read."""
    return [_facts_of(path) for path in dict.fromkeys(paths)]


def _facts_of(path: str) -> FileFacts:
    try:
        with Path(path).open("rb") as stream:
            digest, size = hashlib.sha256(), 0
            while block := stream.read(_BLOCK):
                digest.update(block)
                size += len(block)
    except OSError:
        return FileFacts(path)
    return FileFacts(path, size, digest.hexdigest())
