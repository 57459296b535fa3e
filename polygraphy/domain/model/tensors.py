"""The tensors of a model: where each comes from, and who reads it."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from polygraphy.domain.model.description import Graph, Tensor
from polygraphy.domain.tensors.naming import matching


@frozen
class TensorUse:
    """One tensor of a graph.

    Attributes:
        tensor: name, data type and shape.
        producer: ``input``, or the node that computes it.
        consumers: how many operands of nodes it is.
        is_output: whether it is an output of the graph.
    """

    tensor: Tensor
    producer: str
    consumers: int = 0
    is_output: bool = False


def tensor_uses(graph: Graph) -> list[TensorUse]:
    """Return inputs and what nodes compute, in the order of the graph.

    Args:
        graph: a graph that was read with its layers.
    """
    outputs = {tensor.name for tensor in graph.outputs}
    counts: dict[str, int] = {}
    for node in graph.nodes:
        for name in node.inputs:
            counts[name] = counts.get(name, 0) + 1
    uses = [TensorUse(tensor, "input") for tensor in graph.inputs]
    for index, node in enumerate(graph.nodes):
        producer = f"Node {index} | {node.name} [Op: {node.op}]"
        uses += [
            TensorUse(graph.tensors.get(name, Tensor(name)), producer)
            for name in node.outputs
            if name
        ]
    return [
        evolve(
            use,
            consumers=counts.get(use.tensor.name, 0),
            is_output=use.tensor.name in outputs,
        )
        for use in uses
    ]


def select_tensors(uses: Sequence[TensorUse], names: Sequence[str]) -> list[TensorUse]:
    """Return the tensors of some names or patterns, in the order of the graph.

    Raises:
        UnknownNameError: a name is none, or a pattern matches none.
    """
    known = [use.tensor.name for use in uses]
    chosen = matching(names, known)
    return [use for use in uses if use.tensor.name in chosen]
