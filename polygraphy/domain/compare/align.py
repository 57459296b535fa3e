"""Brings two outputs to one shape, where that is wanted and can be meant."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def aligned(value: Array, reference: Array, *, check_shapes: bool) -> tuple[Array, Array] | None:
    """Return both arrays in the shape of `value`; None when their shapes differ and must not, or
    cannot be reconciled.

    The same dimensions in another order mean a transposed array, of which the first fitting order
    is taken; another arrangement of the same number of elements means a reshaped one.
    """
    if value.shape == reference.shape:
        return value, reference
    if check_shapes or value.size != reference.size:
        return None
    if sorted(value.shape) == sorted(reference.shape):
        axes: list[int] = []
        for dim in value.shape:
            axes.append(
                next(a for a, d in enumerate(reference.shape) if d == dim and a not in axes)
            )
        return value, reference.transpose(axes)
    return value, reference.reshape(value.shape)
