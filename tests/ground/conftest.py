"""A logger for each test."""

from __future__ import annotations

import pytest

from polygraphy.logger import Logger


@pytest.fixture
def log() -> Logger:
    """A logger with all settings at their defaults."""
    return Logger()
