"""Use cases are tested without any technology: every port is bound to a fake."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from polygraphy.adapters.fake import MemoryResultStore, RecordingConsole
from polygraphy.binding import bind
from polygraphy.domain.ports import ResultStore
from polygraphy.ports.reporting import Console


@pytest.fixture(autouse=True)
def console() -> Iterator[RecordingConsole]:
    """Bind a console that remembers names of events and their arguments."""
    with bind(Console, RecordingConsole()) as bound:
        yield bound


@pytest.fixture(autouse=True)
def store() -> Iterator[MemoryResultStore]:
    """Bind a store in memory."""
    with bind(ResultStore, MemoryResultStore()) as bound:
        yield bound
