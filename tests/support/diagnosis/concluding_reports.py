"""What the tests of `application/test_one_judge.py` and others share."""

from __future__ import annotations

from typing import Any


class Concluding:
    """Keeps what a diagnosis comes to; implements the port `DiagnosisReports`."""

    def __init__(self) -> None:
        """Start without attempts and result."""
        self.attempts: list[Any] = []
        self.result: Any = None

    def show_attempt(self, attempt: Any) -> None:
        """Keep an attempt."""
        self.attempts.append(attempt)

    def show_result(self, result: Any) -> None:
        """Keep a result."""
        self.result = result
