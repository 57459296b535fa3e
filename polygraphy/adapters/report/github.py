"""What GitHub Actions shows of a run: a summary of its step, and a line about each error."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from polygraphy.adapters.report.markdown import markdown_of
from polygraphy.domain.report.document import Document
from polygraphy.domain.report.summary import ERROR, FAILED, checks_of

_MOST_LINES = 10
"""GitHub shows no more of a step."""
_ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_TITLES = {**_ESCAPES, ":": "%3A", ",": "%2C"}


def annotate(document: Document) -> None:
    """Write both, where GitHub runs the program; what cannot be written is left out."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    with suppress(OSError):
        if path:
            with Path(path).open("a", encoding="utf-8", errors="replace") as stream:
                stream.write(markdown_of(document))
    if sys.stderr is not None:
        # Both streams are read; standard output may hold the document.
        sys.stderr.write("".join(f"{line}\n" for line in error_lines(document)))


def error_lines(document: Document) -> list[str]:
    """Return the lines about what did not pass."""
    failed = [check for check in checks_of(document) if check.outcome in (FAILED, ERROR)]
    lines = [
        f"::error title={_escaped(f'{check.group} | {check.name}', _IN_TITLES)}"
        f"::{_escaped(check.message, _ESCAPES)}"
        for check in failed[:_MOST_LINES]
    ]
    if len(failed) > _MOST_LINES:
        lines[-1] = f"::error::{len(failed) - _MOST_LINES + 1} more checks failed."
    return lines


def _escaped(text: str, escapes: dict[str, str]) -> str:
    printable = text.encode("utf-8", "replace").decode()
    return "".join(escapes.get(letter, letter) for letter in printable)
