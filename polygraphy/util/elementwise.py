"""Arithmetic of arrays element by element, and arrays in other shapes.

What is computed is computed in NumPy; it comes out in the library of the first array. Of functions
of two arrays one may be a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.datatype import DataTypeEntry
from polygraphy.util.conversion import is_device_view, is_torch, like, to_numpy, to_torch

__all__ = [
    "abs",
    "argwhere",
    "dispatch",
    "divide",
    "greater",
    "histogram",
    "logical_and",
    "logical_not",
    "logical_xor",
    "multiply",
    "pad",
    "power",
    "ravel",
    "reshape",
    "resize_or_reallocate",
    "sqrt",
    "subtract",
    "topk",
    "transpose",
    "unravel_index",
    "view",
    "where",
]


def abs(obj: Any) -> Any:
    """Return the absolute value of each element."""
    return like(obj, np.abs(to_numpy(obj)))


def sqrt(obj: Any) -> Any:
    """Return the square root of each element; NaN of negative ones."""
    with np.errstate(invalid="ignore"):
        return like(obj, np.sqrt(to_numpy(obj)))


def power(obj: Any, exponent: float) -> Any:
    """Return each element to the power of `exponent`."""
    return like(obj, to_numpy(obj) ** exponent)


def logical_not(obj: Any) -> Any:
    """Return whether each element is zero."""
    return like(obj, np.logical_not(to_numpy(obj)))


def divide(lhs: Any, rhs: Any) -> Any:
    """Return the quotient of each two elements; infinite or NaN where the divisor is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return like(lhs, np.asarray(to_numpy(lhs) / to_numpy(rhs)))


def multiply(lhs: Any, rhs: Any) -> Any:
    """Return the product of each two elements."""
    return like(lhs, np.multiply(to_numpy(lhs), to_numpy(rhs)))


def subtract(lhs: Any, rhs: Any) -> Any:
    """Return the difference of each two elements."""
    return like(lhs, np.subtract(to_numpy(lhs), to_numpy(rhs)))


def greater(lhs: Any, rhs: Any) -> Any:
    """Return whether each element is greater than the one of the second array."""
    return like(lhs, np.greater(to_numpy(lhs), to_numpy(rhs)))


def logical_and(lhs: Any, rhs: Any) -> Any:
    """Return whether neither of each two elements is zero."""
    return like(lhs, np.logical_and(to_numpy(lhs), to_numpy(rhs)))


def logical_xor(lhs: Any, rhs: Any) -> Any:
    """Return whether exactly one of each two elements is zero."""
    return like(lhs, np.logical_xor(to_numpy(lhs), to_numpy(rhs)))


def where(cond: Any, lhs: Any, rhs: Any) -> Any:
    """Return the elements of `lhs` where `cond` is not zero, those of `rhs` elsewhere."""
    return like(cond, np.where(to_numpy(cond), to_numpy(lhs), to_numpy(rhs)))


def argwhere(obj: Any) -> Any:
    """Return the indices of the elements that are not zero, one a row."""
    return like(obj, np.argwhere(to_numpy(obj)))


def histogram(obj: Any, range: tuple[float, float] | None = None) -> tuple[Any, Any]:
    """Return how many elements are in each of ten bins of equal width, and the edges of these.

    Args:
        obj: the array.
        range: the outer edges (default: the smallest and the largest element).
    """
    counts, edges = np.histogram(to_numpy(obj), bins=10, range=range)
    return like(obj, counts), like(obj, edges)


def topk(obj: Any, k: int, axis: int) -> tuple[Any, Any]:
    """Return the `k` largest elements along a dimension, or all where it has fewer, the largest
    first; and where along it they are.
    """
    array = to_numpy(obj)
    places = np.flip(np.argsort(array, axis=axis, kind="stable"), axis=axis)
    places = np.take(places, np.arange(min(k, array.shape[axis])), axis=axis)
    return like(obj, np.take_along_axis(array, places, axis=axis)), like(obj, places)


def pad(obj: Any, pad_width: Sequence[tuple[int, int]]) -> Any:
    """Return an array with so many zeros before and behind each dimension."""
    return like(obj, np.pad(to_numpy(obj), pad_width))


def ravel(obj: Any) -> Any:
    """Return the elements in one dimension."""
    return reshape(obj, (-1,))


def reshape(obj: Any, shape: Sequence[int]) -> Any:
    """Return the elements in another shape."""
    return obj.reshape(tuple(shape)) if is_torch(obj) else to_numpy(obj).reshape(tuple(shape))


def transpose(obj: Any, axes: Sequence[int]) -> Any:
    """Return the array with its dimensions in another order."""
    return obj.permute(*axes) if is_torch(obj) else np.transpose(to_numpy(obj), axes)


def unravel_index(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the index of an element of an array of a shape, which is the `index`-th of all."""
    return tuple(int(each) for each in np.unravel_index(index, tuple(shape)))


def view(obj: Any, dtype: DataTypeEntry, shape: Sequence[int]) -> Any:
    """Return the same memory as an array of another data type and shape.

    Raises:
        UsageError: the elements do not lie one after another.
    """
    if is_torch(obj):
        if not obj.is_contiguous():
            raise UsageError("Only an array whose elements lie one after another has a view.")
        return obj.view(dtype.torch()).reshape(tuple(shape))
    if is_device_view(obj):
        from polygraphy.adapters.cuda.array import DeviceView

        return DeviceView(obj.ptr, shape, dtype, owner=obj)
    array = to_numpy(obj)
    if not array.flags.c_contiguous:
        raise UsageError("Only an array whose elements lie one after another has a view.")
    return array.reshape(-1).view(dtype.numpy()).reshape(tuple(shape))


def resize_or_reallocate(obj: Any, shape: Sequence[int]) -> Any:
    """Return an array of another shape: the same one if it can be resized, else a new one of the
    same data type, whose elements are not those of the first.
    """
    if is_torch(obj):
        return obj.resize_(tuple(shape))
    if hasattr(obj, "resize") and is_device_view(obj):
        obj.resize(tuple(shape))
        return obj
    try:
        obj.resize(tuple(shape), refcheck=False)
    except ValueError:  # It does not own its memory.
        return np.empty(tuple(shape), obj.dtype)
    return obj


def dispatch(num_arrays: int = 1) -> Callable[[Callable[[], Any]], Callable[..., Any]]:
    """Return a decorator for a function that returns what is to be called for each kind of array: a
    dictionary with some of the keys ``numpy``, ``torch``, ``device_view`` and ``number``.

    Args:
        num_arrays: how many arrays come first; they become what the first one is.

    Calling what is decorated raises a UsageError for a kind that the dictionary does not have.
    """

    def decorate(choices: Callable[[], Any]) -> Callable[..., Any]:
        @wraps(choices)
        def dispatched(*args: Any, **kwargs: Any) -> Any:
            known = choices()
            kind = _kind(args[0])
            if kind not in known:
                raise UsageError(
                    f"{choices.__name__} does not take a {type(args[0]).__name__}.",
                    hint=f"It takes: {', '.join(known)}.",
                )
            convert = {"torch": to_torch, "numpy": to_numpy}.get(kind, lambda obj: obj)
            others = [convert(each) for each in args[1:num_arrays]]
            return known[kind](args[0], *others, *args[num_arrays:], **kwargs)

        return dispatched

    return decorate


def _kind(obj: Any) -> str:
    if is_torch(obj):
        return "torch"
    if is_device_view(obj):
        return "device_view"
    return "number" if isinstance(obj, (bool, int, float, complex)) else "numpy"
