"""Brings the rows of an output into the order of the reference where rounding can have exchanged
them: those of nearly equal scores, as NonMaxSuppression and TopK sort them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.precision import is_float

FLIPS = 0.01
"""Share of integers, such as classes or steps, that may change if a coarse type decides between
nearly equal numbers. Chosen, not measured."""
_MOST_ROWS = 4096
"""With more rows, no order is searched."""
_SWAPPED = 2
"""Rows that may swap places in any type: two with nearly equal scores."""


class RowLimits(Protocol):
    """The limits of rounding that decide which rows can be exchanged.

    Attributes:
        atol: absolute limit of the output.
        rtol: relative limit of the output.
        flip_share: the share of integers that may change.
        labels: the number of the part of each element; None if the output has no parts.
    """

    @property
    def atol(self) -> float:
        """Return the absolute limit."""

    @property
    def rtol(self) -> float:
        """Return the relative limit."""

    @property
    def flip_share(self) -> float:
        """Return the share."""

    @property
    def labels(self) -> Array | None:
        """Return the numbers of the parts."""


def order_like_reference(value: Array, reference: Array, rounding: RowLimits) -> Array:
    """Return an output with its rows, or the elements of each row, in the order of the reference,
    if rounding can have exchanged them."""
    if value.shape != reference.shape or not np.issubdtype(value.dtype, np.number):
        return value
    array = value
    for rows in (2, 1):  # Order whole rows first (such as boxes), then elements (such as scores).
        if value.ndim < rows or not value.size:
            continue
        shape = (-1, value.shape[-rows], value.shape[-1] if rows == 2 else 1)
        groups, expected = array.reshape(shape), reference.reshape(shape)
        orders = [_order_of_rows(*pair, rounding) for pair in zip(groups, expected)]
        # Indices of equal numbers can be exchanged alike in all rows.
        is_number = is_float(reference) and _is_repeated(orders)
        if rows == 1 and (is_number or _are_parts(rounding, value)):
            continue
        array = np.stack([group[order] for group, order in zip(groups, orders)])
        array = array.reshape(value.shape)
    return array


def _are_parts(rounding: RowLimits, value: Array) -> bool:
    """Return whether the elements of a row are known to be of different parts,
    such as a box and its score."""
    labels = rounding.labels
    return labels is not None and labels.ndim == value.ndim and labels.shape[-1] > 1


def _is_repeated(orders: Sequence[Array]) -> bool:
    """Return whether most rows have their elements in the same other order,
    as two exchanged columns have: rounding exchanges elements in a few rows."""
    other_orders = Counter(tuple(order) for order in orders if (np.diff(order) < 0).any())
    most = max(other_orders.values(), default=0)
    return most > max(1, len(orders) // 2)


def _order_of_rows(rows: Array, expected_array: Array, rounding: RowLimits) -> Array:
    """Return the order of rows that makes them most similar to the expected ones."""
    order = np.arange(len(rows))
    if len(rows) > _MOST_ROWS:
        return order
    wide, array = rows.astype(np.float64), expected_array.astype(np.float64)
    sizes = np.abs(array).max(axis=1, initial=0)
    limit = np.maximum(rounding.atol, rounding.rtol * sizes) if is_float(expected_array) else 0.0
    apart = np.abs(wide - array).max(axis=1, initial=0)
    free = [int(at) for at in np.flatnonzero(~(apart <= limit))]
    if not rounding.flip_share and len(free) > max(_SWAPPED, FLIPS * len(rows)):
        return order
    for item in list(free):
        gaps = np.nan_to_num(np.abs(wide[free] - array[item]).max(axis=1, initial=0), nan=np.inf)
        order[item] = free.pop(int(np.argmin(gaps)))
    return order
