"""What a document says of the machine and of files: versions and hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from attrs import evolve

from polygraphy.binding import resolve
from polygraphy.domain.catalog.formats import format_named
from polygraphy.domain.environment import Environment
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model import Detail, Model, ModelSource
from polygraphy.domain.report.document import FileFacts
from polygraphy.ports.machine import Diagnosis
from polygraphy.ports.models import ModelReader

_BLOCK = 1 << 20
_SOURCES = ("packages", "machine")
"""What is known without importing a backend."""


def environment() -> Environment:
    """Return versions and facts about the machine, without settings that are not set."""
    found = (section for key in _SOURCES for section in resolve(Diagnosis, key).sections())
    kept = (
        evolve(section, facts=tuple(fact for fact in section.facts if fact[1] != "not set"))
        for section in found
    )
    return Environment(tuple(section for section in kept if section.facts))


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


def first_model(paths: Sequence[str]) -> Model | None:
    """Describe the first ONNX model among some files; None where there is none that can be read."""
    for path in paths:
        if format_named(path) == "onnx" and Path(path).is_file():
            source = ModelSource(path, ignore_external_data=True)
            detail = Detail(layers=True, attrs=True, origins=True)
            try:
                found = resolve(ModelReader, "onnx").read(source, detail)
            except PolygraphyException:  # The report is about more than the model.
                return None
            return found if isinstance(found, Model) else None
    return None
