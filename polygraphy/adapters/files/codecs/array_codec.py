"""How arrays are saved: as the base64 text of an ``.npy`` file.

NumPy's own data types are part of that format. Those of `ml_dtypes` (bfloat16, float8, int4, ...)
are not: their bytes are saved as unsigned integers, and their name in a further field, ``dtype``,
which readers that do not know it pass over. Nor do NumPy's texts hold NULs at the end: a field
``trailing_nuls`` says where they belong.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from attrs import frozen

from polygraphy.adapters.files.formats.npy import (
    SHORT,
    array_from_bytes,
    array_from_npy,
    npy_pieces,
    trailing_nuls,
    with_narrow_type,
    with_trailing_nuls,
)
from polygraphy.adapters.files.json.base64_text import Base64Text, SlicedText, decoded_pieces
from polygraphy.adapters.files.json.content_error import ContentError
from polygraphy.adapters.files.json.json_codec import Decoder, Encoder
from polygraphy.domain.tensors.formatted import FormattedArray

__all__ = ["FormattedArray", "LazyArray"]

_Array = np.ndarray[Any, Any]

_ARCHIVE_START = "UEsDB"
"""Base64 of what an .npz archive starts with."""

_UNENCODED_STARTS = ("\x93NUMPY", "PK\x03\x04")
"""Old versions put the bytes themselves into the text, each as the character of the same number."""


@frozen(eq=False)
class LazyArray:
    """An output of an iteration, as it is saved; it is read as its `values`, an array or tensor."""

    values: Any


@Encoder.register(np.ndarray)
def _encode_array(array: _Array) -> dict[str, Any]:
    if _is_in_npy_format(array.dtype):
        fields: dict[str, Any] = {"array": Base64Text(npy_pieces(array))}
        nuls = trailing_nuls(array)
        return {**fields, "trailing_nuls": nuls} if nuls else fields
    if _narrow_dtype(array.dtype.name) is None:
        raise ContentError(f"an array of type {array.dtype} has no form in a file")
    raw = np.asarray(array).view(f"u{array.dtype.itemsize}")
    return {"array": Base64Text(npy_pieces(raw)), "dtype": array.dtype.name}


@Decoder.register("ndarray", takes_deferred_text=True)
def _decode_array(fields: dict[str, Any]) -> _Array:
    array = with_trailing_nuls(_decode_payload(fields["array"]), fields.get("trailing_nuls"))
    if "dtype" not in fields:
        return with_narrow_type(array)
    dtype = _narrow_dtype(fields["dtype"])
    if dtype is None:
        raise ContentError(f"an array of type {fields['dtype']!r} is not known here")
    return array.view(dtype)


@cache
def _is_in_npy_format(dtype: np.dtype[Any]) -> bool:
    if dtype.hasobject:
        return True  # It is refused for that, later.
    try:
        return bool(np.lib.format.descr_to_dtype(np.lib.format.dtype_to_descr(dtype)) == dtype)
    except TypeError:  # float8_e5m2 calls itself "<f1", which NumPy does not know.
        return False


def _narrow_dtype(name: str) -> np.dtype[Any] | None:
    """Return the data type that `ml_dtypes` has under a name, or None."""
    scalar = getattr(ml_dtypes, name, None)
    is_type = isinstance(scalar, type) and issubclass(scalar, np.generic)
    return np.dtype(scalar) if is_type else None


def _decode_payload(text: SlicedText) -> _Array:
    if len(text) <= SHORT:  # Of a file, reading takes longer than decoding it.
        text = text[:]
    start = text[:8]
    start = start if isinstance(start, str) else start.decode("latin-1")
    if start.startswith(_UNENCODED_STARTS):
        return array_from_bytes(str(text).encode("latin-1"))
    if start.startswith(_ARCHIVE_START):
        return array_from_bytes(b"".join(decoded_pieces(text)))
    return array_from_npy(text)


@Encoder.register(np.generic)
def _encode_scalar(scalar: np.generic) -> Any:
    """Return a number, or for a scalar that JSON does not have an array without dimensions."""
    is_number = isinstance(scalar, (np.bool_, np.integer, np.floating)) and scalar.itemsize <= 8
    return scalar.item() if is_number or isinstance(scalar, np.str_) else np.asarray(scalar)


@Encoder.register(LazyArray)
def _encode_lazy(lazy: LazyArray) -> dict[str, Any]:
    return {"values": lazy.values}


@Decoder.register(LazyArray, alias="LazyNumpyArray")
def _decode_lazy(fields: dict[str, Any]) -> Any:
    return fields["values"]


@Encoder.register(FormattedArray)
def _encode_formatted(formatted: FormattedArray) -> dict[str, Any]:
    return {"array": formatted.array, "shape": formatted.shape}


@Decoder.register(FormattedArray)
def _decode_formatted(fields: dict[str, Any]) -> FormattedArray:
    return FormattedArray(fields["array"], tuple(fields["shape"]))
