"""Nodes that are before those that they depend on."""

from __future__ import annotations

from typing import Any

from attrs import frozen

FUNCTION = "function"
"""The operator of the owner of a node that is in a function of the model."""


@frozen
class MisplacedNode:
    """A node that reads a tensor before another node of the same graph computes it.

    Attributes:
        label: its name, or else its first output.
        op: its operator.
        tensor: the tensor.
        owner_op: the operator of the node whose subgraph it is in, or `FUNCTION`; empty in the main
            graph.
        owner: the label of that node, or the name of the function.
        model: the model with the nodes in this order.
    """

    label: str
    op: str
    tensor: str
    owner_op: str
    owner: str
    model: Any
