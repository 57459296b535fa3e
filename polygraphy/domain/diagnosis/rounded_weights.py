"""Rounding in weights of two models, which were folded in different orders."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.model.graph import Node
from polygraphy.domain.model.part_layouts import layout_of_runs
from polygraphy.domain.model.parts import CHANNELS
from polygraphy.domain.tensors.precision import epsilon_of, is_float

_DIGITS, _HALF_DIGITS = 16, 2
"""Epsilons by which folded weights may differ: the rounding limit of one operator. In half
precision, weights are folded in float32 and rounded once, or folded from a few rounded numbers."""
_SMALLEST_HALF = 2.0**-14
"""The smallest normal number of float16."""


def differ_by_rounding(first: Any, second: Any, readers: Iterable[tuple[Node, int]]) -> bool:
    """Return whether two weights differ only in the last digits, as if folded in a different
    order.

    Args:
        first: the elements of a weight.
        second: those of its counterpart, to whose size the difference is relative.
        readers: the nodes that read the weight, and as which operand. Where they compute parts of
            different magnitude, such as boxes and scores, each part of the weight has its own size.
    """
    if not is_float(first) or not is_float(second) or first.shape != second.shape:
        return False
    epsilon = max(epsilon_of(first.dtype), epsilon_of(second.dtype))
    own_array, reference_array = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if not np.isfinite(reference_array).all():
        return False
    types = {first.dtype.name, second.dtype.name}
    digits = _HALF_DIGITS if types & {*HALF} else _DIGITS
    difference, elements = np.abs(own_array - reference_array), np.abs(reference_array)
    # Converters replace or drop numbers that float16 cannot hold, mostly in small parts.
    least = _SMALLEST_HALF if "float16" in types else 0.0
    axes = {_channel_axis(*reader) for reader in readers} - {None}
    parts = [_sizes(reference_array, axis) + least / (digits * epsilon) for axis in axes]
    limits = [elements + size for size in (_sizes(reference_array, None), *parts)]
    return all(bool(np.all(difference <= digits * epsilon * limit)) for limit in limits)


def _channel_axis(node: Node, position: int) -> int | None:
    """Return the axis of a weight that has a slice for each channel of the output; None for other
    operands."""
    if position != 1 or node.op not in CHANNELS:
        return None
    return 0 if node.op == "Gemm" and node.attribute("transB", 0) else CHANNELS[node.op][0]


def _sizes(array: Any, axis: int | None) -> Any:
    """Return the RMS of a weight; if the first channels are of a different magnitude than the next
    ones, the RMS of each group of channels, in an array that can be multiplied with the weight."""
    squares = np.square(array)
    if axis is None or array.ndim < 2 or not array.size:
        return np.sqrt(np.mean(squares))
    others = tuple(at for at in range(array.ndim) if at != axis % array.ndim)
    channels = np.mean(squares, axis=others)
    layout = layout_of_runs("", np.sqrt(channels), axis)
    lengths = [] if layout is None else [int(length or 0) for length in layout.shape or ()]
    starts = np.cumsum([0, *lengths[:-1]]) if lengths else np.array([0])
    counts = lengths or [len(channels)]
    groups = np.repeat(np.sqrt(np.add.reduceat(channels, starts) / counts), counts)
    return np.expand_dims(groups, others)
