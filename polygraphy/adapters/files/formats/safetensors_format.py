"""The safetensors format: a header in JSON that says where each tensor lies, then the tensors.

Everything that a header claims is checked when a file is opened, so nothing outside of the file is
ever read, and no memory is taken for more than the file holds. The elements stay in the file until
a tensor is read, and are mapped into memory then, not copied. Files that this package wrote hold a
checksum of each tensor, which is checked when the tensor is read.

Of the data types that the format lacks, the bytes are stored as ``U8``; the metadata hold the data
type and the shape. They also hold where texts end in NULs, which NumPy's texts cannot.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import IO, Any
from zlib import crc32

import ml_dtypes
import numpy as np
from attrs import frozen

from polygraphy.adapters.files.formats.npy import (
    trailing_nuls,
    with_trailing_nuls,
    without_objects,
)
from polygraphy.adapters.files.json.json_codec import ContentError

_Array = np.ndarray[Any, Any]

_DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype("<u1"),
    "I8": np.dtype("<i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "C64": np.dtype("<c8"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

_LENGTH_BYTES = 8
_LONGEST_HEADER = 100 * 1000 * 1000
_ALIGNMENT = 8
_METADATA = "__metadata__"
_OWN = "polygraphy"


@frozen(eq=False)
class MappedTensor:
    """A tensor in a file, not read yet.

    Attributes:
        name: in the file.
        dtype: of the elements.
        shape: of the tensor.
        start: where in the file it starts.
        nbytes: how many bytes it has.
        checksum: CRC-32 of its bytes; None when the file has none.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    nbytes: int
    checksum: int | None
    _mapped: mmap.mmap
    _nuls: Any = None

    def read(self) -> _Array:
        """Return the tensor: read-only, and in memory only as far as it is used.

        Raises:
            ContentError: its checksum is wrong, or what is said about its texts.
        """
        raw = np.frombuffer(self._mapped, np.uint8, self.nbytes, self.start)
        if self.checksum is not None and crc32(raw.data) != self.checksum:
            raise ContentError(f"tensor {self.name!r} is damaged: its checksum is wrong")
        return with_trailing_nuls(raw.view(self.dtype).reshape(self.shape), self._nuls)


def write_tensors(stream: IO[bytes], tensors: Mapping[str, _Array], description: Any) -> None:
    """Write a file.

    Args:
        stream: a file that is open for writing.
        tensors: arrays by name.
        description: anything that has a form in JSON; `open_tensors` returns it.

    Raises:
        ContentError: an array holds Python objects, or the format cannot take a name.
    """
    plain = {name: _little_endian(array) for name, array in tensors.items()}
    ordered = sorted(plain, key=lambda name: -plain[name].dtype.itemsize)  # For alignment.
    header: dict[str, Any] = {}
    own: dict[str, Any] = {}
    position = 0
    raws = []
    for name in ordered:
        if name == _METADATA:
            raise ContentError(f"a tensor of the name {name!r} has no place in this format")
        array = plain[name]
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        dtype = _NAMES.get(array.dtype)
        stored = {"dtype": dtype, "shape": list(array.shape)}
        own[name] = {"crc32": crc32(raw.data)}
        if dtype is None:
            own[name].update(dtype=_dtype_text(array.dtype), shape=list(array.shape))
            stored = {"dtype": "U8", "shape": [raw.size]}
        if nuls := trailing_nuls(tensors[name]):
            own[name].update(trailing_nuls=nuls)
        header[name] = {**stored, "data_offsets": [position, position + raw.size]}
        position += raw.size
        raws.append(raw)
    about = {"version": 1, "description": description, "tensors": own}
    text = json.dumps({_METADATA: {_OWN: json.dumps(about)}, **header}).encode("ascii")
    text += b" " * (-len(text) % _ALIGNMENT)
    stream.write(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
    for raw in raws:
        stream.write(raw.data)


def open_tensors(path: Path) -> tuple[dict[str, MappedTensor], Any]:
    """Open a file; return its tensors and what `write_tensors` was given as a description.

    The description is None in files that were not written here.

    Raises:
        ContentError: the file is truncated or damaged.
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        if size <= _LENGTH_BYTES:
            raise ContentError("it is truncated: it has no header")
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    length = int.from_bytes(mapped[:_LENGTH_BYTES], "little")
    start = _LENGTH_BYTES + length
    if length > _LONGEST_HEADER:
        raise ContentError("it is damaged, or no safetensors file: its header is too long")
    if start > size:
        raise ContentError("it is truncated: it ends in the header")
    header = _json_object(mapped[_LENGTH_BYTES:start], "its header")
    metadata = header.pop(_METADATA, {})
    about = _about(metadata)
    own = about.get("tensors", {})
    if not isinstance(own, dict):
        raise ContentError("it is damaged: its metadata do not describe its tensors")
    tensors = {
        name: _tensor(name, entry, own.get(name, {}), start, mapped)
        for name, entry in header.items()
    }
    _check_is_covered(tensors, start, size)
    return tensors, about.get("description")


def _about(metadata: Any) -> dict[str, Any]:
    """Return what files of this package hold beside the format's own header."""
    if not isinstance(metadata, dict):
        raise ContentError("it is damaged: its metadata are no object")
    text = metadata.get(_OWN)
    return {} if text is None else _json_object(str(text), "its metadata")


def _json_object(text: str | bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ContentError(f"it is damaged: {what} is no JSON") from error
    if not isinstance(found, dict):
        raise ContentError(f"it is damaged: {what} is no JSON object")
    return found


def _tensor(name: str, entry: Any, own: Any, start: int, mapped: mmap.mmap) -> MappedTensor:
    try:
        stored = _DTYPES[entry["dtype"]]
        shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
        numbers = (*shape, begin, end)
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("its sizes are not whole numbers")
        if end - begin != prod(shape) * stored.itemsize or start + end > len(mapped):
            raise ValueError("its sizes do not fit the file")
        dtype = stored
        if "dtype" in own:
            dtype, shape = _dtype(own["dtype"]), tuple(own["shape"])
            if prod(shape) * dtype.itemsize != end - begin or any(dim < 0 for dim in shape):
                raise ValueError("its sizes do not fit its data type")
        checksum = own.get("crc32")
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ContentError(f"it is damaged: tensor {name!r} is not described: {error}") from error
    nuls = own.get("trailing_nuls")
    return MappedTensor(name, dtype, shape, start + begin, end - begin, checksum, mapped, nuls)


def _check_is_covered(tensors: Mapping[str, MappedTensor], start: int, size: int) -> None:
    """Complain about tensors that overlap, and about bytes that belong to none."""
    position = start
    for tensor in sorted(tensors.values(), key=lambda tensor: (tensor.start, tensor.nbytes)):
        if tensor.start != position:
            raise ContentError(f"it is damaged: tensor {tensor.name!r} does not follow another")
        position += tensor.nbytes
    if position != size:
        raise ContentError("it is damaged: there is something behind its tensors")


def _little_endian(array: _Array) -> _Array:
    array = without_objects(array)
    return array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array


def _dtype_text(dtype: np.dtype[Any]) -> str:
    """Return what `_dtype` makes the same data type of."""
    if _is_narrow(str(dtype.name)):
        return str(dtype.name)
    if dtype.fields is not None or dtype.kind == "V":
        raise ContentError(f"an array of type {dtype} has no form in this format")
    return str(dtype.str)


def _dtype(text: Any) -> np.dtype[Any]:
    if not isinstance(text, str):
        raise TypeError("its data type is no text")
    dtype = np.dtype(getattr(ml_dtypes, text) if _is_narrow(text) else text)
    if dtype.hasobject or not dtype.itemsize:
        raise TypeError(f"{text} is no data type of numbers")
    return dtype


def _is_narrow(name: str) -> bool:
    scalar = getattr(ml_dtypes, name, None)
    return isinstance(scalar, type) and issubclass(scalar, np.generic)
