"""The elements of a tensor in memory, and of weights as arrays, mapped from their file."""

from __future__ import annotations

import sys
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy import mod
from polygraphy.adapters.onnx.storage.external import located_weight, location_of
from polygraphy.adapters.onnx.storage.parsing import onnx_errors
from polygraphy.adapters.onnx.storage.stored import is_stored, keep, stored_bytes
from polygraphy.adapters.onnx.storage.weights import DATA_FIELDS, OnnxDataTypes, is_external
from polygraphy.domain.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from onnx import TensorProto
if TYPE_CHECKING:
    from onnx import TensorProto


numpy = mod.lazy_import("numpy")
numpy_helper = mod.lazy_import("onnx.numpy_helper")

STRIPPED = "TRT_WEIGHTLESS"
"""What the documentation of a weight begins with, and a slash, when its elements were left out."""

_TYPES = OnnxDataTypes()


def elements(tensor: TensorProto) -> np.ndarray[Any, Any]:
    """Return the elements of a tensor; those of a stored weight are mapped from its file where
    their type allows it.

    Raises:
        ModelError: they are of no known type, or not as many as its shape asks for.
        FileError: the file of a stored weight has changed, or cannot be read any more.
    """
    found = _in_message(tensor)
    if found is not None:
        return found
    if is_stripped(tensor):
        raise ModelError(
            f"Weight {tensor.name!r} was left out of the model by `surgeon weight-strip`.",
            hint="Take the model that has its weights, or run `surgeon weight-reconstruct`.",
        )
    if is_stored(tensor):
        return from_stored(tensor, stored_bytes(tensor))
    with onnx_errors(f"Weight {tensor.name!r} cannot be read"):
        made: np.ndarray[Any, Any] = numpy_helper.to_array(tensor)
    return made


def _in_message(tensor: TensorProto) -> np.ndarray[Any, Any] | None:
    """Return the elements of a tensor whose bytes are what it says, as nearly all are; None for
    others, about which the onnx package has more to say.
    """
    dtype = _plain_dtype_of(tensor.data_type)
    if dtype is None or tensor.data_location or tensor.HasField("segment"):
        return None
    shape, content = tuple(tensor.dims), tensor.raw_data
    if not content or len(content) != prod(shape) * dtype.itemsize or min(shape, default=0) < 0:
        return None
    made: np.ndarray[Any, Any] = numpy.frombuffer(content, dtype).reshape(shape)
    return made


def from_stored(tensor: TensorProto, stored: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the elements of a tensor whose bytes are mapped, as an array on them where the type
    allows it.
    """
    dtype = plain_dtype(tensor)
    if dtype is not None:
        return stored.view(dtype).reshape(tuple(tensor.dims))
    made = type(tensor)(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    made.raw_data = stored.tobytes()
    return elements(made)


def put(tensor: TensorProto, array: np.ndarray[Any, Any], *, in_file: bool) -> None:
    """Give a tensor other elements, of the shape and the type that it states.

    Args:
        tensor: the tensor.
        array: the elements, which take whole bytes.
        in_file: whether they are kept in a temporary file, as they should be where those of the
            tensor were stored.

    Raises:
        FileError: there is no room in the temporary folder.
    """
    for field in DATA_FIELDS:
        tensor.ClearField(field)
    if in_file:
        keep(tensor, array)
    else:
        tensor.raw_data = (array if sys.byteorder == "little" else array.byteswap()).tobytes()


def plain_dtype(tensor: TensorProto) -> np.dtype[Any] | None:
    """Return the data type of elements that take whole bytes; None for packed ones and texts."""
    return _plain_dtype_of(tensor.data_type)


@cache
def _plain_dtype_of(number: int) -> np.dtype[Any] | None:
    entry = _TYPES.from_native(number)
    if entry is None or entry.itemsize < 1:
        return None
    dtype: np.dtype[Any] = entry.numpy().newbyteorder("<")
    return dtype


def is_stripped(tensor: TensorProto) -> bool:
    """Return whether the elements of a weight were left out on purpose."""
    if not tensor.doc_string.startswith(f"{STRIPPED}/"):
        return False
    return not tensor.raw_data and not is_stored(tensor)


class WeightArrays:
    """Gives the elements of a model's weights."""

    def __init__(self, path: str | Path, external_data_dir: str | None = None) -> None:
        """Name the model, and the folder of the files with its weights, if not its own."""
        self._path = Path(path)
        self._folder = Path(external_data_dir or self._path.parent)
        # A model in a cache may be a link, as its weights are, to where both really lie.
        self._trusted = () if external_data_dir else (self._path.resolve().parent,)

    def array(self, tensor: TensorProto) -> np.ndarray[Any, Any]:
        """Return the elements of a weight; those in a file are mapped where their type allows it.

        Raises:
            FileError: their file is missing, cannot be read, or lies outside the folder.
            ModelError: the file is too short, or the weight is malformed.
        """
        if is_external(tensor) and not is_stored(tensor):
            path, offset, length = self._place(tensor)
            if length == 0:
                return np.zeros(tuple(tensor.dims), plain_dtype(tensor) or np.uint8)
            return from_stored(tensor, np.memmap(path, np.uint8, "r", offset, (length,)))
        return elements(tensor)

    def _place(self, tensor: TensorProto) -> tuple[Path, int, int]:
        if location_of(tensor) == self._path.name:
            return located_weight(tensor, self._path.parent, (self._path.resolve().parent,))
        return located_weight(tensor, self._folder, self._trusted)
