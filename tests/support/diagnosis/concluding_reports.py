"""What the tests of `application/test_one_judge.py` and others share."""

from __future__ import annotations

from typing import Any


class Concluding:
    """Keeps what a diagnosis comes to; implements the port `DiagnosisReports`."""

    def __init__(self) -> None:
        self.result: Any = None

    def attempted(self, attempt: Any) -> None:
        pass

    def concluded(self, result: Any) -> None:
        self.result = result
