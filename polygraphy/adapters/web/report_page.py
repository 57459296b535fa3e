"""The page of a verdict document, in one self-contained file.

Names in it are not trusted, and may look like markup: the template environment escapes them, and
with the content security policy, the browser runs only the script of the page. The page contains
the document, compressed if it is large.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attrs import evolve, frozen
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from polygraphy.adapters.web.charts import (
    MEASURES,
    curves_chart,
    depth_chart,
    difference_chart,
    histogram_chart,
    svg,
)
from polygraphy.adapters.web.page import (
    VIEWER,
    displayable_text,
    json_for_script,
    levels_of,
    policy_of,
)
from polygraphy.adapters.web.times import times_table
from polygraphy.domain.accuracy.output_rows import (
    Comparison,
    OutputRow,
    WorstIteration,
    brief_pair,
    brief_value,
    row_in_words,
)
from polygraphy.domain.accuracy.summarizing import worst_row
from polygraphy.domain.model import Model, Node
from polygraphy.domain.model.drawing import GraphDrawing, draw_graph
from polygraphy.domain.model.graph import constant_weight
from polygraphy.domain.profiling.regression import SlowerNodes, slower_text
from polygraphy.domain.report.document import Document, verdict_word
from polygraphy.domain.report.summary import (
    PASSED,
    advice_for,
    checks_of,
    proof_of,
    sample_sentences,
)
from polygraphy.domain.states.comparing import step_table, steps_in_words
from polygraphy.domain.sweep.outcome import FAILURES
from polygraphy.domain.tensors.naming import format_time, shorten_text

_MOST_NODES = 36
_WIDTH, _HEIGHT = 176, 56
_COLUMN, _ROW = 192, 84
_MARGIN = 12


def region_of(
    model: Model,
    rows: Mapping[str, OutputRow],
    centers: Iterable[str],
    anchor: Callable[[str], str | None],
    most: int = _MOST_NODES,
) -> Markup | None:
    """Return a drawing of the nodes around some nodes; None if none of these is in the model.

    Args:
        model: the model with its layers.
        rows: the findings about tensors, by name.
        centers: labels of the nodes around which others are drawn, the most important first.
        anchor: returns the id of the row of a tensor in the page.
        most: the largest number of nodes to draw.
    """
    shown_nodes = [node for node in model.graph.nodes if constant_weight(node) is None]
    chosen = _nearest_nodes(shown_nodes, list(dict.fromkeys(centers)), most)
    if not chosen:
        return None
    nodes = tuple(node for index, node in enumerate(shown_nodes) if index in chosen)
    drawing = draw_graph(evolve(model.graph, nodes=nodes, inputs=(), outputs=()))
    levels = levels_of(rows)
    boxes = _boxes(drawing)
    parts = [_wire(drawing, number, boxes) for number in range(len(drawing.wires))]
    marked = set(centers)
    parts += [
        _node(node, box, levels, anchor, is_center=node.label in marked)
        for node, box in zip(nodes, boxes)
    ]
    width = max(x for x, _ in boxes) + _WIDTH + _MARGIN
    height = max(y for _, y in boxes) + _HEIGHT + _MARGIN
    return svg(width, height, f"{len(nodes)} nodes of {len(shown_nodes)}", parts, is_fixed=True)


def _nearest_nodes(nodes: Sequence[Node], centers: Sequence[str], most: int) -> set[int]:
    """Return the positions of the nodes with the shortest paths to the given ones."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.outputs if name}
    beside: list[set[int]] = [set() for _ in nodes]
    for index, node in enumerate(nodes):
        for name in node.inputs:
            maker = makers.get(name)
            if maker is not None and maker != index:
                beside[index].add(maker)
                beside[maker].add(index)
    labels = {node.label: index for index, node in enumerate(nodes)}
    waiting = deque(labels[label] for label in centers if label in labels)
    chosen: dict[int, None] = {}
    while waiting and len(chosen) < most:
        index = waiting.popleft()
        if index not in chosen:
            chosen[index] = None
            waiting.extend(sorted(beside[index] - chosen.keys()))
    return set(chosen)


def _boxes(drawing: GraphDrawing) -> list[tuple[float, float]]:
    """Return the upper left corner of each node."""
    remaining_value = min(
        [*drawing.layout.columns, *(bend for bends in drawing.layout.bends for bend in bends)]
    )
    return [
        (_MARGIN + (column - remaining_value) * _COLUMN, float(_MARGIN + row * _ROW))
        for row, column in zip(drawing.layout.rows, drawing.layout.columns)
    ]


def _wire(drawing: GraphDrawing, number: int, boxes: Sequence[tuple[float, float]]) -> Markup:
    """Return the line of an edge."""
    start, end, name = drawing.wires[number]
    offset = boxes[start][0] - drawing.layout.columns[start] * _COLUMN
    x, y = boxes[start][0] + _WIDTH / 2, boxes[start][1] + _HEIGHT
    path = f"M{x:.1f},{y:.1f}"
    points = [
        (offset + bend * _COLUMN + _WIDTH / 2, _MARGIN + (drawing.layout.rows[start] + step) * _ROW)
        for step, bend in enumerate(drawing.layout.bends[number], 1)
    ]
    for position, (to_x, to_y) in enumerate([*points, (boxes[end][0] + _WIDTH / 2, boxes[end][1])]):
        middle = (y + to_y) / 2
        path += f"C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{to_y:.1f}"
        x, y = to_x, to_y
        if position < len(points):
            y += _HEIGHT
            path += f"V{y:.1f}"
    return Markup('<path class="wire" d="{}"><title>{}</title></path>').format(path, name)


def _node(
    node: Node,
    box: tuple[float, float],
    levels: Mapping[str, tuple[int, str]],
    anchor: Callable[[str], str | None],
    *,
    is_center: bool,
) -> Markup:
    """Return the drawing of a node, which links to its row."""
    names, (x, y) = [name for name in node.outputs if name in levels], box
    kind, text = _node_class([levels[name] for name in names])
    if is_center:
        kind += " center"
    label = node.label
    link = next(filter(None, map(anchor, names)), None)
    about = f"{node.op} {label}\n{', '.join(node.inputs)} -> {', '.join(node.outputs)}"
    if node.origin is not None:
        about += f"\n{node.origin}"
    drawn = Markup(
        '<title>{about}</title><rect class="node {kind}" x="{x:.1f}" y="{y:.1f}" width="{width}"'
        ' height="{height}" rx="6"/><text class="op" x="{left:.1f}" y="{first:.1f}">{op}</text>'
        '<text class="name" x="{left:.1f}" y="{second:.1f}">{label}</text>'
        '<text class="error" x="{left:.1f}" y="{third:.1f}">{text}</text>'
    ).format(
        about=about, kind=kind, x=x, y=y, width=_WIDTH, height=_HEIGHT, left=x + 9,
        first=y + 17, second=y + 33, third=y + 48, op=shorten_text(node.op, 24),
        label=shorten_text(label, 24), text=text,
    )  # fmt: skip
    # Use a separate group, because the style of a node also applies to the following text.
    start = Markup("<g>") if link is None else Markup('<a href="#{}">').format(link)
    return start + drawn + Markup("</g>" if link is None else "</a>")


def _node_class(errors: Sequence[tuple[int, str]]) -> tuple[str, str]:
    """Return the CSS class of a node in the drawing, and the text about its errors."""
    if not errors:
        return "unknown", "not compared"
    level, words = max(errors)
    return f"failed-{level}" if level else "passed", words


_FOLDER = VIEWER.parent / "report"
_LARGE = 20_000
"""Letters of a document that is compressed."""
_BREAKS = re.compile(r"(?<=[/._])(?=[A-Za-z])")
"""Positions where a name may continue on the next line."""
_ATTEMPTS = "attempts"
"""The kind of result that has a table of its own: the steps of a diagnosis."""
_ERRORS = "errors"
"""The kind of result that is drawn: how far tensors are off, of a diagnosis."""
_SWEEP = "sweep"
"""The kind of result that has tables of its own: the cells of a sweep."""
_SAMPLES = "samples"
"""The kind of result that has a table of its own: samples that changed their answer."""
_STEPS = "steps"
"""The kind of result that has a table of its own: the steps of a model with states."""
_PROFILE = "profile"
"""The kind of result that has a table of its own: the time of each node."""
_CURVES = {
    "cumulative": "computed from the inputs, without rewrites",
    "isolated": "each node by itself",
    "rewritten": "each node of the executed graph, by itself",
}
_AROUND = 16
"""Nodes that are drawn around a culprit: it should be seen at once."""
_MOST_ROWS = 3000
_MOST_CELLS = 80
_MOST_MODELS = 30
"""Rows of the tables of a sweep that are laid out at first; the page holds all."""
_MOST_LETTERS = 20_000


@frozen
class _Table:
    """A comparison with its charts, and the IDs of its rows."""

    comparison: Comparison
    number: int
    charts: Sequence[tuple[str, Markup]]

    def anchor(self, index: int) -> str:
        """Return the HTML id of a row."""
        return f"r{self.number}-{index}"

    @property
    def rows(self) -> list[tuple[str, OutputRow]]:
        """Return the ID of each row to show, and the row.

        All are shown, or the first failures if there are very many.
        """
        indexed = list(enumerate(self.comparison.outputs))
        if len(indexed) > _MOST_ROWS:
            indexed = sorted(indexed, key=lambda pair: pair[1].passed)[:_MOST_ROWS]
            indexed.sort(key=lambda pair: pair[0])
        return [(self.anchor(index), row) for index, row in indexed]

    @property
    def metrics(self) -> list[str]:
        """Return the metrics that have a column."""
        names = dict.fromkeys(name for row in self.comparison.outputs for name in row.metrics)
        chosen = [measure.metric for measure in MEASURES if measure.metric in names]
        return chosen or list(names)


def report_page(document: Document, model: Model | None, folder: str = ".") -> str:
    """Return a page that shows a document; see the port."""
    sweeps = [_matrix(result, folder) for result in document.results if result["kind"] == _SWEEP]
    tables = [_table(comparison, number) for number, comparison in enumerate(document.comparisons)]
    script = (_FOLDER / "report.js").read_text(encoding="utf-8")
    style = (_FOLDER / "report.css").read_text(encoding="utf-8")
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        brief=_brief_number,
        time=format_time,
        shape=_shape_text,
        words=_words,
        short=partial(shorten_text, most=60),
        breakable=_breakable_name,
    )
    page = environment.get_template("report.html.j2").render(
        document=document,
        title=f"{verdict_word(document.verdict)}: {document.command}",
        verdict=verdict_word(document.verdict),
        policy=policy_of(script, style),
        style=style,
        script=script,
        embedded=_script_element("document", document.as_json()),
        advice=advice_for(document),
        tables=tables,
        region=None if model is None else _region(document, model, tables),
        details=list(_details(tables)),
        checks=[] if sweeps else _other_checks(document),
        sweeps=sweeps,
        samples=[
            (result, list(sample_sentences(result)))
            for result in document.results
            if result["kind"] == _SAMPLES
        ],
        steps=[
            (list(steps_in_words(result)), *step_table(result))
            for result in document.results
            if result["kind"] == _STEPS
        ],
        times=[times_table(result) for result in document.results if result["kind"] == _PROFILE],
        most_cells=_MOST_CELLS,
        most_rows=_MOST_ROWS,
        curves=list(_curves(document)),
        curve_words={
            name: words
            for name, words in _CURVES.items()
            if any(curve["what"] == name for curve in _error_curves(document))
        },
        attempts=[
            attempt
            for result in document.results
            if result["kind"] == _ATTEMPTS
            for attempt in result["attempts"]
        ],
        results=[
            (_heading(result), _text(result))
            for result in document.results
            if result["kind"] not in (_ATTEMPTS, _ERRORS, _PROFILE, _SWEEP, _SAMPLES, _STEPS)
        ],
    )
    return displayable_text(page)


def _matrix(sweep: Mapping[str, Any], report_folder: str) -> Mapping[str, Any]:
    """Return the cells of a sweep by model and combination;
    if there are very many, some only as data for the script.
    """
    rows = sweep["rows"]
    labels = list(dict.fromkeys(row["label"] for row in rows))
    models: dict[str, dict[str, tuple[int, Any]]] = {}
    for number, row in enumerate(rows, 1):
        models.setdefault(row["model"], {})[row["label"]] = (number, row)
    folder = quote(Path(os.path.relpath(sweep["folder"] or ".", report_folder)).as_posix())
    texts = [_cell_texts(folder, number, row) for number, row in enumerate(rows, 1)]
    lines = [
        [model, *([cells[label][0], cells[label][1]["state"]] if label in cells else None
                  for label in labels)]
        for model, cells in models.items()
    ]  # fmt: skip
    return {
        **sweep,
        "groups": [
            {**group, "proof": proof_of(group["remedy"], proven=group["proven"])}
            for group in sweep["groups"]
        ],
        "cells": texts[:_MOST_CELLS],
        "labels": labels,
        "models": dict(list(models.items())[:_MOST_MODELS]),
        "failures": FAILURES,
        "all_cells": _script_element("all-cells", texts) if len(texts) > _MOST_CELLS else "",
        "all_models": _script_element("all-models", lines) if len(lines) > _MOST_MODELS else "",
    }


def _cell_texts(folder: str, number: int, row: Mapping[str, Any]) -> list[str]:
    """Return the class of the row of a cell, and the texts of its columns."""
    time = "" if row["inference"] is None else _brief_number(row["inference"] * 1000)
    why = [f"{value[0].upper()}{value[1:]}." for value in (*row["changes"], row["known"]) if value]
    if row["state"] != PASSED or row["changes"] or row["is_foreign"]:
        slower = slower_text([SlowerNodes(**value) for value in row["slower_nodes"]])
        why += [f"Slower: {slower}." if slower else ""]
        why += [row["summary"], "Run on a different machine." if row["is_foreign"] else ""]
    return [
        "failed" if row["state"] in FAILURES else "passed",
        str(number),
        row["model"],
        row["label"],
        f"{row['state']} (known)" if row["known"] else row["state"],
        _brief_number(row["difference"]),
        f"{time} shared" if time and row["is_shared"] else time,
        _brief_number(row["seconds"]),
        "" if row["memory"] is None else str(row["memory"] // (1 << 20)),
        " ".join(filter(None, why)),
        f"{folder}/{row['report']}" if row["report"] else "",
        row["command"],
    ]


def _heading(result: Mapping[str, Any]) -> str:
    """Return the heading of a result: its kind, and what distinguishes it from others."""
    texts = [result.get(key) for key in ("backend", "name", "outcome", "path", "source")]
    kind = str(result["kind"]).replace("_", " ")
    return " ".join([kind, *(text for text in texts if isinstance(text, str))])


def _table(comparison: Comparison, number: int) -> _Table:
    """Return the table of a comparison with its charts."""
    table = _Table(comparison, number, ())
    charts = [
        (measure.title, depth_chart(comparison.outputs, measure, table.anchor))
        for measure in MEASURES
    ]
    drawn = [(title, chart) for title, chart in charts if chart is not None]
    return _Table(comparison, number, drawn)


def _region(document: Document, model: Model, tables: Sequence[_Table]) -> Markup | None:
    """Return a drawing of the graph around the culprit, else around the first and the worst
    failure.
    """
    centers = [str(node) for culprit in document.culprits for node in culprit.get("nodes") or ()]
    rows: dict[str, OutputRow] = {}
    anchors: dict[str, str] = {}
    for table in tables:
        for index, row in enumerate(table.comparison.outputs):
            if row.name not in rows or rows[row.name].passed:
                rows[row.name], anchors[row.name] = row, table.anchor(index)
    rows = rows or _rows_of_curves(document)
    failed = [row for row in rows.values() if not row.passed and row.node]
    worst = worst_row(document.comparisons)
    suspects = [*failed[:1], *([worst[1]] if worst else [])]
    centers += [row.node.label for row in suspects if row.node]
    most = {"most": max(_AROUND, 2 * len(centers))} if document.culprits else {}
    return region_of(model, rows, centers, anchors.get, **most)


def _curves(document: Document) -> Iterator[tuple[str, Markup]]:
    """Yield each backend of a diagnosis with a chart of the errors measured in it."""
    curves = _error_curves(document)
    for party in dict.fromkeys(curve["party"] for curve in curves):
        chart = curves_chart([curve for curve in curves if curve["party"] == party], curves)
        if chart is not None:
            yield party, chart


def _error_curves(document: Document) -> list[Mapping[str, Any]]:
    """Return the measured errors of tensors in a diagnosis."""
    results = [result["curves"] for result in document.results if result["kind"] == _ERRORS]
    return [curve for value in results for curve in value]


def _rows_of_curves(document: Document) -> dict[str, OutputRow]:
    """Return the worst row of each tensor among errors of nodes that ran in isolation."""
    rows: dict[str, OutputRow] = {}
    for result in document.results:
        for curve in result["curves"] if result["kind"] == _ERRORS else ():
            for error in curve["tensors"] if curve["what"] != "cumulative" else ():
                name, excess = error["name"], float(error["excess"])
                if name not in rows or excess > (rows[name].worst.excess or 0.0):
                    absolute = error["absolute"]
                    metrics = {} if absolute is None else {"max_absdiff": float(absolute)}
                    matched = int(not error["wrong"])
                    worst = WorstIteration(None, excess)
                    rows[name] = OutputRow(name, matched, 1, worst=worst, metrics=metrics)
    return rows


def _details(tables: Sequence[_Table]) -> Iterator[Mapping[str, Any]]:
    """Yield the details shown about each examined output."""
    for table in tables:
        for index, row in enumerate(table.comparison.outputs):
            if row.detail is not None:
                names = table.comparison.parties
                yield {
                    "anchor": table.anchor(index),
                    "row": row,
                    "names": names,
                    "words": f"worst: {row_in_words(row, names)}",
                    "values": histogram_chart(row.detail, names),
                    "sizes": difference_chart(row.detail),
                    "around": _surrounding_cells(row),
                }


def _surrounding_cells(row: OutputRow) -> Mapping[str, Any] | None:
    """Return the elements around the worst one as cells of text; None if they are unknown."""
    around = None if row.detail is None else row.detail.get("around")
    if around is None or row.worst.element is None:
        return None
    start, index = around["start"], list(row.worst.element.index)
    lines = []
    for line, (actual, expected) in enumerate(zip(around["found"], around["expected"])):
        cells = []
        for column, pair in enumerate(zip(actual, expected)):
            offset = [line, column] if len(index) > 1 else [column]
            position = [
                *start[: -len(offset)],
                *(a + b for a, b in zip(start[-len(offset) :], offset)),
            ]
            cells.append((*brief_pair(*pair), position == index, pair[0] != pair[1]))
        lines.append(cells)
    return {"start": start, "lines": lines}


def _other_checks(document: Document) -> list[Any]:
    """Return the checks without a table of outputs, failures first."""
    texts = {
        f"{' vs. '.join(comparison.parties)} ({comparison.function})"
        for comparison in document.comparisons
    }
    checks = [check for check in checks_of(document) if check.group not in texts]
    return sorted(checks, key=lambda check: check.outcome == PASSED)


def _script_element(name: str, value: Any) -> Markup:
    """Return the element with a value for the page's script, as JSON, compressed if it is large."""
    text = json_for_script(value)
    if len(text) <= _LARGE:
        return Markup(f'<script type="application/json" id="{name}">{text}</script>')
    packed = base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
    return Markup(f'<script type="text/plain" id="{name}" data-encoding="gzip">{packed}</script>')


def _text(value: Any) -> str:
    """Return a text of limited length."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    extra = len(text) - _MOST_LETTERS
    return text if extra <= 0 else f"{text[:_MOST_LETTERS]}\n... {extra:,} more characters"


def _brief_number(value: Any) -> str:
    """Return a number as short text; empty for None."""
    return "" if value is None else brief_value(value)


def _breakable_name(text: str) -> Markup:
    """Return a name with positions at which a browser may break lines."""
    return Markup(_BREAKS.sub("<wbr>", escape(text)))


def _shape_text(shape: Sequence[Any] | None) -> str:
    """Return the text of a shape; empty if unknown."""
    return "" if shape is None else "\N{MULTIPLICATION SIGN}".join(map(str, shape)) or "scalar"


def _words(name: str) -> str:
    """Return the name of a metric as words."""
    return {"max_absdiff": "max abs", "max_reldiff": "max rel"}.get(name, name.replace("_", " "))
