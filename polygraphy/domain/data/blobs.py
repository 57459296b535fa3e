"""Bare bytes as arrays: data type and shape come from what the model asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from polygraphy.domain.errors import InputError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.pairing import pair_outputs
from polygraphy.domain.tensors.shapes import Shape, format_shape, is_dynamic_dim


def arrays_of(blobs: Mapping[str, bytes], metadata: TensorMetadata) -> dict[str, Any]:
    """Return one array per input of a model.

    Names are matched as outputs are paired. One dimension of a shape may be open: it follows from
    the number of bytes.

    Raises:
        InputError: an input has no bytes, or another number of them than it takes.
    """
    partners = {pair.name0: pair.name1 for pair in pair_outputs(metadata, blobs)}
    arrays = {}
    for name, (dtype, shape) in metadata.items():
        source = partners[name]
        if source is None:
            raise InputError(
                f"No data for input {name!r}: there is {', '.join(map(repr, blobs)) or 'nothing'}."
            )
        native = _native(name, dtype)
        if len(blobs[source]) % native.itemsize:
            raise InputError(
                f"Input {name!r} takes elements of {native.itemsize} bytes, but the data have"
                f" {len(blobs[source])} bytes."
            )
        elements = np.frombuffer(blobs[source], native)
        arrays[name] = elements.reshape(_static(name, shape, elements.size))
    return arrays


def _native(name: str, dtype: Any) -> np.dtype[Any]:
    entry = DataType.from_dtype(dtype)
    if entry is None or entry == DataType.STRING:
        raise InputError(f"Input {name!r} is of {entry or 'an unknown type'}, which bytes are not.")
    native: np.dtype[Any] = entry.numpy()
    return native


def _static(name: str, shape: Shape | None, size: int) -> list[int]:
    """Return the shape of so many elements."""
    if shape is None:
        return [size]
    known = [dim for dim in shape if not is_dynamic_dim(dim)]
    volume = math.prod(int(dim) for dim in known if isinstance(dim, int))
    open_dims = len(shape) - len(known)
    fits = size == volume if not open_dims else volume and size % volume == 0
    if not fits:
        raise InputError(
            f"Input {name!r} has shape {format_shape(shape)}, which {size} elements do not fill."
        )
    if open_dims > 1 and size != volume:
        raise InputError(
            f"Input {name!r} has shape {format_shape(shape)}: the bytes do not tell its"
            f" {open_dims} open dimensions.",
            hint="Save the data as .json or .npy, which keep shapes.",
        )
    filled = size // volume if volume else 0
    return [dim if isinstance(dim, int) and not is_dynamic_dim(dim) else filled for dim in shape]
