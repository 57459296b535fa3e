"""How a person reads what a command that looks at saved data found.

Unlike the console, which follows what happens, a report is handed over when it is complete, and its
text is the result of the command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.accuracy import AccuracyResults
    from polygraphy.domain.environment import Environment
    from polygraphy.domain.inspection import DataReport

__all__ = ["Reports"]


class Reports(Protocol):
    """Takes reports, one at a time."""

    def source(self, path: str) -> None:
        """Several files are reported on, and this one is next."""

    def data(self, report: DataReport, *, num_items: int, line_width: int) -> None:
        """Input data, or results of runners.

        Args:
            report: what is known.
            num_items: how many elements are shown at each end of each dimension where there are too
                many to show all; -1 for all.
            line_width: how long a line of elements may be; -1 for any length.
        """

    def accuracy(self, results: AccuracyResults) -> None:
        """Verdicts that were saved."""

    def environment(self, environment: Environment) -> None:
        """What is installed on this machine."""
