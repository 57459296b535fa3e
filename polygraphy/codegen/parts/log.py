"""How a program logs and reports, in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, frozen


@frozen
class Log:
    """How the program logs and reports; empty values leave the defaults alone. Where `is_quiet`,
    only the file gets what is not critical.

    Attributes:
        format: what standard output holds; None for text.
        report: paths of reports.
        sources: the files that the program reads, for its report.
    """

    severities: Mapping[str, str] = Factory(dict)
    formats: Sequence[str] = ()
    file: str | None = None
    is_quiet: bool = False
    format: str | None = None
    report: Sequence[str] = ()
    sources: Sequence[str] = ()

    @property
    def closing(self) -> dict[str, Any]:
        """The arguments of `program.run` about the report; empty where there is none."""
        if self.format is None and not self.report:
            return {}
        paths = list(self.report)
        return {
            "format": self.format,
            "report": paths[0] if len(paths) == 1 else paths or None,
            "sources": list(dict.fromkeys(self.sources)) or None,
        }
