"""What backends compute during a diagnosis, they compute in the process of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from polygraphy.adapters.fake import InlineIsolation
from polygraphy.binding import bind
from polygraphy.ports.running import call_isolated


@pytest.fixture
def forks() -> None:
    """Let a test use a process for each of them, as users do: it counts processes, or crashes."""


@pytest.fixture(autouse=True)
def _computes_in_this_process(request: pytest.FixtureRequest) -> Iterator[None]:
    """Start no process: a fork of the tests takes longer than what a small model computes."""
    if "forks" in request.fixturenames:
        yield
        return
    with bind(call_isolated, InlineIsolation()):
        yield
