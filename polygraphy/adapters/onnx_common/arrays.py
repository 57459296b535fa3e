"""What implementations of operators have in common: how they widen and narrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
Results: TypeAlias = "tuple[Array, ...]"


def wide(x: Array) -> Array:
    """Return the elements as float64; integers are exact up to 2**53."""
    return np.asarray(x).astype(np.float64)


def narrowed(made: Array, like: Array) -> Array:
    """Return what was computed in the data type of an operand: rounded once."""
    return np.asarray(made).astype(like.dtype)


def positive(axis: int, rank: int) -> int:
    """Return an axis counted from the first.

    Raises:
        ValueError: there is no such axis.
    """
    axis = int(axis)
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for a tensor of rank {rank}")
    return axis % rank


def cut(rank: int, slices: dict[int, Any]) -> tuple[Any, ...]:
    """Return an index that takes part of some axes, and the others whole."""
    return tuple(slices.get(axis, slice(None)) for axis in range(rank))


def of_length(values: Sequence[int] | None, length: int, default: int) -> list[int]:
    """Return an attribute with one value per spatial axis."""
    return [int(value) for value in values] if values else [default] * length
