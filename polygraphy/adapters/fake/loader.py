"""A loader that has nothing to load."""

from __future__ import annotations

from typing import Any

from polygraphy.adapters.base.loader import BaseLoader


class FakeLoader(BaseLoader):
    """Hands over the value that it was given, and counts how often it was asked.

    Attributes:
        calls: how often the loader was called, failures included.
    """

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        """Set what a call returns, or raises."""
        self._calls: list[None] = []
        self._value = value
        self._error = error

    @property
    def calls(self) -> int:
        """How often the loader was called."""
        return len(self._calls)

    def call_impl(self) -> Any:
        """Count the call, and return the value or raise the error."""
        self._calls.append(None)
        if self._error is not None:
            raise self._error
        return self._value
