"""The part of a graph around a node as SVG, coloured by the errors of what the nodes compute."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, isfinite, log10

from attrs import evolve
from markupsafe import Markup

from polygraphy.adapters.web.charts import shortened, svg
from polygraphy.domain.model import Model, Node
from polygraphy.domain.model.description import held_weight
from polygraphy.domain.model.drawing import GraphDrawing, drawn_graph
from polygraphy.domain.report.document import OutputRow
from polygraphy.domain.report.rows import label_of_node
from polygraphy.domain.report.summary import brief

_MOST_NODES = 36
_WIDTH, _HEIGHT = 176, 56
_COLUMN, _ROW = 192, 84
_MARGIN = 12
_STEPS = 4
"""Of colour, from what just fails to what is worst."""


def region_of(
    model: Model,
    rows: Mapping[str, OutputRow],
    centres: Iterable[str],
    anchor: Callable[[str], str | None],
) -> Markup | None:
    """Draw the nodes around some; None where none of them is in the model.

    Args:
        model: read with layers.
        rows: what was found about tensors, by name.
        centres: labels of the nodes around which others are drawn, the most important first.
        anchor: returns the id of the row of a tensor in the page.
    """
    shown = [node for node in model.graph.nodes if held_weight(node) is None]
    chosen = _around(shown, list(dict.fromkeys(centres)))
    if not chosen:
        return None
    kept = tuple(node for index, node in enumerate(shown) if index in chosen)
    drawing = drawn_graph(evolve(model.graph, nodes=kept, inputs=(), outputs=()))
    worst = max((_excess(rows, node) for node in kept), default=0.0)
    boxes = _boxes(drawing)
    parts = [_wire(drawing, number, boxes) for number in range(len(drawing.wires))]
    marked = set(centres)
    parts += [
        _node(node, box, rows, worst, anchor, is_centre=label_of_node(node) in marked)
        for node, box in zip(kept, boxes)
    ]
    width = max(x for x, _ in boxes) + _WIDTH + _MARGIN
    height = max(y for _, y in boxes) + _HEIGHT + _MARGIN
    return svg(width, height, f"{len(kept)} nodes of {len(shown)}", parts)


def _around(nodes: Sequence[Node], centres: Sequence[str]) -> set[int]:
    """Return the positions of the nodes that are fewest steps away."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.outputs if name}
    beside: list[set[int]] = [set() for _ in nodes]
    for index, node in enumerate(nodes):
        for name in node.inputs:
            maker = makers.get(name)
            if maker is not None and maker != index:
                beside[index].add(maker)
                beside[maker].add(index)
    labels = {label_of_node(node): index for index, node in enumerate(nodes)}
    waiting = deque(labels[label] for label in centres if label in labels)
    chosen: dict[int, None] = {}
    while waiting and len(chosen) < _MOST_NODES:
        index = waiting.popleft()
        if index not in chosen:
            chosen[index] = None
            waiting.extend(sorted(beside[index] - chosen.keys()))
    return set(chosen)


def _boxes(drawing: GraphDrawing) -> list[tuple[float, float]]:
    """Return the upper left corner of each node."""
    left = min(
        [*drawing.layout.columns, *(bend for bends in drawing.layout.bends for bend in bends)]
    )
    return [
        (_MARGIN + (column - left) * _COLUMN, float(_MARGIN + row * _ROW))
        for row, column in zip(drawing.layout.rows, drawing.layout.columns)
    ]


def _wire(drawing: GraphDrawing, number: int, boxes: Sequence[tuple[float, float]]) -> Markup:
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


def _rows_of(rows: Mapping[str, OutputRow], node: Node) -> list[OutputRow]:
    return [rows[name] for name in node.outputs if name in rows]


def _excess(rows: Mapping[str, OutputRow], node: Node) -> float:
    found = [
        inf if row.excess is None else row.excess for row in _rows_of(rows, node) if not row.passed
    ]
    return max((each for each in found if isfinite(each)), default=0.0)


def _node(
    node: Node,
    box: tuple[float, float],
    rows: Mapping[str, OutputRow],
    worst: float,
    anchor: Callable[[str], str | None],
    *,
    is_centre: bool,
) -> Markup:
    found, (x, y) = _rows_of(rows, node), box
    kind, text = _kind(found, _excess(rows, node), worst)
    if is_centre:
        kind += " centre"
    label = label_of_node(node)
    link = next(filter(None, (anchor(row.name) for row in found)), None)
    about = f"{node.op} {label}\n{', '.join(node.inputs)} -> {', '.join(node.outputs)}"
    drawn = Markup(
        '<title>{about}</title><rect class="node {kind}" x="{x:.1f}" y="{y:.1f}" width="{width}"'
        ' height="{height}" rx="6"/><text class="op" x="{left:.1f}" y="{first:.1f}">{op}</text>'
        '<text class="name" x="{left:.1f}" y="{second:.1f}">{label}</text>'
        '<text class="error" x="{left:.1f}" y="{third:.1f}">{text}</text>'
    ).format(
        about=about, kind=kind, x=x, y=y, width=_WIDTH, height=_HEIGHT, left=x + 9,
        first=y + 17, second=y + 33, third=y + 48, op=shortened(node.op, 24),
        label=shortened(label, 27), text=text,
    )  # fmt: skip
    return drawn if link is None else Markup('<a href="#{}">{}</a>').format(link, drawn)


def _kind(found: Sequence[OutputRow], excess: float, worst: float) -> tuple[str, str]:
    """Return the class of a node and what stands in it about its errors."""
    if not found:
        return "unknown", "not compared"
    errors = [row.metrics.get("max_absdiff") for row in found]
    known = [each for each in errors if each is not None]
    text = f"max abs {brief(max(known))}" if known else ""
    if all(row.passed for row in found):
        return "passed", text or "passed"
    if any(row.excess is None or not isfinite(row.excess) for row in found if not row.passed):
        return f"failed-{_STEPS}", text or "differs"
    share = log10(max(excess, 1.0)) / log10(max(worst, 10.0))
    return f"failed-{max(1, min(_STEPS, 1 + int(share * _STEPS)))}", text
