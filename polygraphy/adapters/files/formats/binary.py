"""Files that hold arrays as they are, not as text: ``.safetensors``, ``.npz`` and ``.npy``.

Their contents are described by the same tree as those of a JSON file, with unread arrays in place
of the text of arrays.

The safetensors format: a JSON header with the position of each tensor, then the tensors.

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
from zipfile import BadZipFile, ZipFile
from zlib import crc32

import ml_dtypes
import numpy as np
from attrs import frozen

from polygraphy.adapters.files.formats.lazy import UnreadArray
from polygraphy.adapters.files.formats.npy import (
    check_unpacked,
    trailing_nuls,
    with_narrow_type,
    with_trailing_nuls,
    without_objects,
)
from polygraphy.adapters.files.formats.torch_codec import is_tensor
from polygraphy.adapters.files.json.json_codec import ContentError, Decoder
from polygraphy.constants import TYPE_MARKER
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.tensors.aliases import Array

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
    """A tensor in a file that was not read yet.

    Attributes:
        name: in the file.
        dtype: of the elements.
        shape: of the tensor.
        start: its offset in the file.
        nbytes: size in bytes.
        checksum: CRC-32 of its bytes; None if the file has none.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    nbytes: int
    checksum: int | None
    _mapped: mmap.mmap
    _nuls: Any = None

    def read(self) -> Array:
        """Return the tensor, read-only and mapped, so that only used parts are in memory.

        Raises:
            ContentError: its checksum or the description of its strings is wrong.
        """
        raw = np.frombuffer(self._mapped, np.uint8, self.nbytes, self.start)
        if self.checksum is not None and crc32(raw.data) != self.checksum:
            raise ContentError(f"tensor {self.name!r} is damaged: its checksum is wrong")
        return with_trailing_nuls(raw.view(self.dtype).reshape(self.shape), self._nuls)


def write_tensors(stream: IO[bytes], tensors: Mapping[str, Array], description: Any) -> None:
    """Write tensors and a description to a file.

    Args:
        stream: a file that is open for writing.
        tensors: arrays by name.
        description: any JSON value; `open_tensors` returns it.

    Raises:
        ContentError: an array holds Python objects, or the format cannot take a name.
    """
    plain = {name: _little_endian(array) for name, array in tensors.items()}
    # Large element types first, so that all data is aligned.
    ordered = sorted(plain, key=lambda name: -plain[name].dtype.itemsize)
    header: dict[str, Any] = {}
    own_values: dict[str, Any] = {}
    position = 0
    raws = []
    for name in ordered:
        if name == _METADATA:
            raise ContentError(f"this format cannot store a tensor named {name!r}")
        array = plain[name]
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        dtype = _NAMES.get(array.dtype)
        stored = {"dtype": dtype, "shape": list(array.shape)}
        own_values[name] = {"crc32": crc32(raw.data)}
        if dtype is None:
            own_values[name].update(dtype=_dtype_text(array.dtype), shape=list(array.shape))
            stored = {"dtype": "U8", "shape": [raw.size]}
        if nuls := trailing_nuls(tensors[name]):
            own_values[name].update(trailing_nuls=nuls)
        header[name] = {**stored, "data_offsets": [position, position + raw.size]}
        position += raw.size
        raws.append(raw)
    about = {"version": 1, "description": description, "tensors": own_values}
    text = json.dumps({_METADATA: {_OWN: json.dumps(about)}, **header}).encode("ascii")
    text += b" " * (-len(text) % _ALIGNMENT)
    stream.write(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
    for raw in raws:
        stream.write(raw.data)


def open_tensors(path: Path) -> tuple[dict[str, MappedTensor], Any]:
    """Return the tensors of a file, unread, and the description saved with them.

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
        raise ContentError("it is damaged, or not a safetensors file: its header is too long")
    if start > size:
        raise ContentError("it is truncated within the header")
    header = _json_object(mapped[_LENGTH_BYTES:start], "its header")
    metadata = header.pop(_METADATA, {})
    about = _package_fields(metadata)
    entries = about.get("tensors", {})
    if not isinstance(entries, dict):
        raise ContentError("it is damaged: its metadata does not describe its tensors")
    tensors = {
        name: _map_tensor(name, entry, entries.get(name, {}), start, mapped)
        for name, entry in header.items()
    }
    _check_is_covered(tensors, start, size)
    return tensors, about.get("description")


def _package_fields(metadata: Any) -> dict[str, Any]:
    """Return the fields that this package adds to the header of the format."""
    if not isinstance(metadata, dict):
        raise ContentError("it is damaged: its metadata is not an object")
    text = metadata.get(_OWN)
    return {} if text is None else _json_object(str(text), "its metadata")


def _json_object(text: str | bytes, what: str) -> dict[str, Any]:
    """Return the JSON object of a text; raise ContentError if it is not one."""
    try:
        loads = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ContentError(f"it is damaged: {what} is not JSON") from error
    if not isinstance(loads, dict):
        raise ContentError(f"it is damaged: {what} is not a JSON object")
    return loads


def _map_tensor(
    name: str, entry: Any, own_value: Any, start: int, mapped: mmap.mmap
) -> MappedTensor:
    """Return a tensor of a safetensors file from its header entry.
    Raise ContentError if that is invalid.
    """
    try:
        stored = _DTYPES[entry["dtype"]]
        shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
        numbers = (*shape, begin, end)
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("its sizes are not whole numbers")
        if end - begin != prod(shape) * stored.itemsize or start + end > len(mapped):
            raise ValueError("its sizes do not fit the file")
        dtype = stored
        if "dtype" in own_value:
            dtype, shape = _numeric_dtype(own_value["dtype"]), tuple(own_value["shape"])
            if prod(shape) * dtype.itemsize != end - begin or any(dim < 0 for dim in shape):
                raise ValueError("its sizes do not fit its data type")
        checksum = own_value.get("crc32")
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ContentError(
            f"it is damaged: the entry of tensor {name!r} is invalid: {error}"
        ) from error
    nuls = own_value.get("trailing_nuls")
    return MappedTensor(name, dtype, shape, start + begin, end - begin, checksum, mapped, nuls)


def _check_is_covered(tensors: Mapping[str, MappedTensor], start: int, size: int) -> None:
    """Raise if tensors overlap, or bytes belong to no tensor."""
    position = start
    for tensor in sorted(tensors.values(), key=lambda tensor: (tensor.start, tensor.nbytes)):
        if tensor.start != position:
            raise ContentError(
                f"it is damaged: tensor {tensor.name!r} does not start where the previous one ends"
            )
        position += tensor.nbytes
    if position != size:
        raise ContentError("it is damaged: it contains data after its tensors")


def _little_endian(array: Array) -> Array:
    """Return an array of numbers in little-endian byte order."""
    array = without_objects(array)
    return array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array


def _dtype_text(dtype: np.dtype[Any]) -> str:
    """Return a data type as text, which `_numeric_dtype` reads."""
    if _is_ml_dtype(str(dtype.name)):
        return str(dtype.name)
    if dtype.fields is not None or dtype.kind == "V":
        raise ContentError(f"this format cannot store an array of type {dtype}")
    return str(dtype.str)


def _numeric_dtype(text: Any) -> np.dtype[Any]:
    """Return the data type of a name; raise TypeError if it is not numeric."""
    if not isinstance(text, str):
        raise TypeError("its data type is not a string")
    dtype = np.dtype(getattr(ml_dtypes, text) if _is_ml_dtype(text) else text)
    if dtype.hasobject or not dtype.itemsize:
        raise TypeError(f"{text} is not a numeric data type")
    return dtype


def _is_ml_dtype(name: str) -> bool:
    """Return whether a name is a data type of ml_dtypes, such as bfloat16."""
    scalar = getattr(ml_dtypes, name, None)
    return isinstance(scalar, type) and issubclass(scalar, np.generic)


TENSORS = ".safetensors"
"""The extension of files that take inputs or results of a single iteration."""

SUFFIXES = (TENSORS, ".npz", ".npy")
"""Extensions of files that can be read here."""

_LEAF = "ArrayInFile"
_PICKLED = "an array contains pickled Python objects, which are never loaded"
_LONGEST_COMPLAINT = 200


class UnlabeledArrays(list[dict[str, Any]]):
    """The contents of a file of unlabeled arrays, which may be input data or results, such as a
    NumPy file."""

    def as_results(self, name: str) -> Any:
        """Return the arrays as the results of one runner."""
        iteration_fields = [
            _iteration_fields(
                leaves,
                {"outputs": dict(zip(leaves, leaves)), "runner_name": name, "runtime": None},
            )
            for leaves in self
        ]
        return {"lst": [[name, iteration_fields]], TYPE_MARKER: RunResults.__name__}


def parse_binary(path: Path) -> Any:
    """Return the structure of a file without reading its arrays.

    Raises:
        ContentError: it is truncated, damaged, or of a different format than its extension.
        OSError: it cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix == TENSORS:
        tensors, description = open_tensors(path)
        leaves = {name: _array_fields(tensor, path) for name, tensor in tensors.items()}
        return (
            UnlabeledArrays([leaves])
            if description is None
            else _tree_from_leaves(leaves, description)
        )
    if suffix == ".npy":
        return UnlabeledArrays([{path.stem: _array_fields(_Npy(path), path)}])
    return UnlabeledArrays(
        [{name: _array_fields(_NpzMember(path, name), path) for name in _npz_names(path)}]
    )


def _array_fields(array: MappedTensor | _Npy | _NpzMember, path: Path) -> dict[str, Any]:
    """Return the JSON fields that stand for an array, which is read later."""
    unread = UnreadArray(array.read, path) if isinstance(array, MappedTensor) else array
    return {"array": unread, TYPE_MARKER: _LEAF}


@Decoder.register(_LEAF)
def _decode_leaf(fields: dict[str, Any]) -> Any:
    """Return a placeholder for a tensor that is read on demand; other arrays unchanged."""
    array: UnreadArray | _Npy | _NpzMember = fields["array"]
    return array if isinstance(array, UnreadArray) else array.read()


def tensors_of(item: Mapping[str, Any] | RunResults) -> tuple[dict[str, Any], Any]:
    """Return the arrays of one iteration by their names in a file, and the other data as JSON.

    Raises:
        ContentError: it is not one iteration, or not one of arrays.
    """
    if not isinstance(item, RunResults):
        return {name: _numpy_array(name, array) for name, array in item.items()}, {
            "inputs": {name: name for name in item}
        }
    tensors: dict[str, Any] = {}
    runs = []
    for index, (runner, iterations) in enumerate(item):
        if len(iterations) != 1:
            raise ContentError(
                f"{runner} has {len(iterations)} iterations, but a {TENSORS} file stores one",
                hint="Save them with a writer, or as JSON.",
            )
        [iteration] = iterations
        outputs = {name: f"{index}/{name}" for name in iteration}
        marked = {name: f"marked/{index}/{name}" for name in iteration.marked_outputs}
        for arrays, keys in ((iteration, outputs), (iteration.marked_outputs, marked)):
            tensors.update((key, _numpy_array(name, arrays[name])) for name, key in keys.items())
        runs.append(
            {
                "runner": runner,
                "runner_name": iteration.runner_name,
                "runtime": iteration.runtime,
                "outputs": outputs,
                **({"marked_outputs": marked} if marked else {}),
            }
        )
    return tensors, {"runs": runs}


def _numpy_array(name: str, array: Any) -> np.ndarray[Any, Any]:
    """Return a tensor as a NumPy array; raise ContentError if it is not an array."""
    if isinstance(array, (list, tuple, dict)):
        message = f"{name!r} is a sequence or a map, but .safetensors files contain only arrays"
        raise ContentError(message, hint="Save as .json.")
    if not hasattr(array, "__array__"):
        message = f"tensor {name!r} is of type {type(array).__name__!r}, not an array"
        raise ContentError(message, hint="Convert it with numpy.asarray.")
    return np.asarray(array.detach().cpu() if is_tensor(array) else array)


def _tree_from_leaves(leaves: Mapping[str, Any], description: Any) -> Any:
    """Return the tree that a description stands for, with arrays from `leaves`."""
    try:
        if "inputs" in description:
            inputs = description["inputs"]
            return [{name: leaves[key] for name, key in inputs.items()}]
        runs = [
            [str(run["runner"]), [_iteration_fields(leaves, run)]] for run in description["runs"]
        ]
    except (AttributeError, KeyError, TypeError) as error:
        raise ContentError("it is damaged: its metadata does not describe its tensors") from error
    return {"lst": runs, TYPE_MARKER: RunResults.__name__}


def _iteration_fields(leaves: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON fields of an iteration, with its arrays from a file of tensors."""
    return {
        **{
            field: {name: leaves[key] for name, key in run[field].items()}
            for field in ("outputs", "marked_outputs")
            if field == "outputs" or field in run
        },
        "runtime": run["runtime"],
        "runner_name": run["runner_name"],
        TYPE_MARKER: IterationResult.__name__,
    }


@frozen
class _Npy:
    """The array in an ``.npy`` file, mapped into memory."""

    path: Path

    def read(self) -> np.ndarray[Any, Any]:
        """Return the array of the file, mapped; raise ContentError if it is damaged."""
        try:
            array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except OSError:
            raise
        except Exception as error:  # A parser of Python literals can raise anything.
            raise ContentError(_complaint(error)) from error
        return with_narrow_type(np.asarray(array))


@frozen
class _NpzMember:
    """One array of an ``.npz`` archive."""

    path: Path
    name: str

    def read(self) -> np.ndarray[Any, Any]:
        """Return the array of the archive; raise ContentError if it is damaged."""
        try:
            with np.load(self.path, allow_pickle=False) as archive:
                array: np.ndarray[Any, Any] = archive[self.name]
        except OSError:
            raise
        except Exception as error:  # zipfile, zlib and NumPy raise their own errors.
            raise ContentError(f"array {self.name!r}: {_complaint(error)}") from error
        return with_narrow_type(array)


def _npz_names(path: Path) -> list[str]:
    """Return the names of the arrays in an .npz file; raise ContentError if it is damaged."""
    try:
        with ZipFile(path) as archive:
            check_unpacked(archive, path.stat().st_size)
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except (BadZipFile, NotImplementedError) as error:
        raise ContentError("it is truncated, damaged, or not an .npz archive") from error


def _complaint(error: Exception) -> str:
    """Return a phrase about why an array cannot be read."""
    text = str(error)
    is_pickled = "allow_pickle" in text or "Python objects" in text
    return _PICKLED if is_pickled else f"it is damaged: {text[:_LONGEST_COMPLAINT]}"
