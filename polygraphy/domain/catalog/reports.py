"""In which formats the verdict document is written."""

from __future__ import annotations

FORMATS = ("text", "json")
"""What a program can print on standard output."""

REPORTS = {
    ".json": "json",
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".xml": "junit",
}
"""The format of a report, by the extension of its path."""


def format_of_report(path: str) -> str | None:
    """Return the format in which a report is written to a path; None where its extension names
    none.
    """
    name = path.replace("\\", "/").rpartition("/")[2].lower()
    stem, dot, extension = name.rpartition(".")
    return REPORTS.get(dot + extension) if stem else None
