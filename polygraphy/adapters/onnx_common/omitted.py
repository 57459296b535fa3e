"""Results that nodes of an ONNX model leave out.

The standard lets a node leave out any result that it numbers, as ``Split`` does. ONNX Runtime
crashes, and takes the process with it, when one is left out of them.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from polygraphy.adapters.onnx_common.messages import all_nodes, graphs_of

NUMBERED = frozenset({"If", "Loop", "Scan", "Split"})
"""Operators of the standard with any number of results."""


def leaves_out_results(node: Any) -> bool:
    """Return whether a node, or one in a graph inside it, leaves out a result that is numbered."""
    if node.op_type in NUMBERED and not all(node.output):
        return True
    return any(leaves_out_results(inner) for graph in graphs_of(node) for inner in graph.node)


def with_all_results(model: Any) -> Any:
    """Return an ``onnx.ModelProto`` in which all such results have names: itself, which stays as it
    is, where they have.
    """
    owners = (model.graph, *model.functions)
    if not any(leaves_out_results(node) for owner in owners for node in owner.node):
        return model
    made = type(model)()
    made.CopyFrom(model)
    numbers = count()
    for owner in (made.graph, *made.functions):
        for node in all_nodes(owner):
            if node.op_type in NUMBERED:
                for position, name in enumerate(node.output):
                    if not name:
                        node.output[position] = f"polygraphy_left_out_{next(numbers)}"
    return made
