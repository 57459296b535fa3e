"""The document as JUnit XML, which continuous integration shows as tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree as ET

from polygraphy.domain.report.document import Document
from polygraphy.domain.report.summary import ERROR, FAILED, SKIPPED, checks_of

_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML document may hold, not even escaped."""
_TAGS = {FAILED: "failure", ERROR: "error", SKIPPED: "skipped"}


def junit_of(document: Document) -> str:
    """Return the text of the file."""
    checks = checks_of(document)
    counts = {
        "tests": len(checks),
        "failures": sum(check.outcome == FAILED for check in checks),
        "errors": sum(check.outcome == ERROR for check in checks),
        "skipped": sum(check.outcome == SKIPPED for check in checks),
    }
    seconds = {"time": f"{document.seconds:.3f}"}
    root = _element("testsuites", {**counts, **seconds})
    started = document.started.partition("+")[0]
    head = {"name": document.command, **counts, **seconds, "timestamp": started}
    suite = _below(root, "testsuite", head)
    properties = _below(suite, "properties", {})
    facts = {"verdict": document.verdict, "exit_code": document.exit_code}
    facts.update(
        (fact, text) for each in document.environment.sections for fact, text in each.facts
    )
    facts.update((f"sha256 of {each.path}", each.sha256) for each in document.files if each.sha256)
    for name, value in facts.items():
        _below(properties, "property", {"name": name, "value": value})
    for check in checks:
        about_case = {"classname": check.group, "name": check.name, "time": f"{check.seconds:g}"}
        case = _below(suite, "testcase", about_case)
        if check.outcome in _TAGS:
            about = {"message": check.message}
            if check.outcome != SKIPPED:
                about["type"] = check.outcome
            _below(case, _TAGS[check.outcome], about).text = _writable(check.message)
    _below(suite, "system-out", {}).text = _writable(document.summary)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _element(tag: str, attributes: Mapping[str, object]) -> ET.Element:
    return ET.Element(tag, {name: _writable(str(value)) for name, value in attributes.items()})


def _below(parent: ET.Element, tag: str, attributes: Mapping[str, object]) -> ET.Element:
    made = _element(tag, attributes)
    parent.append(made)
    return made


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)
