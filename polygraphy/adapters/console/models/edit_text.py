"""What an edit changed in a model, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from polygraphy.adapters.console.models.onnx_text import named_lines
from polygraphy.domain.model import Detail
from polygraphy.domain.model.edits import Edit, NodeLabel, Outline
from polygraphy.domain.tensors.naming import one_line


def outline_lines(title: str, outline: Outline) -> Iterator[str]:
    """Yield the lines about what a model consists of."""
    yield f"{title}:"
    yield from named_lines(outline.model, Detail())


def edit_line(edit: Edit) -> str:
    """Return how many nodes, of which types, and weights came and went."""
    removed = _counts(edit.removed_nodes, edit.removed_weights)
    added = _counts(edit.added_nodes, edit.added_weights)
    if not removed and not added:
        return "No node and no initializer was removed or added."
    parts = [("Removed", removed), ("Added", added)]
    return " | ".join(f"{what}: {counts}" for what, counts in parts if counts)


def _counts(nodes: Sequence[NodeLabel], weights: Sequence[str]) -> str:
    counts = []
    if nodes:
        ops = Counter(op for op, _ in nodes).most_common()
        of_each = ", ".join(f"{count} {op}" for op, count in ops)
        counts.append(f"{len(nodes)} node(s) ({of_each})")
    if weights:
        counts.append(f"{len(weights)} initializer(s)")
    return ", ".join(counts)


def part_lines(edit: Edit) -> Iterator[Callable[[], str]]:
    """Yield what writes the names of the parts that came and went, a line for each kind."""
    for what, nodes in (("Removed", edit.removed_nodes), ("Added", edit.added_nodes)):
        if nodes:
            yield partial(_node_names, what, nodes)
    for what, names in (("Removed", edit.removed_weights), ("Added", edit.added_weights)):
        if names:
            yield partial(_weight_names, what, names)


def _node_names(what: str, nodes: Sequence[NodeLabel]) -> str:
    return f"{what} nodes: " + ", ".join(
        f"{one_line(name)} [Op: {one_line(op)}]" for op, name in nodes
    )


def _weight_names(what: str, names: Sequence[str]) -> str:
    return f"{what} initializers: {', '.join(names)}"
