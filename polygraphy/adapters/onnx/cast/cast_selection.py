"""Which nodes of a model are cast to a narrower type, as far as users said so."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from attrs import frozen

from polygraphy.domain.errors import UnknownNameError

if TYPE_CHECKING:
    from onnx import NodeProto


def names_of(node: NodeProto) -> list[str]:
    """Return the name of a node; of one without a name those of the tensors that it computes."""
    return [node.name] if node.name else [name for name in node.output if name]


@frozen
class CastSelection:
    """What is cast, and what is not; a node that is in both stays as it is.

    Attributes:
        keep_ops: operator types that stay as they are, with the graphs inside them.
        keep_nodes: names of nodes that stay; see `names_of`.
        only_ops: operator types that are cast; with `only_nodes`, nothing else is. A call of a
            function of the model is one operator.
        only_nodes: names of nodes that are cast.
    """

    keep_ops: frozenset[str] = frozenset()
    keep_nodes: frozenset[str] = frozenset()
    only_ops: frozenset[str] = frozenset()
    only_nodes: frozenset[str] = frozenset()

    def keeps(self, node: NodeProto) -> bool:
        """Return whether a node stays as it is, and what is inside it, too."""
        return node.op_type in self.keep_ops or _is_named(node, self.keep_nodes)

    def chooses(self, node: NodeProto) -> bool:
        """Return whether a node may be cast, if nothing else is against it."""
        if not self.only_ops and not self.only_nodes:
            return True
        return node.op_type in self.only_ops or _is_named(node, self.only_nodes)

    def check(self, nodes: Iterable[NodeProto]) -> None:
        """Log which names none of the nodes of a model goes by.

        Raises:
            UnknownNameError: there is one, in `keep_nodes`, `only_nodes` or `only_ops`.
        """
        present = list(nodes)
        names = {name for node in present for name in names_of(node)}
        for name in sorted(self.keep_nodes | self.only_nodes):
            if name not in names:
                raise UnknownNameError("Node", name, sorted(names))
        ops = {node.op_type for node in present}
        for op in sorted(self.only_ops):
            if op not in ops:
                raise UnknownNameError("Operator type", op, sorted(ops))


def _is_named(node: NodeProto, names: Collection[str]) -> bool:
    return bool(names) and any(name in names for name in names_of(node))
