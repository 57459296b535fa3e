"""Findings about models as SARIF 2.1.0, which code scanning shows: one result per finding of `check
lint`, with the id of its rule, and one per failed check.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from polygraphy import __version__
from polygraphy.domain.catalog.lint import RULES
from polygraphy.domain.report.document import Document
from polygraphy.domain.report.summary import ERROR, FAILED, checks_of

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"exception": "error", "warning": "warning", "info": "note"}
_OTHER = "check/failed"


def sarif_of(document: Document) -> str:
    """Return a report as SARIF text."""
    results = [*_findings(document)] or [*_failures(document)]
    used = sorted({result["ruleId"] for result in results})
    rules = [
        {"id": rule, "shortDescription": {"text": RULES.get(rule, "A check failed.")}}
        for rule in used
    ]
    driver = {"name": "polygraphy", "version": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "invocations": [
            {"executionSuccessful": not document.errors, "exitCode": document.exit_code}
        ],
        "results": results,
    }
    values = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(values, indent=2, ensure_ascii=True) + "\n"


def _findings(document: Document) -> Iterator[dict[str, Any]]:
    """Yield the SARIF results of lint."""
    for report in document.results:
        if report["kind"] != "lint":
            continue
        for entry in report["entries"]:
            yield _sarif_result(
                entry["rule"],
                _LEVELS[entry["level"]],
                entry["message"],
                report["path"],
                entry["nodes"],
            )


def _failures(document: Document) -> Iterator[dict[str, Any]]:
    """Yield the SARIF results of failed checks."""
    path = document.files[0].path if document.files else ""
    for check in checks_of(document):
        if check.outcome in (FAILED, ERROR):
            yield _sarif_result(
                _OTHER, "error", f"{check.group}: {check.message}", path, [check.name]
            )


def _sarif_result(rule: str, level: str, text: str, path: str, nodes: list[str]) -> dict[str, Any]:
    """Return a result in SARIF; it points to the first line of the model,
    because a model has no lines, and names the nodes.
    """
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(path.replace("\\", "/"))},
            "region": {"startLine": 1},
        }
    }
    if nodes:
        location["logicalLocations"] = [{"name": name, "kind": "element"} for name in nodes]
    name_alone = f"{nodes[0]}: {text}" if nodes else text
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": name_alone},
        "locations": [location],
    }
