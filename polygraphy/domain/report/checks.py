"""The checks that a document is about, one by one, as test reports have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from polygraphy.domain.accuracy.words import row_in_words
from polygraphy.domain.report.document import Document

PASSED, FAILED, ERROR, SKIPPED = "passed", "failed", "error", "skipped"
_OUTCOMES = {"passed": PASSED, "failed": FAILED, "inconclusive": SKIPPED, "agree": PASSED}


@frozen
class Check:
    """One check.

    Attributes:
        group: what it belongs to, such as the parties that were compared.
        name: what was checked.
        outcome: `PASSED`, `FAILED`, `ERROR` or `SKIPPED`.
        message: why it did not pass, in a sentence; empty where it did.
        seconds: how long it took, where that is known.
    """

    group: str
    name: str
    outcome: str
    message: str = ""
    seconds: float = 0.0


def checks_of(document: Document) -> list[Check]:
    """Return every check, and where there is none the verdict as one; there is one that did not
    pass if the verdict says so.
    """
    checks = [*_outputs(document), *_validity(document), *_reported(document.results)]
    checks += [
        Check(_command(document), each.kind, ERROR, each.message) for each in document.errors
    ]
    outcome = _OUTCOMES.get(document.verdict, FAILED if document.exit_code == 1 else ERROR)
    if checks and (outcome == PASSED or any(each.outcome != PASSED for each in checks)):
        return checks
    message = "" if outcome == PASSED else document.summary
    return [*checks, Check(_command(document), "verdict", outcome, message)]


def _command(document: Document) -> str:
    words = [word for word in document.command.split()[:3] if not word.startswith("-")]
    return " ".join(word for word in words if "." not in word) or "polygraphy"


def _outputs(document: Document) -> Iterator[Check]:
    for comparison in document.comparisons:
        group = f"{' vs. '.join(comparison.parties)} ({comparison.function})"
        for row in comparison.outputs:
            if row.passed:
                yield Check(group, row.name, PASSED)
            else:
                yield Check(
                    group, row.name, FAILED, f"worst: {row_in_words(row, comparison.parties)}."
                )
        if not comparison.outputs:
            yield Check(group, "outputs", FAILED, "No outputs were compared.")


def _validity(document: Document) -> Iterator[Check]:
    for validity in document.validation:
        bad = {what: validity[what] for what in ("nan", "inf") if validity[what]}
        found = ", ".join(f"{count} of {validity['size']} {what}" for what, count in bad.items())
        yield Check(
            f"validation of {validity['runner']}",
            validity["name"],
            FAILED if bad else PASSED,
            f"Elements that are not finite: {found}." if bad else "",
        )


def _reported(results: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    """Yield the checks among what commands found besides."""
    for result in results:
        if result["kind"] == "lint":
            for entry in result["entries"]:
                name = ", ".join(entry["nodes"][:1]) or entry["source"]
                outcome = FAILED if entry["level"] == "exception" else PASSED
                yield Check(f"lint ({entry['level']})", name, outcome, entry["message"])
        elif result["kind"] == "sweep":
            yield from map(_cell, result["rows"])
        elif result["kind"] == "compatibility":
            outcome = PASSED if result["is_compatible"] else FAILED
            yield Check("compatibility", result["backend"], outcome, result["reason"] or "")
        elif result["kind"] == "differences":
            for one in result["differences"]:
                message = f"{one['change']}: {one['reference']} / {one['candidate']}"
                yield Check("differences", f"{one['what']} {one['name']}", FAILED, message)


_OF_CELLS = {"passed": PASSED, "failed": FAILED, "crashed": FAILED, "error": ERROR,
             "timeout": ERROR, "memory": ERROR}  # fmt: skip
"""What the states of cells come to; all others are skipped."""


def _cell(row: Mapping[str, Any]) -> Check:
    """Return the check of a cell of a sweep; a failure that is known counts as skipped."""
    outcome = _OF_CELLS.get(row["state"], SKIPPED)
    message = "" if outcome == PASSED else f"{row['state']}: {row['summary']}"
    if row["known"]:
        outcome, message = SKIPPED, f"Known: {row['known']} ({message})"
    return Check(row["label"], row["model"], outcome, message, row["seconds"] or 0.0)
