"""The lengths up to which a model works, as its graph shows them: tables and windows."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from attrs import frozen

from polygraphy.domain.model.graph import Graph, Node, Weight


@frozen
class Limit:
    """The largest length that a model supports according to its graph.

    Attributes:
        what: the limited part, such as "table 'wpe' of positions".
        length: the number of positions.
        is_hard: whether longer sequences fail, unlike those beyond a window.
        is_certain: whether no other reading of the graph is possible.
    """

    what: str
    length: int
    is_hard: bool = True
    is_certain: bool = True


_KEEP = frozenset(
    {"Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Expand", "Transpose", "Slice",
     "Flatten", "Clip", "Tile", "Gather", "GatherND"}
)  # fmt: skip
_JOIN = frozenset({"Mul", "Where", "Max", "Min", "Concat", "Add", "Sub"})
_COMPARE = frozenset({"Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
_WHOLE = ("int32", "int64")
_DEPTH = 40


class Positions:
    """The tensors of a graph that count positions."""

    def __init__(self, graph: Graph, positions: Collection[str]) -> None:
        """Start from the inputs that are positions."""
        self.graph = graph
        self._inputs = positions
        self._makers: dict[int, dict[str, Node]] = {}
        self._weights: dict[str, Weight] = {}
        for inner in graph.walk():
            self._makers[id(inner)] = inner.makers
            self._weights.update({weight.name: weight for weight in inner.all_weights})

    def limits(self) -> Iterator[Limit]:
        """Yield the limits from tables of positions, then those from windows."""
        windows: set[int] = set()
        for inner in self.graph.walk():
            for node in inner.nodes:
                length = self._table_length(inner, node)
                if length:
                    yield Limit(f"table {node.inputs[0]!r} of positions", length, is_certain=False)
        for inner in self.graph.walk():
            for node in inner.nodes:
                window = self._window(inner, node) if node.op in _COMPARE else 0
                if window and window not in windows:
                    windows.add(window)
                    yield Limit(f"the window of {node.label!r}", window, is_hard=False)

    def offset(self, graph: Graph, name: str) -> int | None:
        """Return the number in a tensor for position 0; None if it does not count positions."""
        seen: set[str] = set()
        pending = [(name, 0)]
        while pending and len(seen) < _DEPTH:
            name, offset = pending.pop(0)
            if name in seen or not name:
                continue
            seen.add(name)
            if name in self._inputs:
                return offset
            node = self._maker(graph, name)
            if node is None:
                continue
            if node.op in ("Range", "CumSum"):
                return offset + (node.op == "CumSum")
            if node.op in _KEEP:
                pending.append((node.inputs[0], offset))
            elif node.op in _JOIN:
                constants = [self.number(operand) for operand in node.inputs]
                total = sum(constant for constant in constants if constant is not None)
                shift = {"Add": total, "Sub": -total}.get(node.op, 0)
                pending += [
                    (operand, offset + shift)
                    for operand, number in zip(node.inputs, constants)
                    if number is None
                ]
        return None

    def number(self, name: str) -> int | None:
        """Return the only element of a constant; None for other tensors."""
        weight = self._weights.get(name)
        if weight is None or weight.shape not in ((), (1,)) or weight.dtype not in _WHOLE:
            return None
        if weight.values is None:
            return None
        return int(weight.values.reshape(-1)[0])

    def _maker(self, graph: Graph, name: str) -> Node | None:
        """Return the node that computes a tensor, in its graph or an outer one, or None.
        The result is None if there is none."""
        maker = self._makers[id(graph)].get(name)
        return self._makers[id(self.graph)].get(name) if maker is None else maker

    def _table_length(self, graph: Graph, node: Node) -> int:
        """Return the number of positions in the table that a node reads; 0 if it reads none."""
        table = self._weights.get(node.inputs[0]) if node.inputs else None
        if node.op != "Gather" or table is None or len(table.shape) < 2:
            return 0
        axis = int(node.attribute("axis", 0))
        offset = self.offset(graph, node.inputs[1])
        rows = table.shape[axis] if -len(table.shape) <= axis < len(table.shape) else 0
        return max(rows - offset, 0) if offset is not None and rows > 1 else 0

    def _window(self, graph: Graph, node: Node) -> int:
        """Return the width of the window that a comparison of positions allows.
        The result is 0 if it is not one."""
        if any(self.offset(graph, name) is None for name in node.inputs):
            return 0
        for name in node.inputs:
            moved = self._maker(graph, name)
            while moved is not None and moved.op in _KEEP:
                moved = self._maker(graph, moved.inputs[0])
            if moved is not None and moved.op in ("Sub", "Add"):
                constants = [
                    number for number in map(self.number, moved.inputs) if number is not None
                ]
                if len(constants) == 1 and abs(constants[0]) > 1:
                    return abs(constants[0])
        return 0


def describe_unreached(limits: Collection[Limit], positions: int, prompt: int) -> list[str]:
    """Return sentences about limits that a run does not reach, with the steps that would reach
    them.

    Args:
        limits: tables and windows.
        positions: number of positions of the run.
        prompt: the number of positions of the first step.
    """
    notes = []
    for limit in limits:
        if limit.is_hard and positions < limit.length:
            needed = limit.length - prompt + 1
            notes.append(
                f"{limit.what} has {limit.length} positions; this run uses {positions}."
                f" --steps {needed} reaches its end"
            )
        elif not limit.is_hard and positions <= limit.length:
            needed = limit.length - prompt + 2
            notes.append(
                f"{limit.what} is {limit.length} positions wide; this run uses {positions}."
                f" --steps {needed} goes beyond it"
            )
    return notes
