"""A logger for each test, and the one of the process left as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from polygraphy.logger import G_LOGGER, Logger


@pytest.fixture(autouse=True)
def _untouched_logger() -> Iterator[None]:
    with G_LOGGER.preserved():
        yield


@pytest.fixture
def log() -> Logger:
    """A logger with all settings at their defaults."""
    return Logger()
