"""Findings of programs that write no report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class UnrecordedFindings:
    """Implements the port `Findings` without recording anything."""

    def report_finding(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Ignore a finding."""

    def conclude(
        self,
        verdict: str | None = None,
        culprits: Sequence[Mapping[str, Any]] = (),
        summary: str = "",
    ) -> None:
        """Ignore a verdict."""
