"""What rounding explains of the difference between two outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy.domain.arithmetic.magnitude import root_mean_square
from polygraphy.domain.tensors.precision import Precision, Rounding, coarsest, is_exact

Array = np.ndarray[Any, Any]
ComputedIn = tuple["str | None", "str | None"]


def coarsest_between(arrays: tuple[Array, Array], computed_in: ComputedIn) -> Precision | None:
    """Return the coarsest data type that two outputs went through: those in which they were
    computed, where that is known, and their own. None where it is of no known precision.
    """
    own = (array.dtype.name for array in arrays)
    return coarsest([*(name for name in computed_in if name), *own])


def rounding_between(
    arrays: tuple[Array, Array], computed_in: ComputedIn, *, threads: int = 1
) -> Rounding | None:
    """Return how far rounding alone may take two outputs apart; None where there is no telling.

    Args:
        arrays: an output and its reference, of one shape.
        computed_in: the data types in which they were computed; None where not known.
        threads: most threads to use.
    """
    value, reference = arrays
    if is_exact(value.dtype.name) and is_exact(reference.dtype.name):
        return Rounding.none(reference.dtype.name)
    precision = coarsest_between(arrays, computed_in)
    if precision is None:
        return None
    magnitude = root_mean_square(reference, threads=threads)
    return Rounding.of(precision, magnitude, _origin(precision, arrays, computed_in))


def _origin(precision: Precision, arrays: tuple[Array, Array], computed_in: ComputedIn) -> str:
    """Describe how the data type is known."""
    reported = coarsest(name for name in computed_in if name)
    own = coarsest(array.dtype.name for array in arrays)
    is_own = own is not None and own.epsilon >= precision.epsilon
    if is_own and None in computed_in:
        return "its own data type, because it is not known in which one it was computed"
    if reported is not None and reported.epsilon >= precision.epsilon:
        return "in which it was computed"
    return "its own data type"
