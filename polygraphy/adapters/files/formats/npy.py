"""Arrays as the bytes of an ``.npy`` file, in pieces; nothing is ever pickled or unpickled."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from io import BytesIO
from itertools import chain
from math import prod
from typing import Any
from zipfile import ZipFile

import ml_dtypes
import numpy as np

from polygraphy import config
from polygraphy.adapters.files.json.json_codec import ContentError
from polygraphy.adapters.files.json.json_writer import (
    Piece,
    SlicedText,
    base64_size,
    decode_pieces,
)
from polygraphy.domain.tensors.aliases import Array

_STRIDED_BUFFER_BYTES = 1 << 20
"""Bytes of a non-contiguous array that are copied at a time."""

_FIRST_LOOK_CHARACTERS = 512
"""Characters that are decoded to find the header, which usually has 128 bytes."""

SHORT = 64 * 1024
"""Text of at most this many characters is fetched at once."""

_RATIO = 100
"""Largest size of an unpacked archive, as a multiple of its file, in addition to the general
limit."""

_MAGIC_OF_VERSION_3 = b"\x93NUMPY\x03"

_HEADER_READERS: dict[Any, Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def npy_pieces(array: Array) -> Iterator[Piece]:
    """Yield the bytes that `numpy.save` would write; contiguous arrays are not copied.

    Raises:
        ContentError: at the call, if the array holds Python objects other than strings.
    """
    array = np.asarray(without_objects(array))
    in_fortran_order = array.flags.f_contiguous and not array.flags.c_contiguous
    fields = {
        "descr": np.lib.format.dtype_to_descr(array.dtype),
        "fortran_order": in_fortran_order,
        "shape": array.shape,
    }
    stream = BytesIO()
    try:
        np.lib.format.write_array_header_1_0(stream, fields)
    except ValueError:  # A structured type with very many fields, or with names outside Latin-1.
        np.lib.format.write_array(stream, array, version=(3, 0), allow_pickle=False)
        return iter([stream.getvalue()])
    return chain([stream.getvalue()], _element_bytes(array.T if in_fortran_order else array))


def without_objects(array: Array) -> Array:
    """Return an array that a file can contain:
    Python strings become NumPy strings, which lose final NULs (see `trailing_nuls`).

    Raises:
        ContentError: the array holds other Python objects.
    """
    if not array.dtype.hasobject:
        return array
    texts = list(map(_as_text, array.ravel().tolist() if array.dtype == object else [None]))
    if not all(isinstance(text, str) for text in texts):
        raise ContentError(
            "an array of Python objects cannot be saved",
            hint="Convert it, for example with array.astype(float).",
        )
    strings: Array = np.array(texts, dtype=np.str_).reshape(array.shape)
    return strings


def _as_text(value: Any) -> Any:
    """Return bytes decoded as text; other values unchanged."""
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else value


def trailing_nuls(array: Array) -> list[tuple[int, int]]:
    """Return the C-order position of each text that ends in NULs, and their number."""
    if array.dtype != object:
        return []
    nul_counts = []
    for position, text in enumerate(map(_as_text, array.ravel().tolist())):
        if isinstance(text, str) and text.endswith("\0"):
            nul_counts.append((position, len(text) - len(text.rstrip("\0"))))
    return nul_counts


def with_trailing_nuls(array: Array, nuls: Any) -> Array:
    """Return texts as Python objects with the recorded NULs restored.

    Raises:
        ContentError: the NULs do not belong to the array.
    """
    if not nuls:
        return array
    if array.dtype.kind != "U":
        raise ContentError(f"an array of strings is damaged: its data type is {array.dtype}")
    try:
        strings = array.astype(object, order="C")
        flat = strings.reshape(-1)
        for position, count in nuls:
            room = array.itemsize // 4 - len(flat[position])
            if position < 0 or not 0 < count <= room:
                raise ValueError(f"{count} NULs at the end of string {position}")
            flat[position] += "\0" * count
        return strings
    except (IndexError, TypeError, ValueError) as error:
        raise ContentError(f"an array of strings is damaged: {error}") from error


def _element_bytes(array: Array) -> Iterator[Piece]:
    """Yield the bytes of the elements in C order."""
    if array.nbytes == 0:
        return
    if array.flags.c_contiguous:
        yield array.reshape(-1).view(np.uint8).data
        return
    at_once = max(_STRIDED_BUFFER_BYTES // array.itemsize, 1)
    chunks: Any = np.nditer(
        array, flags=["external_loop", "buffered"], buffersize=at_once, order="C"
    )
    for chunk in chunks:
        yield chunk.tobytes()


def array_from_npy(text: SlicedText) -> Array:
    """Return the array in the base64 text of an ``.npy`` file.

    Raises:
        ContentError: the text is damaged, or the array holds pickled objects.
    """
    is_short = len(text) <= SHORT
    if is_short:
        head = b"".join(decode_pieces(text))
        total = len(head)
    else:
        head = b"".join(decode_pieces(text[:_FIRST_LOOK_CHARACTERS]))
        total = base64_size(text)
    if head[:7] == _MAGIC_OF_VERSION_3:
        return array_from_bytes(b"".join(decode_pieces(text)))
    data_start = _data_start(head)
    if data_start > len(head) and not is_short:
        head = b"".join(decode_pieces(text[: -(-data_start // 3) * 4]))
    shape, in_fortran_order, dtype = _parse_header(head[:data_start])
    nbytes = prod(shape) * dtype.itemsize
    if nbytes != total - data_start:  # Check the size before allocating memory.
        raise ContentError(
            f"an array is damaged: expected {nbytes} bytes according to its header, found"
            f" {total - data_start}"
        )
    if is_short and nbytes:
        flat: Array = np.frombuffer(head, dtype, offset=data_start).copy()
    else:
        flat = np.empty(prod(shape), dtype)
        if nbytes:
            _decode_into(flat.view(np.uint8), text, data_start)
    return flat.reshape(shape[::-1]).T if in_fortran_order else flat.reshape(shape)


def _decode_into(raw: Array, text: SlicedText, data_start: int) -> None:
    """Decode base64 text into an array of bytes, from a byte position on."""
    filled = 0
    for piece in decode_pieces(text, data_start):
        raw[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
        filled += len(piece)


def _data_start(head: bytes) -> int:
    """Return where the header ends; its length follows six bytes of magic and two of version."""
    size_bytes = 2 if head[6:7] == b"\x01" else 4
    if head[:6] != b"\x93NUMPY" or len(head) < 8 + size_bytes:
        raise ContentError("an array is damaged: it does not start like an .npy file")
    return 8 + size_bytes + int.from_bytes(head[8 : 8 + size_bytes], "little")


@lru_cache(maxsize=256)  # Cached, because NumPy's parser of headers compiles Python code.
def _parse_header(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape, whether the array is in Fortran order, and the data type."""
    stream = BytesIO(head)
    try:
        read = _HEADER_READERS[np.lib.format.read_magic(stream)]
        shape, in_fortran_order, dtype = read(stream)
    except Exception as error:  # A parser of Python literals can raise anything.
        raise ContentError(f"an array is damaged: {error}") from error
    if dtype.hasobject:
        raise ContentError("an array contains pickled Python objects, which are never loaded")
    return shape, in_fortran_order, dtype


def check_unpacked(archive: ZipFile, packed: int) -> None:
    """Raise if an archive unpacks to many times its size.

    Args:
        archive: the archive.
        packed: size in bytes.

    Raises:
        ContentError: the archive unpacks to too many bytes.
    """
    limit = config.EXPANSION_LIMIT_MB
    if limit < 0:
        return
    unpacked = sum(zip_info.file_size for zip_info in archive.infolist())
    most = limit * 2**20 + _RATIO * packed
    if unpacked > most:
        raise ContentError(
            f"it expands from {packed:,} to {unpacked:,} bytes, more than the limit of {most:,}",
            hint="Set POLYGRAPHY_EXPANSION_LIMIT_MB to a larger number, or to -1 for no limit.",
        )


def array_from_bytes(content: bytes) -> Array:
    """Return the array in an ``.npy`` file, or the first one in an ``.npz`` archive.

    Raises:
        ContentError: the content is damaged, or the array holds pickled objects.
    """
    try:
        loaded = np.load(BytesIO(content), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        check_unpacked(loaded.zip, len(content))
        return np.asarray(loaded[loaded.files[0]])
    except ContentError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy raise their own errors.
        raise ContentError(f"an array is damaged: {error}") from error


def with_narrow_type(array: Array) -> Array:
    """Return an array of untyped two-byte elements, as NumPy saves bfloat16, as bfloat16;
    other arrays unchanged."""
    is_bare = array.dtype.kind == "V" and array.dtype.names is None
    is_narrow = is_bare and array.dtype.subdtype is None and array.dtype.itemsize == 2
    return array.view(ml_dtypes.bfloat16) if is_narrow else array
