"""The same functions for NumPy arrays, PyTorch tensors and views of device memory.

NumPy does the computation; resulting arrays belong to the library of the argument, and numbers are
Python numbers. In functions of two arrays, one may be a number.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polygraphy.binding import resolve
from polygraphy.domain.errors import UsageError
from polygraphy.domain.ports import Tensors
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

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


def is_numpy(obj: Any) -> bool:
    """Return whether an object is a NumPy array or scalar."""
    return isinstance(obj, (np.ndarray, np.generic))


def is_torch(obj: Any) -> bool:
    """Return whether an object is a PyTorch tensor, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.Tensor)


def is_device_view(obj: Any) -> bool:
    """Return whether an object is a `polygraphy.cuda.DeviceView`, or a `DeviceArray`."""
    cuda = sys.modules.get("polygraphy.adapters.cuda.array")
    return cuda is not None and isinstance(obj, cuda.DeviceView)


def is_on_gpu(obj: Any) -> bool:
    """Return whether the elements are in device memory."""
    return is_device_view(obj) or (is_torch(obj) and obj.device.type == "cuda")


def is_on_cpu(obj: Any) -> bool:
    """Return whether the elements are in host memory."""
    return is_numpy(obj) or (is_torch(obj) and obj.device.type == "cpu")


def to_numpy(obj: Any) -> Array:
    """Return a NumPy array of the elements; host memory is not copied if possible.

    Raises:
        UsageError: it is neither an array nor a number.
    """
    if is_torch(obj):
        return resolve(Tensors, "torch").to_array(obj)
    if is_device_view(obj):
        copied: Array = obj.numpy()
        return copied
    if is_numpy(obj) or isinstance(obj, (bool, int, float, complex)):
        return np.asarray(obj)
    raise UsageError(f"A {type(obj).__name__} is not a supported array.")


def to_torch(obj: Any) -> Any:
    """Return a PyTorch tensor of the elements; the same object if it is one.

    Raises:
        MissingDependencyError: PyTorch is not installed.
        InputError: PyTorch has no such data type.
    """
    if is_torch(obj):
        return obj
    tensors = resolve(Tensors, "torch")
    tensors.prepare()
    return tensors.from_array("array", to_numpy(obj))


def dtype(obj: Any) -> DataTypeEntry:
    """Return the data type as one of `polygraphy.datatype.DataType`."""
    type_entry: DataTypeEntry = DataType.from_dtype(_describe(obj).dtype)
    return type_entry


def shape(obj: Any) -> tuple[int, ...]:
    """Return the shape; ``()`` for a number."""
    return tuple(_describe(obj).shape)


def _describe(obj: Any) -> Any:
    """Return an object with the data type and the shape, without a copy from a device."""
    return obj if is_torch(obj) or is_device_view(obj) else to_numpy(obj)


def size(obj: Any) -> int:
    """Return the number of elements."""
    return int(np.prod(shape(obj), dtype=np.int64))


def nbytes(obj: Any) -> int:
    """Return the size of the elements in bytes, without gaps."""
    return int(size(obj) * dtype(obj).itemsize)


def data_ptr(obj: Any) -> int:
    """Return the address of the first element.

    Raises:
        UsageError: it is a number, which has no address.
    """
    if is_torch(obj):
        return int(obj.data_ptr())
    if is_device_view(obj):
        return int(obj.ptr)
    if isinstance(obj, np.ndarray):
        return int(obj.ctypes.data)
    raise UsageError(f"A {type(obj).__name__} has no address.")


def is_contiguous(obj: Any) -> bool:
    """Return whether the elements are adjacent in memory, in the order of indices."""
    if is_torch(obj):
        return bool(obj.is_contiguous())
    return is_device_view(obj) or bool(to_numpy(obj).flags.c_contiguous)


def make_contiguous(obj: Any) -> Any:
    """Return a contiguous array; the same one if it is contiguous."""
    if is_contiguous(obj):
        return obj
    return obj.contiguous() if is_torch(obj) else np.ascontiguousarray(obj)


def cast(obj: Any, dtype: DataTypeEntry) -> Any:
    """Return the elements in another data type."""
    return obj.to(dtype.torch()) if is_torch(obj) else to_numpy(obj).astype(dtype.numpy())


def reshape(obj: Any, shape: Sequence[int]) -> Any:
    """Return the elements in another shape."""
    return obj.reshape(tuple(shape)) if is_torch(obj) else to_numpy(obj).reshape(tuple(shape))


def ravel(obj: Any) -> Any:
    """Return the elements in one dimension."""
    return reshape(obj, (-1,))


def transpose(obj: Any, axes: Sequence[int]) -> Any:
    """Return the array with its dimensions in another order."""
    return obj.permute(*axes) if is_torch(obj) else np.transpose(to_numpy(obj), axes)


def view(obj: Any, dtype: DataTypeEntry, shape: Sequence[int]) -> Any:
    """Return the same memory as an array of another data type and shape.

    Raises:
        UsageError: the elements are not contiguous.
    """
    if is_device_view(obj):
        from polygraphy.adapters.cuda.array import DeviceView

        return DeviceView(obj.ptr, shape, dtype, owner=obj)
    if not is_contiguous(obj):
        raise UsageError("Only a contiguous array has a view.")
    if is_torch(obj):
        return obj.view(dtype.torch()).reshape(tuple(shape))
    return to_numpy(obj).reshape(-1).view(dtype.numpy()).reshape(tuple(shape))


def resize_or_reallocate(obj: Any, shape: Sequence[int]) -> Any:
    """Return an array of another shape: the same one if it can be resized,
    else a new one of the same data type with undefined elements.
    """
    if is_torch(obj):
        return obj.resize_(tuple(shape))
    if hasattr(obj, "resize") and is_device_view(obj):
        obj.resize(tuple(shape))
        return obj
    try:
        obj.resize(tuple(shape), refcheck=False)
    except ValueError:  # This array does not own its memory.
        return np.empty(tuple(shape), obj.dtype)
    return obj


def topk(obj: Any, k: int, axis: int) -> tuple[Any, Any]:
    """Return the `k` largest elements along a dimension in descending order, and their indices.

    If there are fewer, all elements are returned.
    """
    array = to_numpy(obj)
    positions = np.flip(np.argsort(array, axis=axis, kind="stable"), axis=axis)
    positions = np.take(positions, np.arange(np.minimum(k, array.shape[axis])), axis=axis)
    return _in_library_of(obj, np.take_along_axis(array, positions, axis=axis)), _in_library_of(
        obj, positions
    )


def histogram(obj: Any, range: tuple[float, float] | None = None) -> tuple[Any, Any]:
    """Return the number of elements in each of ten bins of equal width, and the edges of the bins.

    Args:
        obj: the array.
        range: the outer edges (default: the smallest and the largest element).
    """
    counts, edges = np.histogram(to_numpy(obj), bins=10, range=range)
    return _in_library_of(obj, counts), _in_library_of(obj, edges)


def unravel_index(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the index, in an array of a shape, of the element at a position in C order."""
    return tuple(int(signedinteger) for signedinteger in np.unravel_index(index, tuple(shape)))


def _in_library_of(obj: Any, result: Any) -> Any:
    """Return an array in the library of the first argument."""
    return to_torch(result).to(obj.device) if is_torch(obj) else result


def _sum(array: Array) -> Any:
    """Return the sum of the elements, without loss or overflow."""
    if array.dtype.kind in "biu":
        return array.sum(dtype=object) if array.size else 0
    return _wide_elements(array).sum()


def _wide_elements(array: Array) -> Array:
    """Return the elements in a type that can be summed without loss or overflow."""
    return array if array.dtype.kind == "c" else array.astype(np.float64)


def _floats(array: Array) -> Array:
    """Return the elements in a type that NumPy can test for NaN."""
    return array if array.dtype.kind in "fcbiu" else array.astype(np.float64)


def _number(_obj: Any, result: Any) -> Any:
    """Return a result as a Python number."""
    return result.tolist() if isinstance(result, (np.ndarray, np.generic)) else result


def _make_function(
    name: str,
    function: Callable[..., Any],
    doc: str,
    answer: Callable[[Any, Any], Any] = _in_library_of,
    prepared: Callable[[Array], Array] = np.asarray,
) -> Callable[..., Any]:
    """Return a NumPy function that also accepts arrays of other libraries.

    Args:
        name: the name of the new function.
        function: the NumPy function.
        doc: the return value.
        answer: returns the result of the new function, from the first array and the NumPy result.
        prepared: converts the first array to the argument of the NumPy function.
    """

    def apply(obj: Any, *others: Any, **settings: Any) -> Any:
        """Return the result of the function in the array type of its first argument."""
        numpies = [
            to_numpy(value) if is_torch(value) or is_device_view(value) else value
            for value in others
        ]
        with np.errstate(divide="ignore", invalid="ignore"):
            return answer(obj, function(prepared(to_numpy(obj)), *numpies, **settings))

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"Return {doc}."
    return apply


abs = _make_function("abs", np.abs, "the absolute value of each element")
sqrt = _make_function("sqrt", np.sqrt, "the square root of each element; NaN for negative ones")
power = _make_function("power", operator.pow, "each element to the power of the second argument")
logical_not = _make_function("logical_not", np.logical_not, "whether each element is zero")
divide = _make_function(
    "divide",
    operator.truediv,
    "the quotient of each pair of elements; infinite or NaN if the divisor is zero",
)
multiply = _make_function("multiply", np.multiply, "the product of each pair of elements")
subtract = _make_function("subtract", np.subtract, "the difference of each pair of elements")
greater = _make_function(
    "greater", np.greater, "whether each element is greater than the one in the second array"
)
logical_and = _make_function(
    "logical_and", np.logical_and, "whether both elements of each pair are nonzero"
)
logical_xor = _make_function(
    "logical_xor", np.logical_xor, "whether exactly one element of each pair is nonzero"
)
where = _make_function(
    "where",
    np.where,
    "the elements of the second array where the first is nonzero, else of the third",
)
argwhere = _make_function(
    "argwhere", np.argwhere, "the indices of the nonzero elements, one per row"
)
pad = _make_function("pad", np.pad, "the array padded with zeros at both ends of each dimension")
isfinite = _make_function(
    "isfinite", np.isfinite, "whether each element is finite", prepared=_floats
)
isinf = _make_function("isinf", np.isinf, "whether each element is infinite", prepared=_floats)
isnan = _make_function("isnan", np.isnan, "whether each element is NaN", prepared=_floats)
equal = _make_function(
    "equal", np.array_equal, "whether two arrays are equal; NaN is not equal to anything", _number
)
allclose = _make_function(
    "allclose",
    np.allclose,
    "whether all differences are at most `atol` (1e-8) plus `rtol` (1e-5) times the second value",
    _number,
)
any = _make_function("any", np.any, "whether any element is nonzero", _number)
all = _make_function("all", np.all, "whether all elements are nonzero", _number)
max = _make_function("max", np.max, "the largest element", _number)
min = _make_function("min", np.min, "the smallest element", _number)
argmax = _make_function(
    "argmax", np.argmax, "the position of the largest element in the flattened array", _number
)
argmin = _make_function(
    "argmin", np.argmin, "the position of the smallest element in the flattened array", _number
)
sum = _make_function("sum", _sum, "the sum, in float64 or as an integer of any size", _number)
mean = _make_function("mean", np.mean, "the mean, in float64", _number, _wide_elements)
std = _make_function(
    "std",
    np.std,
    "the standard deviation of all elements, in float64",
    _number,
    _wide_elements,
)
var = _make_function(
    "var", np.var, "the variance of all elements, in float64", _number, _wide_elements
)
median = _make_function("median", np.median, "the median, in float64", _number, _wide_elements)
quantile = _make_function(
    "quantile",
    np.quantile,
    "one quantile, from 0 to 1, or a list of quantiles, in float64",
    _number,
    _wide_elements,
)
