"""Post-processing of outputs before they are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Union

import numpy as np
import numpy.typing as npt

from polygraphy.domain.arithmetic.passes.blocks import Kind, kind_of
from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.domain.results.results import IterationResult
from polygraphy.domain.tensors.naming import PerOutput, copy_setting, value_for

TopK = Union[int, tuple[int, int]]
"""Number of elements, and the axis (default: the last one)."""


class BasePostprocessFunc(Protocol):
    """Changes the outputs of one iteration. Any callable with this signature can be used."""

    def __call__(self, iter_result: IterationResult) -> IterationResult:
        """Return the outputs that replace the given ones."""


class TopKPostprocessFunc:
    """Replaces outputs with the indices of their largest elements."""

    def __init__(self, k: PerOutput[TopK] | None = None) -> None:
        """Set the number of elements to keep, as one value or one per output.

        Args:
            k: a number; or ``(number, axis)``; or a dictionary of these by output, with ``""`` for
                all other outputs. Outputs without an entry are unchanged (default: 10).

        Raises:
            UsageError: a number is not positive, or an axis is not a whole number.
        """
        self.k: PerOutput[TopK] = 10 if k is None else copy_setting(k)
        choices = self.k.values() if isinstance(self.k, Mapping) else [self.k]
        for choice in choices:
            _unpack_choice(choice)

    def __call__(self, iter_result: IterationResult) -> IterationResult:
        """Return the outputs; those with a setting are replaced with indices.

        Raises:
            UnknownNameError: the settings name an output that does not exist.
            UsageError: an output does not have the axis, or its elements have no order.
        """
        for name in self.k if isinstance(self.k, Mapping) else ():
            if name and name not in iter_result.known_names():
                raise UnknownNameError("Output", name, iter_result.known_names())
        outputs = {}
        for name, array in iter_result.items():
            choice: TopK | None = value_for(self.k, name, None)
            outputs[name] = array if choice is None else _indices(name, array, choice)
        iteration_result = IterationResult(outputs, iter_result.runtime, iter_result.runner_name)
        iteration_result.origin = iter_result.origin
        return iteration_result

    def __repr__(self) -> str:
        """Return the expression that creates the function."""
        return f"TopKPostprocessFunc({self.k!r})"


def top_k(array: npt.NDArray[Any], k: int, axis: int = -1) -> npt.NDArray[np.intp]:
    """Return the indices of the `k` largest elements along an axis, the largest first.

    Of equal elements, the first comes first; NaN comes last. If there are fewer than `k`, all are
    returned.

    Raises:
        TypeError: the elements have no order, or there is only one, without an axis.
        numpy.exceptions.AxisError: there is no such axis.
    """
    if not array.ndim:
        raise TypeError("a single number has no axis")
    order = np.argsort(_descending_keys(array), axis=axis, kind="stable")
    return order.take(np.arange(min(k, array.shape[axis])), axis=axis)


def _descending_keys(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return sort keys that decrease as elements increase; NaN stays NaN, which is sorted last."""
    kind = kind_of(array.dtype)
    if kind in (Kind.OTHER, Kind.COMPLEX):
        raise TypeError(f"elements of type {array.dtype} have no order")
    if not kind.integral:
        floats: npt.NDArray[Any] = array if array.dtype.kind == "f" else array.astype(np.float64)
        return -floats
    integers: npt.NDArray[Any] = array if array.dtype.kind in "biu" else array.astype(np.int8)
    # The complement reverses the order of signed and unsigned integers, and never overflows.
    return ~integers


def _unpack_choice(choice: TopK) -> tuple[int, int]:
    """Return number and axis; UsageError if they are not integers, or the number is below 1."""
    k, axis = choice if isinstance(choice, (tuple, list)) else (choice, -1)
    for number in (k, axis):
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise UsageError(f"Top-k requires whole numbers, not {number!r}.")
    if k < 1:
        raise UsageError(f"Top-k must keep at least one element, not {k}.")
    return int(k), int(axis)


def _indices(name: str, value: Any, choice: TopK) -> npt.NDArray[np.intp]:
    """Return the indices of the largest elements of an output.
    Raise UsageError if they cannot be selected.
    """
    k, axis = _unpack_choice(choice)
    array = np.asarray(value)
    try:
        return top_k(array, k, axis)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"The largest elements of output {name!r} cannot be selected: {error}."
        ) from error
