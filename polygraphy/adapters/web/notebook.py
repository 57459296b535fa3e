"""Results, verdicts and models for notebooks: fragments of HTML, with names escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from polygraphy.adapters.web.page import displayable_text
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.accuracy.output_rows import brief_value
from polygraphy.domain.accuracy.summarizing import accuracy_in_words, accuracy_records
from polygraphy.domain.arithmetic import summarize
from polygraphy.domain.diagnosis.culprit import DiagnosisResult
from polygraphy.domain.model import Model
from polygraphy.domain.model.statistics import statistics_of
from polygraphy.domain.quantization.listing import list_quantized_tensors, summarize_quantization
from polygraphy.domain.report.document import as_json_value, verdict_word
from polygraphy.domain.results.results import RunResults, short_names
from polygraphy.domain.states.comparing import StepsCompared, step_table, steps_in_words
from polygraphy.domain.tensors.naming import shorten_text

_MOST_ROWS = 100
_LARGEST = 1 << 22
"""Elements of an array whose range is shown: a notebook asks for it whenever a cell ends."""

_WHOLE = 10_000
"""Most characters of a cell that may hold a line to paste, which must not be shortened."""


def results_html(results: RunResults) -> str:
    """Return an HTML table of the tensors of each runner, in its first iteration."""
    names = short_names(results.keys())
    rows = [
        (name, len(iterations), output, *_facts(array))
        for name, (_, iterations) in zip(names, results.items())
        if iterations
        for output, array in iterations[0].items()
    ]
    title = ("runner", "iterations", "output", "type", "shape", "min", "max", "mean", "NaN")
    caption = f"Results of {len(names)} runner{'s' * (len(names) != 1)}, first iteration"
    return _table(caption, title, rows)


def verdicts_html(results: AccuracyResults) -> str:
    """Return an HTML table with a row for each compared output."""
    rows = [
        (
            f"{record['value_of']} vs. {record['reference']}",
            record["output"],
            record["dtype"] or "",
            _shape_text(record["shape"]),
            _number(record["max_absdiff"]),
            _number(record["max_reldiff"]),
            _number(record["metric"]),
            record["tolerance"] or "",
            f"{record['passed_iterations']}/{record['iterations']}",
            "passed" if record["passed"] else "\N{BALLOT X} failed",
        )
        for record in sorted(accuracy_records(results), key=lambda record: record["passed"])
    ]
    title = ("runs", "output", "type", "shape", "max abs", "max rel", "metric", "tolerance",
             "iterations", "verdict")  # fmt: skip
    verdicts = _table(accuracy_in_words(results).partition("\n")[0], title, rows)
    return verdicts + "".join(map(_steps_html, getattr(results, "steps", ())))


def _steps_html(steps: StepsCompared) -> str:
    """Return an HTML table with a row for each step, or for several similar steps."""
    steps_html = as_json_value(steps)
    titles, rows = step_table(steps_html)
    return _table(" ".join(steps_in_words(steps_html)), tuple(titles), [tuple(row) for row in rows])


def model_html(model: Model) -> str:
    """Return HTML tables of a model's inputs and outputs, with its size."""
    statistics = statistics_of(model)
    rows = [
        (kind, tensor.name, tensor.dtype or "", _shape_text(tensor.shape))
        for kind, tensors in (("input", model.graph.inputs), ("output", model.graph.outputs))
        for tensor in tensors
    ]
    caption = f"{model.path}: {statistics.nodes:,} nodes, {statistics.parameters:,} parameters"
    if tensors := list_quantized_tensors(model.graph):
        caption += f"; quantized: {summarize_quantization(tensors)}"
    return _table(caption, ("", "name", "type", "shape"), rows)


def diagnosis_html(result: DiagnosisResult) -> str:
    """Return an HTML table with a row for each culprit of a diagnosis."""
    rows = [
        (
            ", ".join(culprit.nodes) or "the whole model",
            culprit.op,
            culprit.cause,
            culprit.rewrite or culprit.party,
            culprit.evidence[0] if culprit.evidence else "",
            culprit.remedy.command or culprit.remedy.note,
        )
        for culprit in result.culprits
    ]
    steps = f"{len(result.attempts)} step{'s' * (len(result.attempts) != 1)}"
    caption = f"{verdict_word(result.verdict)} after {steps}. {result.reason}".rstrip()
    title = ("nodes", "operator", "cause", "who", "evidence", "fix")
    return _table(caption, title, rows, longest=_WHOLE)


def _facts(array: Any) -> tuple[str, ...]:
    """Return data type, shape and statistics of an array as texts."""
    if not isinstance(array, np.ndarray):
        return (type(array).__name__, "", "", "", "", "")
    kind = (str(array.dtype), _shape_text(array.shape))
    if array.dtype.kind in "OSUcV" or not 0 < array.size <= _LARGEST:
        return (*kind, "", "", "", "")
    summary = summarize(array, quantiles=())
    numbers = (_number(value) for value in (summary.min, summary.max, summary.mean))
    return (*kind, *numbers, str(summary.nan) if summary.nan else "")


def _number(value: Any) -> str:
    """Return a number as short text; empty for None."""
    return "" if value is None else brief_value(float(value))


def _shape_text(shape: Sequence[Any] | None) -> str:
    """Return the text of a shape; empty if unknown."""
    return "" if shape is None else f"[{', '.join(map(str, shape))}]"


def _table(
    caption: str, title: Iterable[str], rows: Sequence[Sequence[Any]], longest: int = 80
) -> str:
    """Return rows of text as an HTML table."""
    head = Markup("").join(Markup("<th>{}</th>").format(name) for name in title)
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup("<td>{}</td>").format(shorten_text(str(cell), longest)) for cell in row
            )
        )
        for row in rows[:_MOST_ROWS]
    )
    extra = len(rows) - _MOST_ROWS
    table = Markup("<p>{} more</p>").format(extra) if extra > 0 else ""
    return displayable_text(
        Markup(
            "<table><caption>{}</caption><thead><tr>{}</tr></thead><tbody>{}</tbody></table>{}"
        ).format(caption, head, body, table)
    )
