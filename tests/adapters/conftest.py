"""Fixtures for the tests of all adapters."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from polygraphy.termination import end_program


@pytest.fixture
def sigterm_ends() -> Iterator[None]:
    """Let SIGTERM end what runs, as in a program; ctrl-C does so anyway."""
    before = signal.signal(signal.SIGTERM, end_program)
    yield
    signal.signal(signal.SIGTERM, before)
