"""Shapes of tensors."""

from __future__ import annotations

from typing import Any

from polygraphy.domain.tensors import shapes
from polygraphy.domain.tensors.shapes import Shape, is_shape_dynamic, volume
from polygraphy.logger import G_LOGGER

__all__ = [
    "is_empty_shape",
    "is_shape_dynamic",
    "is_valid_shape_override",
    "override_dynamic_shape",
    "try_match_shape",
    "volume",
]


def override_dynamic_shape(shape: Shape, default_shape_value: int | None = None) -> list[int]:
    """Return a shape with a number (default: 1) in place of every dynamic dimension."""
    number = 1 if default_shape_value is None else default_shape_value
    return list(shapes.override_dynamic_shape(shape, number))


def is_valid_shape_override(new_shape: Shape, original_shape: Shape | None) -> bool:
    """Return whether one shape may stand for another: of the same rank, and equal but for
    dimensions that are dynamic in the other.
    """
    return shapes.fits(new_shape, original_shape)  # type: ignore[arg-type]


def is_empty_shape(shape: Shape) -> bool:
    """Return whether arrays of a shape have no elements, whatever its dynamic dimensions are."""
    return any(dim == 0 for dim in shape)


def try_match_shape(arr: Any, shape: Shape) -> Any:
    """Return an array in another shape: with its dimensions in another order where that makes it,
    else reshaped; the array as it is where it does not hold as many elements. To be reshaped, at
    most one dimension of the shape may be dynamic.
    """
    from polygraphy.domain.data.feed import in_shape  # NumPy is not needed for the others.

    fitted = in_shape(arr, shape)
    if fitted is None or fitted is arr:
        return arr
    G_LOGGER.info(f"Brought an array of shape {tuple(arr.shape)} to {tuple(fitted.shape)}.")
    return fitted
