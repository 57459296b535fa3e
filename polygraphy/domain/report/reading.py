"""Reads from a document that was saved what other pictures are coloured by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import fields

from polygraphy.domain.errors import UsageError
from polygraphy.domain.report.document import SCHEMA, OutputRow

_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def rows_in(document: Any) -> dict[str, OutputRow]:
    """Return what a document says about outputs, by name; of several comparisons what failed.

    Raises:
        UsageError: it is no document of this version, or compares nothing.
    """
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        raise UsageError("This is no verdict document.", hint="Save one with --report PATH.json.")
    names = {field.name for field in fields(OutputRow)} - {"worst", "detail"}
    rows: dict[str, OutputRow] = {}
    try:
        for comparison in document["comparisons"]:
            for found in comparison["outputs"]:
                known = {name: found[name] for name in names & found.keys()}
                known["excess"] = _number(found["excess"])
                known["metrics"] = {
                    name: _number(value) for name, value in found["metrics"].items()
                }
                row = OutputRow(**known)
                if row.name not in rows or rows[row.name].passed:
                    rows[row.name] = row
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"The verdict document is damaged: {error!r}.") from error
    if not rows:
        raise UsageError("The verdict document compares no outputs.")
    return rows


def _number(value: Any) -> Any:
    return _NUMBERS.get(value, value) if isinstance(value, str) else value
