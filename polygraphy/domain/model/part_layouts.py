"""Layouts of slices with different magnitudes, and comparison of the layouts of branches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import evolve

from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.parts import Layout

_FAR_ABOVE = 16.0
"""Slices that are multiplied by a number this factor larger are another part. Chosen, not
measured."""

_FEWEST = 2
"""A single channel of a different magnitude is one that the network does not use."""


def layout_by_size(
    tensor: str, sizes: Array, axis: int, *, is_bounded: bool = False
) -> Layout | None:
    """Return the layout of a tensor whose slices have different magnitudes; None if they have not.

    Args:
        tensor: its name.
        sizes: the magnitude of each slice.
        axis: the axis of the slices.
        is_bounded: whether its elements, divided by the magnitudes, lie between -1 and 1.
    """
    levels = _levels(sizes)
    if not levels.any():
        return None
    starts = [0, *(at for at in range(1, len(levels)) if levels[at] != levels[at - 1])]
    lengths = np.diff([*starts, len(levels)])
    leaves = [
        Layout(
            origin=f"{tensor}//{levels[start]}",
            is_pure=True,
            is_bounded=is_bounded and max(sizes[levels == levels[start]]) <= 1,
        )
        for start in starts
    ]
    return Layout("join", "", "", tuple(leaves), (axis,), tuple(int(length) for length in lengths))


def layout_of_runs(tensor: str, sizes: Array, axis: int) -> Layout | None:
    """Return the layout of a tensor whose first channels are of a different magnitude than the
    next ones; None if they are not, or if channels of a magnitude are not next to each other.
    A network has channels that it does not use, which are much smaller than their neighbors.

    Args:
        tensor: its name.
        sizes: the magnitude of each channel.
        axis: the axis of the channels.
    """
    if len(sizes) < 2 or not np.isfinite(sizes).all():
        return None
    new_layout = layout_by_size(tensor, sizes, axis)
    if new_layout is None or len({leaf.origin for leaf in new_layout.operands}) < len(
        new_layout.operands
    ):
        return None
    lengths = [length for length in new_layout.shape or () if isinstance(length, int)]
    return new_layout if min(lengths) >= _FEWEST else None


def without_names(layout: Layout) -> Layout:
    """Return a layout whose parts have numbers instead of names."""
    numbers: dict[str, str] = {}

    def change_leaf(leaf: Layout) -> Layout:
        """Return a part with its number."""
        number = numbers.setdefault(leaf.origin or leaf.name, f"//{len(numbers)}")
        return evolve(leaf, name="", origin=number)

    def change(part: Layout) -> Layout:
        """Return a layout without the names of its operands."""
        return evolve(part, name="", operands=tuple(map(change, part.operands)))

    return change(layout.with_leaves(change_leaf)) if layout.kind != "leaf" else change_leaf(layout)


def are_same_tensors(layouts: Sequence[Layout]) -> bool:
    """Return whether layouts have the same tensors as parts, or tensors of their own branches."""
    origins = [[leaf.origin or leaf.name for leaf in layout.leaves()] for layout in layouts]
    shared = set(origins[0]).intersection(*origins[1:])
    return not shared or all(each == origins[0] for each in origins)


def _levels(sizes: Array) -> Array:
    """Return the level number of each size; each level is far above the previous one."""
    levels = np.zeros(len(sizes), int)
    first, level = 0.0, -1
    for at in np.argsort(sizes, kind="stable"):
        if level < 0 or sizes[at] > _FAR_ABOVE * first:
            first, level = sizes[at], level + 1
        levels[at] = level
    return levels
