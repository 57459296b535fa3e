"""The elements of a tensor in memory, and of weights as arrays, mapped from their file: the model's
own, or one beside it.

File names in a model are not trusted: a file outside the model's folder is not read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import cache
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy import mod
from polygraphy.adapters.onnx.storage.parsing import decode_text, translate_onnx_errors
from polygraphy.adapters.onnx.storage.weights import (
    DATA_FIELDS,
    OnnxDataTypes,
    StoredFile,
    all_graphs,
    all_tensors,
    byte_size,
    is_external,
    is_stored,
    map_weight_bytes,
    refer,
    replace_weight,
)
from polygraphy.adapters.os.paths import translate_os_errors
from polygraphy.domain.errors import FileError, ModelError
from polygraphy.domain.tensors.naming import count_text, list_some

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto, TensorProto

_LISTED = 3
_LARGE = 4096
"""Larger weights, in bytes, are not loaded if they can stay in their file."""


def external_files(model: ModelProto) -> list[str]:
    """Return the names of weight files that are not loaded, as written in the model."""
    return list(_weights_by_location(model))


def load_external_data(model: ModelProto, folder: Path, *, trusted: Iterable[Path] = ()) -> None:
    """Load the weights from their files; afterwards the model refers to no file.

    Args:
        model: the model; its weights are filled in.
        folder: the folder of the files.
        trusted: additional folders that links in `folder` may point to.

    Raises:
        FileError: a file is missing, cannot be read, or lies outside the folder.
        ModelError: a file ends before a weight does, or the number of bytes contradicts the shape
            of the weight.
    """
    named = _weights_by_location(model)
    files = _paths_of_files(named, folder, list(trusted))
    for location, tensors in named.items():
        _fill(tensors, files[location])


def store_external_data(
    model: ModelProto, path: Path, folder: Path | None, *, trusted: Iterable[Path] = ()
) -> None:
    """Make the large initializers of a model refer to their files, and load all other tensors from
    files.

    Args:
        model: the structure of a model; weights in its own file refer to that by name.
        path: the file of the model.
        folder: the folder of the other files; None to leave them unread.
        trusted: as for `load_external_data`.

    Raises:
        FileError, ModelError: as for `load_external_data`.
    """
    named = _weights_by_location(model)
    locations = [location for location in named if location != path.name]
    files = {path.name: path}
    if folder is not None:
        files.update(_paths_of_files(locations, folder, list(trusted)))
    sources = {location: StoredFile.of(files[location]) for location in named if location in files}
    for graph in all_graphs(model.graph):
        for tensor in graph.initializer:
            source = sources.get(location_of(tensor)) if is_external(tensor) else None
            if source is not None and byte_size(tensor) > _LARGE:
                size = source.size
                refer(tensor, source, *_extent(tensor, size, files[location_of(tensor)]))
    for location, tensors in named.items():
        remaining_tensors = [tensor for tensor in tensors if not is_stored(tensor)]
        if remaining_tensors and location in files:
            _fill(remaining_tensors, files[location])


def _paths_of_files(
    locations: Iterable[str], folder: Path, trusted: Sequence[Path]
) -> dict[str, Path]:
    """Return the paths of the files that a model names.
    Raise FileError if one is missing or outside the folder.
    """
    files = {location: _resolve_location(location, folder, trusted) for location in locations}
    missing = [str(path) for path in files.values() if not path.is_file()]
    if missing:
        raise FileError(
            f"The model stores weights in missing files: {list_some(missing, _LISTED, str)}.",
            path=missing[0],
            hint="Put them next to the model, or set their folder with --external-data-dir.",
        )
    return files


def locate_weight(
    tensor: TensorProto, folder: Path, trusted: Iterable[Path] = ()
) -> tuple[Path, int, int]:
    """Return the file with the elements of a weight, their offset and their number of bytes.
    It raises as `load_external_data` does.
    """
    path = _resolve_location(location_of(tensor), folder, list(trusted))
    if not path.is_file():
        raise FileError(
            f"The model stores weights in a missing file: {path}.",
            path=path,
            hint="Put it next to the model, or set its folder with --external-data-dir.",
        )
    offset, length = _extent(tensor, path.stat().st_size, path)
    return path, offset, length


def location_of(tensor: TensorProto) -> str:
    """Return the file name of a weight in the model; empty if it has none."""
    return _entries(tensor).get("location", "")


def _weights_by_location(model: ModelProto) -> dict[str, list[TensorProto]]:
    """Return the weights that are not loaded, by the name of their file."""
    named: dict[str, list[TensorProto]] = {}
    for tensor in all_tensors(model):
        if is_external(tensor) and not is_stored(tensor):
            named.setdefault(location_of(tensor), []).append(tensor)
    return named


def _entries(tensor: TensorProto) -> dict[str, str]:
    """Return the entries that locate the elements of a weight, by key."""
    return {decode_text(entry.key): decode_text(entry.value) for entry in tensor.external_data}


def _resolve_location(location: str, folder: Path, trusted: Sequence[Path]) -> Path:
    """Return the path of a file that a model names; raise FileError if it is outside the folder."""
    is_absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).anchor
    path = folder / location.replace("\\", "/")
    homes = [home.resolve() for home in (folder, *trusted)]
    if not location or is_absolute or not any(map(path.resolve().is_relative_to, homes)):
        raise FileError(
            f"The model stores weights in {location!r}, outside its folder {folder}.",
            path=path,
            hint="Files outside the folder are not read: move the file there, and save the"
            " model with"
            " its new name.",
        )
    return path


def _fill(tensors: Sequence[TensorProto], path: Path) -> None:
    """Read the elements of tensors from a file."""
    with translate_os_errors(path, "read the weights in"), path.open("rb") as stream:
        size = path.stat().st_size
        for tensor in tensors:
            offset, length = _extent(tensor, size, path)
            stream.seek(offset)
            tensor.raw_data = stream.read(length)
            for field in ("data_location", "external_data"):
                tensor.ClearField(field)


def _extent(tensor: TensorProto, size: int, path: Path) -> tuple[int, int]:
    """Return the offset and the number of bytes of a weight in its file."""
    entries = _entries(tensor)
    try:
        offset = int(entries.get("offset") or 0)
        length = int(entries.get("length") or size - offset)
    except ValueError:
        offset = length = -1
    expected = byte_size(tensor)
    if offset < 0 or length < 0 or offset + length > size:
        text = f"the file has {size} bytes"
    elif length != expected:
        text = f"it is stored with {length}"
    else:
        return offset, length
    raise ModelError(
        f"Weight {tensor.name!r} does not fit its file {path}: it needs {expected} bytes from"
        f" offset {entries.get('offset') or 0}, but {text}.",
        path=path,
        hint="The file is truncated, or belongs to a different model: export or download it again.",
    )


numpy = mod.lazy_import("numpy")
numpy_helper = mod.lazy_import("onnx.numpy_helper")

STRIPPED = "TRT_WEIGHTLESS"
"""Prefix, before a slash, of the documentation of a weight whose elements were removed."""

_TYPES = OnnxDataTypes()
_FIELDS = {
    "FLOAT": "float_data",
    "DOUBLE": "double_data",
    "INT64": "int64_data",
    "STRING": "string_data",
    **dict.fromkeys(
        ("BOOL", "INT8", "UINT8", "INT16", "UINT16", "INT32", "FLOAT16", "BFLOAT16"), "int32_data"
    ),
}
"""Fields with one value for each element, by data type."""


def elements(tensor: TensorProto) -> np.ndarray[Any, Any]:
    """Return the elements of a tensor.
    Those of a stored weight are mapped from its file if their type allows it.

    Raises:
        ModelError: their type is unknown, or their number contradicts the shape.
        FileError: the file of a stored weight has changed, or cannot be read any more.
    """
    array = _elements_in_message(tensor)
    if array is not None:
        return array
    if is_stripped(tensor):
        raise ModelError(
            f"Weight {tensor.name!r} was removed by `surgeon weight-strip`.",
            hint="Use the model with its weights, or run `surgeon weight-reconstruct`.",
        )
    if is_stored(tensor):
        return elements_from_bytes(tensor, map_weight_bytes(tensor))
    if problem := weight_problem(tensor):
        raise ModelError(problem, hint="Export the model again, or download it again.")
    with translate_onnx_errors(f"Weight {tensor.name!r} cannot be read"):
        computed_array: np.ndarray[Any, Any] = numpy_helper.to_array(tensor)
    return computed_array


def weight_problem(tensor: TensorProto) -> str:
    """Return a sentence about a tensor in memory whose elements do not fit its data type and shape.
    The result is empty if they fit, or are elsewhere.
    """
    if tensor.data_location or is_stripped(tensor) or tensor.HasField("segment"):
        return ""
    name, dims, types = f"Weight {tensor.name!r}", list(tensor.dims), type(tensor).DataType
    if not tensor.data_type or tensor.data_type not in types.values():
        return f"{name} has the unknown data type {tensor.data_type}."
    if min(dims, default=0) < 0:
        return f"{name} has the shape {dims}, with a negative dimension."
    if tensor.HasField("raw_data"):
        unit, required, available = "byte", byte_size(tensor), len(tensor.raw_data)
    elif (field := _FIELDS.get(types.Name(tensor.data_type))) is not None:
        unit, required, available = "value", prod(dims), len(getattr(tensor, field))
    else:
        return ""
    if available == required:
        return ""
    return f"{name} of shape {dims} requires {count_text(required, unit)}, but has {available}."


def _elements_in_message(tensor: TensorProto) -> np.ndarray[Any, Any] | None:
    """Return the elements of a tensor with consistent raw bytes, as in nearly all models.
    The result is None for others, which the onnx package must read."""
    dtype = _plain_dtype_of(tensor.data_type)
    if dtype is None or tensor.data_location or tensor.HasField("segment"):
        return None
    shape, content = tuple(tensor.dims), tensor.raw_data
    if not content or len(content) != prod(shape) * dtype.itemsize or min(shape, default=0) < 0:
        return None
    array: np.ndarray[Any, Any] = numpy.frombuffer(content, dtype).reshape(shape)
    return array


def elements_from_bytes(tensor: TensorProto, stored: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the elements of a tensor with mapped bytes, as an array on them if the type allows
    it."""
    dtype = plain_dtype(tensor)
    if dtype is not None:
        return stored.view(dtype).reshape(tuple(tensor.dims))
    new_tensor = type(tensor)(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    new_tensor.raw_data = stored.tobytes()
    return elements(new_tensor)


def replace_elements(tensor: TensorProto, array: np.ndarray[Any, Any], *, in_file: bool) -> None:
    """Replace the elements of a tensor; its shape and type are kept.

    Args:
        tensor: the tensor.
        array: the elements, which take whole bytes.
        in_file: whether they are kept in a temporary file, like those of a stored tensor.

    Raises:
        FileError: the temporary folder is full.
    """
    for field in DATA_FIELDS:
        tensor.ClearField(field)
    if in_file:
        replace_weight(tensor, array)
    else:
        tensor.raw_data = (array if sys.byteorder == "little" else array.byteswap()).tobytes()


def plain_dtype(tensor: TensorProto) -> np.dtype[Any] | None:
    """Return the data type of elements that take whole bytes; None for packed types and strings."""
    return _plain_dtype_of(tensor.data_type)


@cache
def _plain_dtype_of(number: int) -> np.dtype[Any] | None:
    """Return the data type for the number of an element type; None for packed types and strings."""
    entry = _TYPES.from_native(number)
    if entry is None or entry.itemsize < 1:
        return None
    dtype: np.dtype[Any] = entry.numpy().newbyteorder("<")
    return dtype


def is_stripped(tensor: TensorProto) -> bool:
    """Return whether the elements of a weight were removed on purpose."""
    if not tensor.doc_string.startswith(f"{STRIPPED}/"):
        return False
    return not tensor.raw_data and not is_stored(tensor)


class WeightArrays:
    """Reads the elements of a model's weights."""

    def __init__(self, path: str | Path, external_data_dir: str | None = None) -> None:
        """Set the path of the model, and the folder of its weight files,
        if it is a different one."""
        self._path = Path(path)
        self._folder = Path(external_data_dir or self._path.parent)
        # In a cache, models and weights can be links to another folder, so accept weights there.
        self._trusted = () if external_data_dir else (self._path.resolve().parent,)

    def array(self, tensor: TensorProto) -> np.ndarray[Any, Any]:
        """Return the elements of a weight; those in a file are mapped if their type allows it.

        Raises:
            FileError: their file is missing, cannot be read, or lies outside the folder.
            ModelError: the file is too short, or the weight is malformed.
        """
        if is_external(tensor) and not is_stored(tensor):
            path, offset, length = self._place(tensor)
            if length == 0:
                return np.zeros(tuple(tensor.dims), plain_dtype(tensor) or np.uint8)
            return elements_from_bytes(tensor, np.memmap(path, np.uint8, "r", offset, (length,)))
        return elements(tensor)

    def _place(self, tensor: TensorProto) -> tuple[Path, int, int]:
        """Return file, offset and number of bytes of a weight."""
        if location_of(tensor) == self._path.name:
            return locate_weight(tensor, self._path.parent, (self._path.resolve().parent,))
        return locate_weight(tensor, self._folder, self._trusted)
