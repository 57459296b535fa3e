"""The ranges of a model's inputs that its quantization represents."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.model.regions import MOVES
from polygraphy.domain.quantization.listing import list_quantized_tensors
from polygraphy.domain.tensors.aliases import Array

_QUANTIZES = "QuantizeLinear"
_MOST = 4096
"""Mean and deviation of channels are few numbers; a larger constant is no preprocessing."""

Range = tuple[float, float]


def quantized_input_ranges(graph: Graph) -> dict[str, Range]:
    """Return, by input, the smallest and the largest number that the quantized tensors behind it
    represent; inputs without such tensors are missing.

    Preprocessing in the model, such as the subtraction of a mean, is taken into account.

    Args:
        graph: with nodes, attributes and the elements of weights.
    """
    if not any(node.op == _QUANTIZES for node in graph.nodes):
        return {}
    limits = {
        tensor.name: tensor.limits
        for tensor in list_quantized_tensors(graph)
        if tensor.kind == "activation" and tensor.limits is not None
    }
    ranges = {}
    for name in (value.name for value in graph.inputs):
        ends = [
            _range_before(limits[tensor], factor, offset)
            for tensor, factor, offset in _scaled_copies(graph, name)
            if tensor in limits
        ]
        if ends:
            low, high = max(low for low, _ in ends), min(high for _, high in ends)
            if np.isfinite([low, high]).all() and low < high:
                ranges[name] = (low, high)
    return ranges


def _range_before(limits: Range, factor: Array, offset: Array) -> Range:
    """Return the values of x for which ``x * factor + offset`` is within limits."""
    with np.errstate(all="ignore"):
        ends = [(limit - offset) / factor for limit in limits]
    return float(np.minimum(*ends).max()), float(np.maximum(*ends).min())


def _scaled_copies(graph: Graph, name: str) -> Iterator[tuple[str, Array, Array]]:
    """Yield the tensors that are an input multiplied by factors plus offsets, with both."""
    pending, seen = [(name, np.ones(1), np.zeros(1))], {name}
    while pending:
        tensor, factor, offset = pending.pop()
        yield tensor, factor, offset
        for node in (graph.nodes[index] for index in graph.consumers.get(tensor, ())):
            scaled = _scale(graph, node, tensor, factor, offset)
            if scaled is not None and node.outputs[0] not in seen:
                seen.add(node.outputs[0])
                pending.append((node.outputs[0], *scaled))


def _scale(
    graph: Graph, node: Node, tensor: str, factor: Array, offset: Array
) -> tuple[Array, Array] | None:
    """Return factor and offset of the output of a node that reads a scaled copy, or None.
    The result is None if the output is something else."""
    if node.op in MOVES and node.inputs[:1] == (tensor,):
        return factor, offset
    if node.op not in ("Add", "Div", "Mul", "Sub") or len(node.inputs) != 2:
        return None
    is_left = node.inputs[0] == tensor
    weight = graph.constants.get(node.inputs[1 if is_left else 0])
    if weight is None or weight.values is None or np.prod(weight.shape) > _MOST:
        return None
    numbers = np.asarray(weight.values, np.float64).ravel()
    if 1 < numbers.size != factor.size > 1:
        return None
    with np.errstate(all="ignore"):
        if node.op == "Mul":
            return factor * numbers, offset * numbers
        if node.op == "Div":
            return (factor / numbers, offset / numbers) if is_left else None
        if node.op == "Sub" and not is_left:
            return -factor + 0 * numbers, numbers - offset
        return factor + 0 * numbers, offset + (-numbers if node.op == "Sub" else numbers)
