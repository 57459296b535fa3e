"""Shapes of tensors."""

from __future__ import annotations

from math import prod
from typing import Any

from polygraphy.domain.tensors import shapes
from polygraphy.domain.tensors.shapes import Shape, is_shape_dynamic, volume

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
    """Return an array in another shape that holds as many elements; the array as it is where there
    is none. One dimension of the shape may be dynamic.
    """
    known = [dim for dim in shape if not shapes.is_dynamic_dim(dim)]
    sizes: list[Any] = [-1 if shapes.is_dynamic_dim(dim) else dim for dim in shape]
    size = prod(arr.shape)
    count = prod(known)  # type: ignore[arg-type]
    if len(shape) - len(known) > 1 or shapes.fits(arr.shape, shape):
        return arr
    if len(known) == len(shape):
        return arr.reshape(sizes) if count == size else arr
    return arr.reshape(sizes) if count and size % count == 0 else arr
