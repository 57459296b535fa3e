"""Reports that are kept, and a diagnosis that is known beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import Factory, define

from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.accuracy.inspection import DataReport
from polygraphy.domain.environment import Environment, Section
from polygraphy.domain.sweep.outcome import SweepOutcome


@define
class RecordingReports:
    """Keeps what was reported, in order: the kind of each report, and the report."""

    reports: list[tuple[str, Any]] = Factory(list)

    def source(self, path: str) -> None:
        """Several files are reported on, and this one is next."""
        self.reports.append(("source", path))

    def data(self, report: DataReport, *, num_items: int, line_width: int) -> None:
        """Input data, or results of runners; how elements are shown is checked, and not kept."""
        assert num_items == -1 or num_items > 0, num_items
        assert line_width >= -1, line_width
        self.reports.append(("data", report))

    def accuracy(self, results: AccuracyResults) -> None:
        """Verdicts that were saved."""
        self.reports.append(("accuracy", results))

    def environment(self, environment: Environment) -> None:
        """What is installed on this machine."""
        self.reports.append(("environment", environment))

    def sweep(self, outcome: SweepOutcome) -> None:
        """What came of a sweep."""
        self.reports.append(("sweep", outcome))


class FixedDiagnosis:
    """Finds what it was made with."""

    def __init__(self, sections: Sequence[Section] = ()) -> None:
        """Take what is found."""
        self._sections = tuple(sections)

    def sections(self) -> list[Section]:
        """Return what is known."""
        return list(self._sections)
