"""The part of a graph around a node as SVG, coloured by the errors of what the nodes compute."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import evolve
from markupsafe import Markup

from polygraphy.adapters.web.charts import shortened, svg
from polygraphy.adapters.web.levels import levels_of
from polygraphy.domain.accuracy.output_rows import OutputRow
from polygraphy.domain.model import Model, Node
from polygraphy.domain.model.description import held_weight
from polygraphy.domain.model.drawing import GraphDrawing, drawn_graph

_MOST_NODES = 36
_WIDTH, _HEIGHT = 176, 56
_COLUMN, _ROW = 192, 84
_MARGIN = 12


def region_of(
    model: Model,
    rows: Mapping[str, OutputRow],
    centres: Iterable[str],
    anchor: Callable[[str], str | None],
    most: int = _MOST_NODES,
) -> Markup | None:
    """Draw the nodes around some; None where none of them is in the model.

    Args:
        model: read with layers.
        rows: what was found about tensors, by name.
        centres: labels of the nodes around which others are drawn, the most important first.
        anchor: returns the id of the row of a tensor in the page.
        most: how many nodes are drawn at most.
    """
    shown = [node for node in model.graph.nodes if held_weight(node) is None]
    chosen = _around(shown, list(dict.fromkeys(centres)), most)
    if not chosen:
        return None
    kept = tuple(node for index, node in enumerate(shown) if index in chosen)
    drawing = drawn_graph(evolve(model.graph, nodes=kept, inputs=(), outputs=()))
    levels = levels_of(rows)
    boxes = _boxes(drawing)
    parts = [_wire(drawing, number, boxes) for number in range(len(drawing.wires))]
    marked = set(centres)
    parts += [
        _node(node, box, levels, anchor, is_centre=node.label in marked)
        for node, box in zip(kept, boxes)
    ]
    width = max(x for x, _ in boxes) + _WIDTH + _MARGIN
    height = max(y for _, y in boxes) + _HEIGHT + _MARGIN
    return svg(width, height, f"{len(kept)} nodes of {len(shown)}", parts, is_fixed=True)


def _around(nodes: Sequence[Node], centres: Sequence[str], most: int) -> set[int]:
    """Return the positions of the nodes that are fewest steps away."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.outputs if name}
    beside: list[set[int]] = [set() for _ in nodes]
    for index, node in enumerate(nodes):
        for name in node.inputs:
            maker = makers.get(name)
            if maker is not None and maker != index:
                beside[index].add(maker)
                beside[maker].add(index)
    labels = {node.label: index for index, node in enumerate(nodes)}
    waiting = deque(labels[label] for label in centres if label in labels)
    chosen: dict[int, None] = {}
    while waiting and len(chosen) < most:
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


def _node(
    node: Node,
    box: tuple[float, float],
    levels: Mapping[str, tuple[int, str]],
    anchor: Callable[[str], str | None],
    *,
    is_centre: bool,
) -> Markup:
    found, (x, y) = [name for name in node.outputs if name in levels], box
    kind, text = _kind([levels[name] for name in found])
    if is_centre:
        kind += " centre"
    label = node.label
    link = next(filter(None, map(anchor, found)), None)
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
        first=y + 17, second=y + 33, third=y + 48, op=shortened(node.op, 24),
        label=shortened(label, 24), text=text,
    )  # fmt: skip
    # In a group of its own, because the style of a node is also that of the texts behind it.
    start = Markup("<g>") if link is None else Markup('<a href="#{}">').format(link)
    return start + drawn + Markup("</g>" if link is None else "</a>")


def _kind(found: Sequence[tuple[int, str]]) -> tuple[str, str]:
    """Return the class of a node and what stands in it about its errors."""
    if not found:
        return "unknown", "not compared"
    level, words = max(found)
    return f"failed-{level}" if level else "passed", words
