"""Runs sessions whose inputs or outputs have data types that ONNX Runtime neither takes from nor
gives to NumPy, such as bfloat16: their elements go through `OrtValue` as bytes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy import mod
from polygraphy.adapters.arrays.packed import packed, unpacked
from polygraphy.adapters.onnxruntime.datatype import OnnxrtDataTypes
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, OrtValue, RunOptions


onnxruntime = mod.lazy_import("onnxruntime")

_TYPES = OnnxrtDataTypes()


def needs_values(session: InferenceSession) -> bool:
    """Return whether an input or output has a data type that is not one of NumPy's own."""
    dtypes = (
        _TYPES.from_native(tensor.type)
        for tensor in (*session.get_inputs(), *session.get_outputs())
    )
    return any(dtype is not None and not _is_numpys(dtype) for dtype in dtypes)


def run_values(
    session: InferenceSession,
    names: Sequence[str],
    feed_dict: Mapping[str, Any],
    options: RunOptions | None = None,
) -> list[Any]:
    """Do what ``session.run`` does, for any data type of a tensor."""
    binding = session.io_binding()
    # Until the run is over, what is bound must stay where it is.
    held = [(name, *_value_of(array)) for name, array in feed_dict.items()]
    for name, value, _ in held:
        binding.bind_ortvalue_input(name, value)
    for name in names:
        binding.bind_output(name, "cpu")
    session.run_with_iobinding(binding, options)
    del held
    return [_array_of(value) for value in binding.get_outputs()]


def _is_numpys(dtype: DataTypeEntry) -> bool:
    return dtype == DataType.STRING or dtype.numpy().isbuiltin == 1


def _value_of(array: Any) -> tuple[OrtValue, Any]:
    """Return a value with the elements of an array, and what keeps their memory."""
    dtype = DataType.from_dtype(array.dtype)
    if _is_numpys(dtype):
        contiguous = np.require(array, requirements=["C"])
        return onnxruntime.OrtValue.ortvalue_from_numpy(contiguous), contiguous
    held = np.require(_bytes_of(array, dtype), requirements=["C", "A"])
    number = DataType.to_dtype(dtype, "onnx")
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(array.shape, number)
    if held.nbytes:
        ctypes.memmove(value.data_ptr(), held.ctypes.data, held.nbytes)
    return value, held


def _bytes_of(array: Any, dtype: DataTypeEntry) -> Any:
    if dtype.itemsize < 1:
        return packed(array, round(8 * dtype.itemsize))
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _array_of(value: OrtValue) -> Any:
    """Return the elements of a value that lies in the host's memory."""
    dtype = _TYPES.from_native(value.data_type())
    if dtype is None or _is_numpys(dtype):
        return value.numpy()
    shape = tuple(value.shape())
    nbytes = ceil(prod(shape) * dtype.itemsize)
    raw = np.frombuffer(ctypes.string_at(value.data_ptr(), nbytes) if nbytes else b"", np.uint8)
    native = dtype.numpy()
    if dtype.itemsize < 1:
        return unpacked(raw, round(8 * dtype.itemsize), native, prod(shape)).reshape(shape)
    return raw.view(native).copy().reshape(shape)
