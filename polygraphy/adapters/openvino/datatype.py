"""OpenVINO's data types, and arrays of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from polygraphy import mod
from polygraphy.domain.errors import BackendError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

openvino = mod.lazy_import("openvino")

_NAMES = {
    "bool": "boolean",
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}


class OpenvinoDataTypes:
    """Converts between this package's data types and OpenVINO types that NumPy arrays can
    represent."""

    def to_native(self, entry: DataTypeEntry) -> Any:
        """Return the ``openvino.Type``; None if arrays of it cannot be passed."""
        name = _NAMES.get(entry.name)
        return None if name is None else getattr(openvino.Type, name)

    def from_native(self, dtype: Any) -> DataTypeEntry | None:
        """Return this package's data type, or None.
        The result is None for strings, and for types packed into less than a byte."""
        return _ENTRIES.get(dtype.get_type_name()) if hasattr(dtype, "get_type_name") else None


_ENTRIES = {native: getattr(DataType, name.upper()) for name, native in _NAMES.items()}


def data_type(name: str, native: Any) -> DataTypeEntry:
    """Return this package's data type of an input or output.

    Raises:
        BackendError: arrays of its type cannot be passed.
    """
    entry = OpenvinoDataTypes().from_native(native)
    if entry is None:
        raise BackendError(
            f"OpenVINO tensor {name!r} has the type {native.get_type_name()}, which NumPy"
            " arrays cannot hold.",
            backend="openvino",
            hint="Cast it in the model.",
        )
    return entry


def contiguous_array(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a contiguous array whose memory a tensor may share: the array itself, or a copy."""
    return np.require(array, requirements=["C", "A", "W"])


def tensor_of(array: np.ndarray[Any, Any], dtype: DataTypeEntry) -> Any:
    """Return an ``openvino.Tensor`` that shares the memory of a contiguous array if possible,
    without keeping the array alive."""
    if dtype != DataType.BFLOAT16 and array.size:
        return openvino.Tensor(array, shared_memory=True)
    tensor = openvino.Tensor(OpenvinoDataTypes().to_native(dtype), list(array.shape))
    if array.size:  # NumPy lacks the type, so OpenVINO shows its bits as float16.
        tensor.data[...] = array.view(np.float16)
    return tensor


def array_of(tensor: Any, dtype: DataTypeEntry) -> np.ndarray[Any, Any]:
    """Return a copy of the elements of a tensor."""
    array = np.array(tensor.data)
    return array.view(dtype.numpy()) if dtype == DataType.BFLOAT16 else array
