"""How the layers of a network are called that nodes of an ONNX model become.

TensorRT calls a layer after its node. For a node without a name it makes one up from the first
tensor that the node computes, ``node_of_<tensor>``; here such a node also goes by the names of its
tensors, as one with a name does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from attrs import frozen

from polygraphy.adapters.onnx_common.messages import graphs_of, identity_of


@frozen
class NodeSelection:
    """Nodes that were asked for by the names of their layers.

    Attributes:
        chosen: the nodes, as `cast_precision` calls them.
        others: all other nodes, apart from those that have a chosen one inside.
        unknown: names that no node goes by, in order.
        known: all names that nodes go by first.
    """

    chosen: frozenset[str]
    others: frozenset[str]
    unknown: tuple[str, ...]
    known: tuple[str, ...]


def select_nodes(model: Any, names: Iterable[str]) -> NodeSelection:
    """Find nodes of an `onnx.ModelProto`, also in the bodies of loops and conditions, by the names
    of their layers, or of what they compute.
    """
    wanted = list(names)
    chosen: set[str] = set()
    others: set[str] = set()
    known: dict[str, None] = {}
    met: set[str] = set()

    def walk(nodes: Iterable[Any]) -> bool:
        """Sort nodes into the two sets; return whether one of them was chosen."""
        found_any = False
        for node in nodes:
            aliases = _aliases(node)
            known.update(dict.fromkeys(aliases[:1]))
            found = set(wanted).intersection(aliases)
            met.update(found)
            # A node that is kept keeps what is inside of it, so a chosen one must not be inside.
            inside = [walk(body.node) for body in graphs_of(node)]
            has_inside = any(inside)
            if found:
                chosen.add(identity_of(node))
            elif not has_inside:
                others.add(identity_of(node))
            found_any |= bool(found) or has_inside
        return found_any

    walk(model.graph.node)
    return NodeSelection(
        frozenset(chosen) - {""},
        frozenset(others) - {""} - chosen,
        tuple(name for name in wanted if name not in met),
        tuple(known),
    )


def _aliases(node: Any) -> list[str]:
    outputs: Collection[str] = [name for name in node.output if name]
    first = [node.name] if node.name else [f"node_of_{name}" for name in outputs][:1]
    return [*first, *outputs]
