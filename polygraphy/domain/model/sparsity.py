"""2:4 structured sparsity: of every four consecutive weights that are summed, two are zero.

Tensor cores skip the zeros, so it matters along the axis over which a product sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.model.description import Graph, Node, Weight

GROUP = 4
_MOST_NONZERO = 2
_FLOATING = frozenset({"float32", "float16", "bfloat16"})
_BLOCK = 1 << 18
"""How many elements are looked at together: as many as fit a cache."""
_NARROW = np.uint16(0x7FFF)
"""All bits of a 16-bit floating-point number but the sign: none is set in a zero."""


@frozen
class Prunable:
    """A weight that may be sparse.

    Attributes:
        weight: the weight.
        axis: the axis over which products sum.
        node: the node that reads it.
    """

    weight: Weight
    axis: int
    node: str


@frozen
class WeightSparsity:
    """What was found out about one weight: how many of its `groups` of four are dense."""

    name: str
    axis: int
    groups: int
    dense: int

    @property
    def is_sparse(self) -> bool:
        """Whether every group has at least two zeros."""
        return self.dense == 0


def dense_groups(array: np.ndarray[Any, Any], axis: int) -> int:
    """Return how many groups of four consecutive elements along `axis` hold more than two that are
    not zero.

    Args:
        array: floating-point numbers; the length of `axis` is a multiple of four.
        axis: the axis, from the front.
    """
    rows, inner = prod(array.shape[: axis + 1]) // GROUP, prod(array.shape[axis + 1 :])
    if not array.size:
        return 0
    groups = array.reshape(rows, GROUP, inner)
    step = max(1, _BLOCK // (GROUP * inner))
    columns = min(inner, _BLOCK // GROUP)
    found = 0
    for start in range(0, rows, step):
        for first in range(0, inner, columns):
            found += _dense(groups[start : start + step, :, first : first + columns])
    return found


def _dense(block: np.ndarray[Any, Any]) -> int:
    is_narrow = block.dtype.itemsize == 2  # Comparing such numbers is done one by one.
    nonzero = (block.view(np.uint16) & _NARROW) != 0 if is_narrow else block != 0
    if nonzero.shape[2] == 1:
        # Four flags in a row are one 32-bit number; its bits are counted by two shifts.
        packed = nonzero.reshape(-1).view(np.uint32)
        packed = packed + (packed >> np.uint32(16))
        counts = (packed + (packed >> np.uint32(8))) & np.uint32(0x7)
        return int(np.count_nonzero(counts > _MOST_NONZERO))
    flags = nonzero.view(np.uint8)
    counts = flags[:, 0] + flags[:, 1]
    counts += flags[:, 2]
    counts += flags[:, 3]
    return int(np.count_nonzero(counts > _MOST_NONZERO))


def prunable_weights(graph: Graph) -> list[Prunable]:
    """Return the weights that products sum over in groups of four, in all inner graphs, too.

    Args:
        graph: a graph that was read with its layers and attributes.
    """
    found: dict[tuple[str, int], Prunable] = {}
    for level in graph.walk():
        weights = {weight.name: weight for weight in level.all_weights}
        producers = {name: node for node in level.nodes for name in node.outputs if name}
        for node in level.nodes:
            for name, axis in _summed_operands(node):
                weight, original_axis = _traced(name, axis, weights, producers)
                if weight is not None and _is_prunable(weight, original_axis):
                    position = original_axis % len(weight.shape)
                    found.setdefault(
                        (weight.name, position), Prunable(weight, position, node.name or node.op)
                    )
    return list(found.values())


def _is_prunable(weight: Weight, axis: int) -> bool:
    rank = len(weight.shape)
    if weight.dtype not in _FLOATING or not -rank <= axis < rank:
        return False
    return weight.shape[axis] % GROUP == 0 and weight.shape[axis] > 0


def _summed_operands(node: Node) -> Iterator[tuple[str, int]]:
    """Yield the operands of a product, and over which axis of each it sums."""
    if node.op == "Conv" and len(node.inputs) > 1:
        yield node.inputs[1], 1
    elif node.op == "MatMul" and len(node.inputs) == 2:
        yield node.inputs[0], -1
        yield node.inputs[1], -2
    elif node.op == "Gemm" and len(node.inputs) > 1:
        yield node.inputs[0], 0 if node.attribute("transA", 0) else 1
        yield node.inputs[1], 1 if node.attribute("transB", 0) else 0


_PASSED_THROUGH = frozenset({"Cast", "DequantizeLinear", "Identity", "QuantizeLinear", "Transpose"})


def _traced(
    name: str, axis: int, weights: dict[str, Weight], producers: dict[str, Node]
) -> tuple[Weight | None, int]:
    """Follow an operand back to a weight, and its axis to that of the weight."""
    for _ in range(len(producers) + 1):
        if name in weights:
            return weights[name], axis
        node = producers.get(name)
        if node is None or node.op not in _PASSED_THROUGH or not node.inputs:
            break
        if node.op == "Transpose":
            order = node.attribute("perm")
            if order is None:
                axis = -1 - axis
            elif -len(order) <= axis < len(order):
                axis = order[axis]
        name = node.inputs[0]
    return None, axis
