"""Fixtures for the tests of all adapters."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest


@pytest.fixture
def heard() -> Iterator[None]:
    """Let ctrl-C raise KeyboardInterrupt, also where the tests were started in the background,
    which ignores it, and SIGTERM SystemExit, as in a program.
    """

    def end(number: int, frame: Any) -> NoReturn:
        sys.exit(143)

    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: end}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
