"""Lengths of dynamic dimensions that are tried where a model fails with 1, which is made up and may
not be what it is made for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import prod

from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.shapes import is_dynamic_dim

_LENGTHS = (2, 16, 64, 256, 512)
_MOST_ELEMENTS = 1 << 22
"""Most elements of all inputs together, if the lengths are chosen here."""
_MOST_INPUTS = 4


def longer_inputs(inputs: TensorMetadata) -> Iterator[TensorMetadata]:
    """Yield inputs with dynamic dimensions longer than 1, the shortest first;
    none if all shapes are static.
    """
    for length in _LENGTHS:
        for chosen in _choices(inputs):
            metadata = _with_length(inputs, length, chosen)
            if metadata is not None:
                yield metadata


def _choices(inputs: TensorMetadata) -> Iterator[frozenset[tuple[str, int]]]:
    """Yield sets of input dimensions (name, axis) that may be longer than 1.

    These are all except batches, those of one input, and all.
    """
    dynamic = [
        (name, axis, dim)
        for name, meta in inputs.items()
        for axis, dim in enumerate(meta.shape or ())
        if is_dynamic_dim(dim)
    ]
    batches = {dim for _, axis, dim in dynamic if axis == 0}
    other_axes = [
        (name, axis)
        for name, axis, dim in dynamic
        if axis and not (isinstance(dim, str) and dim in batches)
    ]
    names = dict.fromkeys(name for name, _ in other_axes)
    yield frozenset(other_axes)
    if len(names) > 1:
        for name in list(names)[:_MOST_INPUTS]:
            yield frozenset(dimension for dimension in other_axes if dimension[0] == name)
    yield frozenset((name, axis) for name, axis, _ in dynamic)


def _with_length(
    inputs: TensorMetadata, length: int, chosen: Collection[tuple[str, int]]
) -> TensorMetadata | None:
    """Return the inputs with the length for chosen dimensions and 1 for other dynamic ones.
    The result is None if none is chosen or the inputs get too large.
    """
    metadata, elements = TensorMetadata(), 0
    for name, meta in inputs.items():
        dims: list[int] | None = None
        if meta.shape is not None:
            dims = [
                (
                    dim
                    if isinstance(dim, int) and dim >= 0
                    else length if (name, axis) in chosen else 1
                )
                for axis, dim in enumerate(meta.shape)
            ]
            elements += prod(dims)
        metadata.add(name, meta.dtype, dims)
    return metadata if chosen and elements <= _MOST_ELEMENTS else None
