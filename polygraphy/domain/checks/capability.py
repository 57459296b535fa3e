"""Support of a model by a backend: supported nodes, and reasons for the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen


@frozen
class ModelNode:
    """A node of the model: its operator, and its name, which may be empty."""

    operator: str
    name: str = ""


@frozen
class Problem:
    """A reason why a backend does not support a model.

    Attributes:
        reason: its message.
        node: position of the node in the graph; None where it is not about one, or about one in a
            function of the model.
        operator: operator of the node; empty if unknown.
        name: name of the node; empty if unknown.
        stack: names of the functions of the model that the node is inside, outermost first.
    """

    reason: str
    node: int | None = None
    operator: str = ""
    name: str = ""
    stack: tuple[str, ...] = ()


@frozen
class ModelPart:
    """Consecutive nodes that are all supported, or all unsupported.

    Attributes:
        start: position of the first.
        end: position behind the last.
        is_supported: whether the backend supports them.
        problems: the reasons why it does not.
    """

    start: int
    end: int
    is_supported: bool
    problems: tuple[Problem, ...] = ()

    @property
    def nodes(self) -> range:
        """The positions of the nodes."""
        return range(self.start, self.end)

    @property
    def file_name(self) -> str:
        """Return the file name of the saved part."""
        kind = "supported" if self.is_supported else "unsupported"
        return f"{kind}_subgraph-nodes-{self.start}-{self.end - 1}.onnx"


@frozen
class SupportReport:
    """The support of one model by a backend.

    Attributes:
        is_supported: whether the whole model is supported.
        nodes: the nodes of the model.
        problems: the objections of the backend to the model as a whole.
        parts: the parts of the model in order, where it was partitioned.
    """

    is_supported: bool
    nodes: tuple[ModelNode, ...]
    problems: tuple[Problem, ...] = ()
    parts: tuple[ModelPart, ...] = ()

    def table(self) -> str:
        """Return a table of unsupported parts or, if there are none, of problems."""
        rows = self._part_rows() if self.parts else self._problem_rows()
        return "\n".join(["===== Summary =====", *_align_rows(rows)]) + "\n"

    def _problem_rows(self) -> Iterator[Sequence[str]]:
        """Yield the rows of the table of problems."""
        yield "Stack trace", "Operator", "Node", "Reason"
        for problem in self.problems:
            yield " -> ".join(problem.stack), problem.operator, problem.name, problem.reason

    def _part_rows(self) -> Iterator[Sequence[str]]:
        """Yield the rows of the table of parts."""
        yield "Operator", "Count", "Reason", "Nodes"
        rows: dict[tuple[str, str], list[ModelPart]] = {}
        counts: dict[tuple[str, str], int] = {}
        for part in self.parts:
            if part.is_supported:
                continue
            reason = "; ".join(problem.reason for problem in part.problems)
            for index in part.nodes:
                row = (self.nodes[index].operator, reason)
                parts = rows.setdefault(row, [])
                if part not in parts:
                    parts.append(part)
                counts[row] = counts.get(row, 0) + 1
        for row, parts in rows.items():
            ranges = str([[part.start, part.end] for part in parts])
            yield row[0], str(counts[row]), row[1], ranges


@frozen
class NodePlacement:
    """The execution provider of a node.

    Attributes:
        position: of the node in the graph of the model; None in a graph that was rewritten.
        operator: its operator.
        name: its name, which may be empty.
        provider: the execution provider that runs it.
        reason: the reason why that is not the requested one, if known.
    """

    position: int | None
    operator: str
    name: str
    provider: str
    reason: str = ""

    @property
    def in_words(self) -> str:
        """Return the node, and the reason if there is one, as text."""
        where = "" if self.position is None else f"{self.position}: "
        name = f" {self.name!r}" if self.name else ""
        return f"{where}{self.operator}{name}{f' ({self.reason})' if self.reason else ''}"


@frozen
class Placements:
    """The execution providers of all nodes of a model.

    Attributes:
        count: number of nodes of the model.
        wanted: the execution provider with the highest priority.
        nodes: the device of each node, as far as known.
    """

    count: int
    wanted: str
    nodes: tuple[NodePlacement, ...] = ()

    @property
    def misplaced_nodes(self) -> list[NodePlacement]:
        """Return the nodes placed on a different provider than requested."""
        return [node for node in self.nodes if node.provider != self.wanted]

    def lines(self, *, is_complete: bool = False) -> Iterator[str]:
        """Yield lines: number of nodes of each provider, then the nodes on another provider.

        Args:
            is_complete: whether all nodes are listed.
        """
        yield "---- Execution Providers ----"
        if not self.nodes:
            yield "This ONNX Runtime does not report which provider runs which node."
        for provider in dict.fromkeys((self.wanted, *(node.provider for node in self.nodes))):
            nodes = [node for node in self.nodes if node.provider == provider]
            yield f"{provider}: {len(nodes)} of {self.count} nodes"
            if is_complete or provider != self.wanted:
                yield from (f"    Node {node.in_words}" for node in nodes)

    def summary(self) -> str:
        """Return a line that lists nodes on another provider; empty if there are none."""
        elsewhere = self.misplaced_nodes
        if not elsewhere:
            return ""
        counts: dict[str, int] = {}
        for node in elsewhere:
            counts[node.operator] = counts.get(node.operator, 0) + 1
        kinds = [op if count == 1 else f"{op} ({count})" for op, count in counts.items()]
        other_name = ", ".join(dict.fromkeys(node.provider for node in elsewhere))
        kinds_text = ", ".join(kinds[:_MOST_KINDS]) + (", ..." if len(kinds) > _MOST_KINDS else "")
        verb = "runs" if len(elsewhere) == 1 else "run"
        return (
            f"{len(elsewhere)} of {self.count} nodes {verb} on {other_name} instead of"
            f" {self.wanted}:"
            f" {kinds_text}."
        )


_MOST_KINDS = 4
"""Operators that a summary names."""


def parts_of(node_count: int, supported: Iterable[Iterable[int]]) -> list[ModelPart]:
    """Return the parts of a model: runs of nodes that are all supported or all unsupported.

    Args:
        node_count: number of nodes.
        supported: groups of positions of nodes that are supported together; a node is in one group
            at most.

    Returns:
        Parts in order, which together hold every node once. A group whose nodes do not follow each
        other becomes several.
    """
    group_of: dict[int, int] = {
        node: number for number, nodes in enumerate(supported) for node in nodes
    }
    parts: list[ModelPart] = []
    for start in range(node_count):
        if parts and start < parts[-1].end:
            continue
        group, end = group_of.get(start), start + 1
        while end < node_count and group_of.get(end) == group:
            end += 1
        parts.append(ModelPart(start, end, group is not None))
    return parts


def _align_rows(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table with aligned columns."""
    table = [[" ".join(cell.split()) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table)]
    for index, row in enumerate(table):
        yield " | ".join(f"{cell:{width}}" for cell, width in zip(row, widths)).rstrip()
        if index == 0:
            yield "-" * (sum(widths) + 3 * (len(widths) - 1))


@frozen
class UnsupportedNode:
    """A node that a backend cannot run: its name, its operator, and why."""

    name: str
    op: str
    reason: str


@frozen
class Compatibility:
    """The result of loading a model in a backend.

    Attributes:
        backend: name of the backend.
        reason: the reason why it cannot run the model; None if it can.
        unsupported: the known nodes that it cannot run by themselves.
    """

    backend: str
    reason: str | None
    unsupported: tuple[UnsupportedNode, ...] = ()

    @property
    def is_compatible(self) -> bool:
        """Whether the backend can run the model."""
        return self.reason is None
