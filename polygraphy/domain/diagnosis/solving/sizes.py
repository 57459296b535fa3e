"""Sizes, bounds and steps with which a node computes a tensor of the expected shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product

import numpy as np

from polygraphy.domain.diagnosis.solving.integers import difference_of_integers
from polygraphy.domain.diagnosis.variants import LARGEST_RANK, Variant, with_attribute
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.tensors.precision import is_float

_BOUNDS = 256
"""The longest axis of which all starts and ends are tried."""


def _split_sizes(
    node: Node,
    total: int,
    axis: int,
    expected: Sequence[int],
    outputs: Mapping[str, Sequence[int]],
) -> Iterator[list[int]]:
    """Yield possible sizes of the outputs of a Split for the expected shapes.
    A single unknown size follows from the others."""
    places = [[outputs[name][axis] if name in outputs else None for name in node.outputs]]
    if not any(places[0]):
        count = len(node.outputs)
        places = [
            [expected[axis] if at == i else None for i in range(count)] for at in range(count)
        ]
    for sizes in places:
        remainder = total - sum(size for size in sizes if size is not None)
        if sizes.count(None) <= 1 and remainder >= 0:
            yield [remainder if size is None else size for size in sizes]


def resize_variants(
    side: Graph,
    index: int,
    read: Sequence[int],
    lengths: Sequence[int],
    expected: Sequence[int],
    outputs: Mapping[str, Sequence[int]] | None = None,
) -> Iterator[Variant]:
    """Yield variants of a node with another size, bound or step, whose output has the expected
    shape.

    Args:
        side: the model.
        index: the position of the node.
        read: the shape of its first input.
        lengths: the shape of its output.
        expected: the expected shape.
        outputs: the expected shapes of its outputs, as far as they are known.
    """
    node = side.nodes[index]
    if len(lengths) == len(expected) and tuple(lengths) == tuple(expected):
        return

    def weight_variants(position: int, value: Sequence[float]) -> Iterator[Variant]:
        """Yield the variant of a node with another value of a weight."""
        name = node.inputs[position] if position < len(node.inputs) else ""
        values = side.constants[name].values if name in side.constants else None
        if values is None:
            return
        array, other_array = np.asarray(values), np.asarray(value)
        if (is_float(array) or array.dtype.kind in "iu") and array.tolist() != other_array.tolist():
            change = changes.other_weight(
                "weight", name, difference_of_integers(array, other_array), node.op
            )
            yield Variant("weight", change, node, {name: other_array.astype(array.dtype)})

    if node.op in ("Reshape", "Expand"):
        yield from weight_variants(1, expected)
    elif node.op == "Tile" and len(read) == len(expected):
        yield from weight_variants(
            1, [size // max(own_index, 1) for own_index, size in zip(read, expected)]
        )
    elif node.op == "Resize" and len(read) == len(expected):
        yield from weight_variants(3, expected)
        yield from weight_variants(
            2, [size / max(own_index, 1) for own_index, size in zip(read, expected)]
        )
    elif node.op == "Slice" and len(read) == len(expected) and len(node.inputs) > 2:
        yield from _bound_variants(side, node, read, expected, weight_variants)
    elif node.op == "Split" and len(read) == len(expected):
        axis = int(node.attribute("axis") or 0)
        for parts in _split_sizes(node, read[axis], axis, expected, outputs or {}):
            yield from weight_variants(1, parts)
    elif node.op in ("Squeeze", "Unsqueeze"):
        count = abs(len(expected) - len(read))
        for axes in combinations(
            range(min(max(len(expected), len(read)), LARGEST_RANK + 1)), count
        ):
            yield from weight_variants(1, axes)
    rank = len(read) - 2
    sized = node.attribute("kernel_shape")
    if sized and len(read) == len(expected):
        usual = {
            "strides": (2, 1, 3, 4),
            "dilations": (2, 1, 3),
            "kernel_shape": (2, 1, 3, 4, 5, 7),
        }
        for name, sizes in usual.items():
            attribute = tuple(node.attribute(name) or (1,) * rank)
            if name == "kernel_shape" and len(node.inputs) > 1:
                continue
            for size in sizes:
                if attribute != (size,) * rank:
                    change = changes.other_attribute(node.op, name, attribute, (size,) * rank)
                    other_node = with_attribute(node, name, "ints", (size,) * rank)
                    yield Variant("attribute", change, other_node)
        yield from _pads_for_size(node, read[2:], expected[2:])


def _pads_for_size(node: Node, read: Sequence[int], expected: Sequence[int]) -> Iterator[Variant]:
    """Yield variants of a node with pads that give the expected size: on both sides, or on one."""
    rank, kernel = len(read), node.attribute("kernel_shape")
    attribute = tuple(node.attribute("pads") or (0,) * 2 * rank)
    if node.op == "ConvTranspose" or len(kernel) != rank:
        return
    steps, spread = (
        tuple(node.attribute(name) or (1,) * rank) for name in ("strides", "dilations")
    )
    least = [
        (expected[i] - 1) * steps[i] + (kernel[i] - 1) * spread[i] + 1 - read[i]
        for i in range(rank)
    ]
    for extra_step in range(max(steps)):  # No window reaches these elements.
        sums = [
            max(value, 0) + (extra_step if step > extra_step else 0)
            for value, step in zip(least, steps)
        ]
        for begin in product(*({s // 2: 0, s - s // 2: 0, 0: 0, s: 0} for s in sums)):
            value = (*begin, *(value - first for value, first in zip(sums, begin)))
            if value != attribute:
                change = changes.other_attribute(node.op, "pads", attribute, value)
                yield Variant("attribute", change, with_attribute(node, "pads", "ints", value))


def _bound_variants(
    side: Graph,
    node: Node,
    read: Sequence[int],
    expected: Sequence[int],
    weight: Callable[[int, Sequence[float]], Iterator[Variant]],
) -> Iterator[Variant]:
    """Yield variants of a Slice with other starts, ends or axes."""
    values = [
        side.constants[name].values if name in side.constants else None for name in node.inputs
    ]
    starts, ends = values[1], values[2]
    if starts is None or ends is None:
        return
    count = np.size(starts)
    axes = values[3] if len(values) > 3 and values[3] is not None else np.arange(count)
    steps = values[4] if len(values) > 4 and values[4] is not None else np.ones(count, np.int64)
    for at, (axis, step) in enumerate(zip(np.reshape(axes, -1), np.reshape(steps, -1))):
        size, wanted = read[int(axis)], expected[int(axis)]
        bounds = [np.reshape(value, -1).tolist() for value in (starts, ends)]
        for position in (1, 2):
            for value in range(size + 1) if size <= _BOUNDS else ():
                other_bounds = [*bounds[position - 1]]
                other_bounds[at] = value
                pair = [other_bounds if position == end else bounds[end - 1] for end in (1, 2)]
                used_positions = range(size)[pair[0][at] : pair[1][at] : int(step)]
                if len(used_positions) == wanted:
                    yield from weight(position, other_bounds)
