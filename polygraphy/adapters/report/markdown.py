"""The document as Markdown, as JUnit XML, and as summary and annotations of GitHub Actions."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from polygraphy.domain.accuracy.output_rows import Comparison, OutputRow, brief_value
from polygraphy.domain.catalog.formats import format_named
from polygraphy.domain.profiling.regression import SlowerNodes, slower_text
from polygraphy.domain.report.document import Document, verdict_word
from polygraphy.domain.report.summary import (
    ERROR,
    FAILED,
    PASSED,
    SKIPPED,
    advice_for,
    checks_of,
    proof_of,
    sample_sentences,
)
from polygraphy.domain.states.comparing import step_table, steps_in_words
from polygraphy.domain.tensors.naming import escape_command

_MOST_ROWS = 50
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|&~])")
_SIGNS = {"passed": "✅", "agree": "✅", "inconclusive": "❔"}


def markdown_of(document: Document) -> str:
    """Return a report as Markdown text."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Document) -> Iterator[str]:
    """Yield the lines of the Markdown text."""
    sign = _SIGNS.get(document.verdict, "❌")
    yield f"## {sign} {verdict_word(document.verdict)}: {text_of(document.summary)}"
    yield ""
    yield _code(document.command)
    for culprit in document.culprits:
        yield ""
        yield from _culprit(culprit)
    for comparison in document.comparisons:
        yield ""
        yield from _comparison(comparison)
    for result in document.results:
        if result["kind"] == "sweep":
            yield from _causes(result)
        elif result["kind"] == "samples":
            yield from _sample_lines(result)
        elif result["kind"] == "steps":
            yield from _steps(result)
    checks = [check for check in checks_of(document) if check.outcome != PASSED]
    checks = checks if not document.comparisons else []
    if checks:
        yield ""
        shown = ([check.group, check.name, check.message] for check in checks)
        yield from _table(("", "what", "why"), list(shown)[:_MOST_ROWS])
        if len(checks) > _MOST_ROWS:
            yield from ("", f"{len(checks) - _MOST_ROWS} more in the JSON document.")
    for advice in [] if document.culprits else advice_for(document):
        yield ""
        yield text_of(advice.text)
        if advice.command:
            yield from ("", _code(advice.command))
    for note in document.notes:
        yield ""
        yield f"> {text_of(note)}"
    yield ""
    for file in document.files:
        if file.quantization:
            yield text_of(f"Quantized model {file.path}: {file.quantization}")
            yield ""
    facts = [f"exit code {document.exit_code}", f"{document.seconds:.3g} s", document.started]
    facts += [
        f"{name} {value}"
        for section in document.environment.sections[:2]
        for name, value in section.facts
        if value != "not installed"
    ]
    yield f"<sub>{text_of(', '.join(facts))}</sub>"


def _causes(sweep: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines about the combinations of a sweep and the causes of failures."""
    counts = {row["label"]: Counter[str]() for row in sweep["rows"]}
    for row in sweep["rows"]:
        counts[row["label"]][row["state"]] += 1
    states = list(dict.fromkeys(row["state"] for row in sweep["rows"]))
    rows = ([label, *(str(count[state] or "") for state in states)] for label, count in
            counts.items())  # fmt: skip
    yield ""
    yield from _table(("combination", *states), rows)
    for row in sweep["rows"]:
        if row["slower_nodes"]:
            text = slower_text([SlowerNodes(**value) for value in row["slower_nodes"]])
            yield from ("", text_of(f"{row['name']}: slower nodes: {text}."))
    for group in sweep["groups"]:
        yield ""
        yield f"**{len(group['cells'])} cells: {text_of(group['cause'])}**"
        if group["remedy"]:
            proof = proof_of(group["remedy"], proven=group["proven"])
            yield from ("", proof, "", _code(group["remedy"]))


def _sample_lines(samples: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines about samples, with those whose answer changed."""
    yield ""
    yield " ".join(map(text_of, sample_sentences(samples)))
    changed = samples["changed"][:_MOST_ROWS]
    if changed:
        yield ""
        rows = ([value["name"], value["label"], *value["answers"]] for value in changed)
        yield from _table(("sample", "label", *samples["parties"]), rows)
    if len(samples["changed"]) > len(changed):
        yield from ("", f"{len(samples['changed']) - len(changed)} more in the JSON document.")


def _steps(steps: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines about the first wrong step of a model with states, and the table of steps."""
    yield ""
    yield " ".join(map(text_of, steps_in_words(steps)))
    if steps["first_wrong"] is not None:
        yield ""
        titles, rows = step_table(steps)
        yield from _table(tuple(titles), rows)


def _culprit(culprit: object) -> Iterator[str]:
    """Yield the lines about a culprit."""
    facts = culprit if isinstance(culprit, dict) else {}
    nodes = ", ".join(map(str, facts.get("nodes") or ()))
    yield f"**Culprit: {text_of(nodes)}** ({text_of(str(facts.get('cause', '')))})"
    yield from (f"- {text_of(str(sentence))}" for sentence in facts.get("evidence") or ())
    remedy = facts.get("remedy") or {}
    if remedy.get("command"):
        yield ""
        yield _code(escape_command(str(remedy["command"])))
    if remedy.get("note"):
        yield from ("", text_of(str(remedy["note"])))


def _culprit_texts(document: Document) -> Iterator[str]:
    """Yield the evidence about the culprits of a diagnosis and what to do, without markup."""
    for culprit in document.culprits:
        yield from map(str, culprit.get("evidence") or ())
        remedy = culprit.get("remedy") or {}
        yield from (str(remedy[part]) for part in ("command", "note") if remedy.get(part))


def _comparison(comparison: Comparison) -> Iterator[str]:
    """Yield the lines about a comparison."""
    parties = text_of(" vs. ".join(comparison.parties))
    counted = "outputs on average" if comparison.average else "iterations"
    matched = f"{comparison.matched}/{comparison.total} {counted}"
    yield f"**{parties}** ({comparison.function}): {matched}"
    yield ""
    rows = sorted(comparison.outputs, key=lambda row: row.passed)
    names = list(dict.fromkeys(name for row in rows for name in row.metrics))
    chosen = [name for name in ("max_absdiff", "max_reldiff") if name in names] or names
    title = ("", "output", "shape", *(name.replace("_", " ") for name in chosen), "passed")
    yield from _table(title, (_row(row, chosen) for row in rows[:_MOST_ROWS]))
    if len(rows) > _MOST_ROWS:
        yield ""
        yield f"{len(rows) - _MOST_ROWS} more outputs in the JSON document."


def _row(row: OutputRow, metrics: Sequence[str]) -> list[str]:
    """Return the cells of an output's row."""
    shape = "" if row.shape is None else "x".join(map(str, row.shape))
    values = [brief_value(row.metrics[name]) if name in row.metrics else "" for name in metrics]
    sign = _SIGNS["passed"] if row.passed else "❌"
    return [sign, row.name, shape, *values, f"{row.matched}/{row.total}"]


def _table(title: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(title)} |"
    yield f"|{' --- |' * len(title)}"
    for row in rows:
        yield f"| {' | '.join(map(text_of, row))} |"


def text_of(text: str) -> str:
    """Return a text on one line, with Markdown escaped."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """Return a text as a block of code."""
    line = " ".join(text.split())
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence}\n{line}\n{fence}"


_MOST_LINES = 10
"""GitHub shows no more of a step."""
_ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_TITLES = {**_ESCAPES, ":": "%3A", ",": "%2C"}


def annotate(document: Document) -> None:
    """Write the Markdown summary and error annotations, if the program runs in GitHub Actions."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    with suppress(OSError):
        if path:
            with Path(path).open("a", encoding="utf-8", errors="replace") as stream:
                stream.write(markdown_of(document))
    if sys.stderr is not None:
        # Errors also go to standard error, because standard output may contain the document.
        sys.stderr.write("".join(f"{line}\n" for line in error_lines(document)))


def error_lines(document: Document) -> list[str]:
    """Return GitHub's annotation lines for failed checks."""
    failed = [check for check in checks_of(document) if check.outcome in (FAILED, ERROR)]
    model = next((_path_in_checkout(file.path) for file in document.files
                  if format_named(file.path)), "")  # fmt: skip
    location = f"file={_escape_text(model, _IN_TITLES)}," if model else ""
    lines = []
    for check in failed[:_MOST_LINES]:
        title = " | ".join(filter(None, (model, check.group, check.name)))
        lines.append(
            f"::error {location}title={_escape_text(title, _IN_TITLES)}"
            f"::{_escape_text(check.message, _ESCAPES)}"
        )
    if len(failed) > _MOST_LINES:
        lines[-1] = f"::error::{len(failed) - _MOST_LINES + 1} more checks failed."
    return lines


def _path_in_checkout(path: str) -> str:
    """Return the path of a file relative to the root of the checkout, as GitHub shows it."""
    root, file = Path(os.environ.get("GITHUB_WORKSPACE") or ".").resolve(), Path(path).resolve()
    return file.relative_to(root).as_posix() if root in file.parents else Path(path).as_posix()


def _escape_text(text: str, escapes: dict[str, str]) -> str:
    """Return a printable text with characters escaped."""
    printable = text.encode("utf-8", "replace").decode()
    return "".join(escapes.get(letter, letter) for letter in printable)


_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML document may hold, not even escaped."""
_TAGS = {FAILED: "failure", ERROR: "error", SKIPPED: "skipped"}


def junit_of(document: Document) -> str:
    """Return a report as JUnit XML text."""
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
    suite = _append_element(root, "testsuite", head)
    properties = _append_element(suite, "properties", {})
    facts = {"verdict": document.verdict, "exit_code": document.exit_code}
    facts.update(
        (fact, text) for section in document.environment.sections for fact, text in section.facts
    )
    facts.update((f"sha256 of {file.path}", file.sha256) for file in document.files if file.sha256)
    facts.update(
        (f"quantization of {file.path}", file.quantization)
        for file in document.files
        if file.quantization
    )
    for name, value in facts.items():
        _append_element(properties, "property", {"name": name, "value": value})
    for check in checks:
        case = _append_element(
            suite,
            "testcase",
            {"classname": check.group, "name": check.name, "time": f"{check.seconds:g}"},
        )
        if check.outcome in _TAGS:
            about = {"message": check.message}
            if check.outcome != SKIPPED:
                about["type"] = check.outcome
            lines = [check.message, *_culprit_texts(document)]
            _append_element(case, _TAGS[check.outcome], about).text = _writable_text(
                "\n".join(lines)
            )
    _append_element(suite, "system-out", {}).text = _writable_text(document.summary)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _element(tag: str, attributes: Mapping[str, object]) -> ET.Element:
    """Return an XML element, without characters that XML forbids."""
    return ET.Element(tag, {name: _writable_text(str(value)) for name, value in attributes.items()})


def _append_element(parent: ET.Element, tag: str, attributes: Mapping[str, object]) -> ET.Element:
    """Append a new XML element to another one, and return it."""
    element = _element(tag, attributes)
    parent.append(element)
    return element


def _writable_text(text: str) -> str:
    """Return a text without characters that XML does not allow."""
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)
