"""The same questions to NumPy arrays, PyTorch tensors and views of device memory.

What is computed is computed in NumPy; what comes out as an array is of the library that came in.
Numbers come out as Python's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry
from polygraphy.util.conversion import (
    Array,
    is_device_view,
    is_numpy,
    is_on_cpu,
    is_on_gpu,
    is_torch,
    like,
    to_numpy,
    to_torch,
)
from polygraphy.util.elementwise import (
    abs,
    argwhere,
    dispatch,
    divide,
    greater,
    histogram,
    logical_and,
    logical_not,
    logical_xor,
    multiply,
    pad,
    power,
    ravel,
    reshape,
    resize_or_reallocate,
    sqrt,
    subtract,
    topk,
    transpose,
    unravel_index,
    view,
    where,
)

__all__ = [
    "abs",
    "all",
    "allclose",
    "any",
    "argmax",
    "argmin",
    "argwhere",
    "cast",
    "data_ptr",
    "dispatch",
    "divide",
    "dtype",
    "equal",
    "greater",
    "histogram",
    "is_contiguous",
    "is_device_view",
    "is_numpy",
    "is_on_cpu",
    "is_on_gpu",
    "is_torch",
    "isfinite",
    "isinf",
    "isnan",
    "logical_and",
    "logical_not",
    "logical_xor",
    "make_contiguous",
    "max",
    "mean",
    "median",
    "min",
    "multiply",
    "nbytes",
    "pad",
    "power",
    "quantile",
    "ravel",
    "reshape",
    "resize_or_reallocate",
    "shape",
    "size",
    "sqrt",
    "std",
    "subtract",
    "sum",
    "to_numpy",
    "to_torch",
    "topk",
    "transpose",
    "unravel_index",
    "var",
    "view",
    "where",
]


def dtype(obj: Any) -> DataTypeEntry:
    """Return the data type, as `polygraphy.datatype.DataType` has it."""
    found: DataTypeEntry = DataType.from_dtype(_described(obj).dtype)
    return found


def shape(obj: Any) -> tuple[int, ...]:
    """Return the shape; ``()`` of a number."""
    return tuple(_described(obj).shape)


def size(obj: Any) -> int:
    """Return the number of elements."""
    return int(np.prod(shape(obj), dtype=np.int64))


def nbytes(obj: Any) -> int:
    """Return how many bytes the elements take, without gaps."""
    return int(size(obj) * dtype(obj).itemsize)


def data_ptr(obj: Any) -> int:
    """Return the address of the first element.

    Raises:
        UsageError: it has none: a number.
    """
    if is_torch(obj):
        return int(obj.data_ptr())
    if is_device_view(obj):
        return int(obj.ptr)
    if isinstance(obj, np.ndarray):
        return int(obj.ctypes.data)
    raise UsageError(f"A {type(obj).__name__} has no address.")


def is_contiguous(obj: Any) -> bool:
    """Return whether the elements lie in memory one after another, in the order of indices."""
    if is_torch(obj):
        return bool(obj.is_contiguous())
    return is_device_view(obj) or bool(to_numpy(obj).flags.c_contiguous)


def make_contiguous(obj: Any) -> Any:
    """Return an array with its elements one after another; the same if they are."""
    if is_contiguous(obj):
        return obj
    return obj.contiguous() if is_torch(obj) else np.ascontiguousarray(obj)


def cast(obj: Any, dtype: DataTypeEntry) -> Any:
    """Return the elements in another data type."""
    if is_torch(obj):
        return obj.to(dtype.torch())
    return to_numpy(obj).astype(dtype.numpy())


def equal(lhs: Any, rhs: Any) -> bool:
    """Return whether two arrays have the same shape and elements; NaN equals nothing."""
    return bool(np.array_equal(to_numpy(lhs), to_numpy(rhs)))


def allclose(lhs: Any, rhs: Any, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
    """Return whether every element is within `atol` plus `rtol` times the size of the second's."""
    return bool(np.allclose(to_numpy(lhs), to_numpy(rhs), rtol=rtol, atol=atol))


def any(obj: Any) -> bool:
    """Return whether an element is not zero."""
    return bool(to_numpy(obj).any())


def all(obj: Any) -> bool:
    """Return whether no element is zero."""
    return bool(to_numpy(obj).all())


def isfinite(obj: Any) -> Any:
    """Return of each element of each element whether it is neither NaN nor infinite."""
    return like(obj, np.isfinite(_floats(obj)))


def isinf(obj: Any) -> Any:
    """Return of each element of each element whether it is infinite."""
    return like(obj, np.isinf(_floats(obj)))


def isnan(obj: Any) -> Any:
    """Return of each element of each element whether it is NaN."""
    return like(obj, np.isnan(_floats(obj)))


def max(obj: Any) -> Any:
    """Return the largest element."""
    return to_numpy(obj).max().item()


def min(obj: Any) -> Any:
    """Return the smallest element."""
    return to_numpy(obj).min().item()


def argmax(obj: Any) -> int:
    """Return the position of the largest element, counted through all dimensions."""
    return int(to_numpy(obj).argmax())


def argmin(obj: Any) -> int:
    """Return the position of the smallest element, counted through all dimensions."""
    return int(to_numpy(obj).argmin())


def sum(obj: Any) -> Any:
    """Return the sum, in float64 or whole numbers of any size."""
    array = to_numpy(obj)
    if array.dtype.kind in "biu":
        return int(array.sum(dtype=object)) if array.size else 0
    return _wide(array).sum().item()


def mean(obj: Any) -> float:
    """Return the mean, in float64."""
    return float(_wide(to_numpy(obj)).mean())


def std(obj: Any) -> float:
    """Return the standard deviation of the elements as a whole, in float64."""
    return float(_wide(to_numpy(obj)).std())


def var(obj: Any) -> float:
    """Return the variance of the elements as a whole, in float64."""
    return float(_wide(to_numpy(obj)).var())


def median(obj: Any) -> float:
    """Return the median, in float64."""
    return float(np.median(_wide(to_numpy(obj))))


def quantile(obj: Any, q: float | Sequence[float]) -> Any:
    """Return one quantile, or a list of them, in float64; `q` is from 0 to 1."""
    return np.quantile(_wide(to_numpy(obj)), q).tolist()


def _described(obj: Any) -> Any:
    """Return something with a data type and a shape, without copying from a device."""
    return obj if is_torch(obj) or is_device_view(obj) else to_numpy(obj)


def _floats(obj: Any) -> Array:
    """Return the elements in a type that NumPy's questions about NaN take."""
    array = to_numpy(obj)
    return array if array.dtype.kind in "fcbiu" else array.astype(np.float64)


def _wide(array: Array) -> Array:
    """Return the elements in a type in which they are added without loss or overflow."""
    return array if array.dtype.kind == "c" else array.astype(np.float64)
