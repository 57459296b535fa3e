"""2:4 structured sparsity: of every four consecutive weights that are summed, two are zero.

Tensor cores skip the zeros, so it matters along the axis over which a product sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.model.graph import Graph, Node, Weight
from polygraphy.domain.tensors.aliases import Array

GROUP = 4
_MOST_NONZERO = 2
_FLOATING = frozenset({"float32", "float16", "bfloat16"})
_BLOCK = 1 << 18
"""Elements that are processed at a time, so that they fit into a cache."""
_NARROW = np.uint16(0x7FFF)
"""All bits of a 16-bit floating-point number but the sign: none is set in a zero."""


@frozen
class PrunableWeight:
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
    """The sparsity of one weight: how many of its `groups` of four are dense."""

    name: str
    axis: int
    groups: int
    dense: int

    @property
    def is_sparse(self) -> bool:
        """Return whether every group has at least two zeros."""
        return self.dense == 0


def dense_groups(array: np.ndarray[Any, Any], axis: int) -> int:
    """Return the number of groups of four along `axis` with more than two nonzero elements;
    the elements of a group are consecutive.

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
    dense = 0
    for start in range(0, rows, step):
        for first in range(0, inner, columns):
            dense += _count_dense_groups(groups[start : start + step, :, first : first + columns])
    return dense


def _count_dense_groups(block: np.ndarray[Any, Any]) -> int:
    """Return the number of groups with more nonzero elements than 2:4 sparsity allows."""
    # NumPy compares float16 elements one at a time, so compare their bits.
    is_narrow = block.dtype.itemsize == 2
    nonzero = (block.view(np.uint16) & _NARROW) != 0 if is_narrow else block != 0
    if nonzero.shape[2] == 1:
        # View four flags as a 32-bit number, and add up its bytes with two shifts.
        packed = nonzero.reshape(-1).view(np.uint32)
        packed = packed + (packed >> np.uint32(16))
        counts = (packed + (packed >> np.uint32(8))) & np.uint32(0x7)
        return int(np.count_nonzero(counts > _MOST_NONZERO))
    flags = nonzero.view(np.uint8)
    counts = flags[:, 0] + flags[:, 1]
    counts += flags[:, 2]
    counts += flags[:, 3]
    return int(np.count_nonzero(counts > _MOST_NONZERO))


def prunable_weights(graph: Graph) -> list[PrunableWeight]:
    """Return the weights, including those in subgraphs, that products sum over in groups of four.

    Args:
        graph: a graph that was read with its layers and attributes.
    """
    prunables: dict[tuple[str, int], PrunableWeight] = {}
    for level in graph.walk():
        weights = {weight.name: weight for weight in level.all_weights}
        producers = {name: node for node in level.nodes for name in node.outputs if name}
        for node in level.nodes:
            for name, axis in _operands_with_sum_axis(node):
                weight, original_axis = _trace_weight(name, axis, weights, producers)
                if weight is not None and _is_prunable(weight, original_axis):
                    position = original_axis % len(weight.shape)
                    prunables.setdefault(
                        (weight.name, position),
                        PrunableWeight(weight, position, node.name or node.op),
                    )
    return list(prunables.values())


def _is_prunable(weight: Weight, axis: int) -> bool:
    """Return whether a weight can be pruned along an axis."""
    rank = len(weight.shape)
    if weight.dtype not in _FLOATING or not -rank <= axis < rank:
        return False
    return weight.shape[axis] % GROUP == 0 and weight.shape[axis] > 0


def _operands_with_sum_axis(node: Node) -> Iterator[tuple[str, int]]:
    """Yield each input of a product with the axis it sums over."""
    if node.op == "Conv" and len(node.inputs) > 1:
        yield node.inputs[1], 1
    elif node.op == "MatMul" and len(node.inputs) == 2:
        yield node.inputs[0], -1
        yield node.inputs[1], -2
    elif node.op == "Gemm" and len(node.inputs) > 1:
        yield node.inputs[0], 0 if node.attribute("transA", 0) else 1
        yield node.inputs[1], 1 if node.attribute("transB", 0) else 0


_PASSED_THROUGH = frozenset({"Cast", "DequantizeLinear", "Identity", "QuantizeLinear", "Transpose"})


def _trace_weight(
    name: str, axis: int, weights: dict[str, Weight], producers: dict[str, Node]
) -> tuple[Weight | None, int]:
    """Return the weight that an input comes from, if any, and the matching axis of that weight."""
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


_PARALLEL = 1 << 20
"""An array of fewer elements is done before a second thread would have started."""
_BITS = {2: np.int16, 4: np.int32, 8: np.int64}


def prune_array(array: Array, axis: int, *, threads: int = 1) -> Array:
    """Return an array with the two smallest of every four elements along an axis set to zero;
    the earlier one on ties.

    Args:
        array: floating-point numbers of any shape; NaN counts as the largest.
        axis: the axis; its length is a multiple of four.
        threads: the largest number of threads; the result does not depend on it.

    Returns:
        Another array of the same shape and type; what is not set to zero has the same bits.
    """
    axis %= array.ndim
    rows, inner = prod(array.shape[: axis + 1]) // GROUP, prod(array.shape[axis + 1 :])
    pruned = np.empty(array.shape, array.dtype)
    if not array.size:
        return pruned
    bits = _BITS[array.dtype.itemsize]
    given_bits, result = (
        np.ascontiguousarray(array).view(bits).reshape(rows, GROUP, inner)
        for array in (array, pruned)
    )
    columns = min(inner, _BLOCK // GROUP)
    step = max(1, _BLOCK // (GROUP * columns))

    def prune_rows(starts: range) -> None:
        """Prune some rows of the array."""
        for start in starts:
            for first in range(0, inner, columns):
                part = np.s_[start : start + step, :, first : first + columns]
                _prune(given_bits[part], result[part])

    if threads < 2 or array.size < _PARALLEL or rows <= step:
        prune_rows(range(0, rows, step))
        return pruned
    # Each thread gets neighboring rows, so that it reads memory sequentially.
    share = -(-rows // (step * threads)) * step
    from concurrent.futures import ThreadPoolExecutor  # Few commands start threads.

    with ThreadPoolExecutor(threads) as pool:
        runs = [range(begin, min(begin + share, rows), step) for begin in range(0, rows, share)]
        for _ in pool.map(prune_rows, runs):  # Raises the error of a thread.
            pass
    return pruned


def _prune(array: Array, result: Array) -> None:
    """Prune groups of shape (rows, four, columns). Values are the bits as signed integers:
    magnitudes sort like bits without the sign.
    """
    size = np.empty((GROUP, array.shape[0], array.shape[2]), array.dtype)
    magnitude = np.array(np.iinfo(array.dtype).max, array.dtype)
    for index in range(GROUP):
        # One operation per position in the group takes a third of the time of one per group.
        np.bitwise_and(array[:, index], magnitude, out=size[index])
    # The two middle magnitudes of each group. Split it into two pairs: the larger of both minima
    # and the smaller of both maxima are the middle ones.
    low = np.maximum(np.minimum(size[0], size[1]), np.minimum(size[2], size[3]))
    high = np.minimum(np.maximum(size[0], size[1]), np.maximum(size[2], size[3]))
    # A tie of zeros does not matter: keeping a zero has no effect.
    is_tie = (low == high) & (low != 0)
    tied = size[:, is_tie] if is_tie.any() else None
    # Mask of the elements to keep, with all bits set: those not smaller than the larger middle one.
    keep_mask = np.subtract(np.maximum(low, high, out=low) - 1, size, out=size)
    keep_mask >>= np.iinfo(array.dtype).bits - 1
    if tied is not None:
        keep_mask[:, is_tie] = -_larger_half(tied).astype(array.dtype)
    for index in range(GROUP):
        np.bitwise_and(array[:, index], keep_mask[index], out=result[:, index])


def _larger_half(size: Array) -> Array:
    """Return a mask of the two larger elements in each column of four; the later one on ties."""
    ranks = np.zeros(size.shape, np.int8)
    for low in range(GROUP):
        for high in range(low + 1, GROUP):
            is_larger = size[low] > size[high]
            ranks[low] += is_larger
            ranks[high] += ~is_larger
    return ranks >= GROUP // 2
