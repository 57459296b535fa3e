"""In which formats the verdict document is written."""

from __future__ import annotations

FORMATS = ("text", "json")
"""Formats that a program can print on standard output."""

REPORTS = {
    ".json": "json",
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".xml": "junit",
    ".sarif": "sarif",
}
"""The format of a report, by the extension of its path."""

FAULTS_VARIABLE = "POLYGRAPHY_DEBUG_FAULTS"
"""The environment variable that names the file to which a program that is the check of a search
writes which outputs failed, and how.
"""


def format_of_report(path: str) -> str | None:
    """Return the report format that belongs to the extension of a path; None if there is none."""
    name = path.replace("\\", "/").rpartition("/")[2].lower()
    stem, dot, extension = name.rpartition(".")
    return REPORTS.get(dot + extension) if stem else None
