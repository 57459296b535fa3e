"""How the elements of a tensor lie in memory where that is not the order of its shape: vectorized
and channels-last formats, and elements of four bits.

One rule covers all formats: the element at index ``i`` lies at
``sum(i[k] * strides[k]) * components``, where the vectorized dimension counts whole vectors; the
position within the vector comes on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import Any

import numpy as np
from attrs import frozen
from numpy.lib.stride_tricks import as_strided

from polygraphy.adapters.arrays.foreign import packed, unpacked
from polygraphy.domain.tensors.aliases import Array


@frozen
class Layout:
    """The place of each element of one tensor.

    Attributes:
        shape: of the tensor.
        dtype: of its elements, for NumPy, which keeps elements of four bits in a byte each.
        strides: between elements along each dimension, counted in vectors.
        components: how many elements of the vectorized dimension make a vector.
        vectorized_dim: that dimension; -1 for none.
        bits: size of an element in memory.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    components: int = 1
    vectorized_dim: int = -1
    bits: int = 8

    @property
    def nbytes(self) -> int:
        """Size of the tensor in memory, padding included."""
        return ceil(self._scalars * self.bits / 8)

    @property
    def _vectors(self) -> list[int]:
        """The shape in vectors."""
        return [
            ceil(dim / self.components) if axis == self.vectorized_dim else dim
            for axis, dim in enumerate(self.shape)
        ]

    @property
    def _scalars(self) -> int:
        if not prod(self.shape):
            return 0
        last = sum((dim - 1) * stride for dim, stride in zip(self._vectors, self.strides))
        return (last + 1) * self.components

    def pack(self, array: Array) -> Array:
        """Return the bytes (uint8) of an array of this shape and data type, with zeros between."""
        scalars = np.zeros(self._scalars, dtype=self.dtype)
        if scalars.size:
            self._in_place(scalars)[...] = self._in_vectors(array)
        return packed(scalars, self.bits) if self.bits < 8 else scalars.view(np.uint8)

    def unpack(self, memory: Array) -> Array:
        """Return the array whose bytes (uint8) these are; a copy."""
        if self.bits < 8:
            scalars = unpacked(memory, self.bits, self.dtype, self._scalars)
        else:
            scalars = memory[: self.nbytes].view(self.dtype)
        found: Array
        if not scalars.size:
            return np.zeros(self.shape, dtype=self.dtype)
        vectors = self._in_place(scalars)
        if self.vectorized_dim < 0:
            found = vectors[..., 0].copy()
            return found
        axis = self.vectorized_dim
        joined = np.moveaxis(vectors, -1, axis + 1)
        padded = list(self.shape)
        padded[axis] = -1
        within = (slice(None),) * axis + (slice(self.shape[axis]),)
        found = joined.reshape(padded)[within].copy()
        return found

    def _in_place(self, scalars: Array) -> Array:
        """Return a view of memory in the shape in vectors, with their components last."""
        size = self.dtype.itemsize
        steps = [stride * self.components * size for stride in self.strides]
        return as_strided(scalars, (*self._vectors, self.components), (*steps, size))

    def _in_vectors(self, array: Array) -> Array:
        if self.vectorized_dim < 0:
            return array[..., np.newaxis]
        axis = self.vectorized_dim
        vectors = self._vectors
        missing = vectors[axis] * self.components - self.shape[axis]
        widths = [(0, missing if dim == axis else 0) for dim in range(array.ndim)]
        padded = np.pad(array.view(_plain(array)), widths).view(array.dtype)
        split = [*vectors[: axis + 1], self.components, *vectors[axis + 1 :]]
        return np.moveaxis(padded.reshape(split), axis + 1, -1)


def _plain(array: Array) -> str:
    """Return an integer type of the same size: NumPy pads those whatever the array's own type."""
    return f"u{array.dtype.itemsize}"


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of an array without gaps."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
