"""Any array as a vector of numbers that float64 arithmetic can use without loss.

Every dtype belongs to one `Kind`, which says how its values widen:

====================  =======================================================================
kind                  dtypes
====================  =======================================================================
``NARROW``            bool, integers of up to 32 bits, and the int4 / int2 types of ml_dtypes:
                      each value, and each difference of two, is exact in float64
``WIDE``              int64, uint64: float64 holds them to 53 bits, so they need care
``REAL``              float16, float32, float64, and the bfloat16, float8, float6 and float4
                      types of ml_dtypes: exact in float64
``LONG``              longdouble, where it is wider than float64
``COMPLEX``           complex numbers, summarised by their modulus
``OTHER``             strings, objects, dates, records: they are equal or they are not
====================  =======================================================================

ml_dtypes is never imported here: an array of one of its types can only exist where other code
has imported it already, and its types are known by their names.
"""

from __future__ import annotations

import enum
import functools
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Reals: TypeAlias = npt.NDArray[np.floating[Any]]
"""Values that float64 holds, in float64 or in float32 if that holds them too."""
Mask: TypeAlias = npt.NDArray[np.bool_]
Index: TypeAlias = tuple[int, ...]

_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)


class Kind(enum.Enum):
    """How the values of a dtype widen; see the table at the top of this module."""

    NARROW = enum.auto()
    WIDE = enum.auto()
    REAL = enum.auto()
    LONG = enum.auto()
    COMPLEX = enum.auto()
    OTHER = enum.auto()

    @property
    def integral(self) -> bool:
        """Whether every value is a whole number."""
        return self is Kind.NARROW or self is Kind.WIDE


@functools.lru_cache(maxsize=256)
def kind_of(dtype: np.dtype[Any]) -> Kind:
    """Classify a dtype; its byte order does not matter."""
    if dtype.type.__module__.partition(".")[0] == "ml_dtypes":
        return _extension_kind(dtype.name)
    if dtype.kind in "biu":
        return Kind.NARROW if dtype.itemsize < 8 else Kind.WIDE
    if dtype.kind == "f":
        return Kind.REAL if np.finfo(dtype).nmant <= 52 else Kind.LONG
    return Kind.COMPLEX if dtype.kind == "c" else Kind.OTHER


def _extension_kind(name: str) -> Kind:
    # The kind letters of extension types differ between releases of ml_dtypes (float8_e5m2 is
    # "f", its siblings are "V"); the names have not changed.
    if name.startswith(("int", "uint")):
        return Kind.NARROW
    return Kind.COMPLEX if "complex" in name else Kind.REAL


class Flat:
    """An array of any layout, read as the vector of its elements in C order.

    Contiguous and one-dimensional arrays are read in place. Of any other layout only the block
    that is asked for is copied. The array is never written to.
    """

    __slots__ = ("_real", "_vector", "array", "kind", "size")

    def __init__(self, array: Array) -> None:
        self.array = array
        self.size: int = array.size
        self.kind = kind_of(array.dtype)
        self._real = _real_type(array.dtype)
        self._vector: Array | None = None
        if array.ndim == 1:
            self._vector = array
        elif array.flags.c_contiguous:
            self._vector = array.reshape(-1)

    def block(self, start: int, stop: int) -> Array:
        """Elements `start` to `stop` (exclusive), shape ``(stop - start,)``, in their own dtype."""
        if self._vector is not None:
            return self._vector[start:stop]
        return _copy_range(self.array, start, stop, self.kind)

    def floats(self, start: int, stop: int, out: Floats) -> Floats:
        """The same elements as native float64: the array's own memory, or the head of `out`.

        `out` holds at least ``stop - start`` elements. Complex values are not accepted.
        """
        block = self.block(start, stop)
        return block if block.dtype == _FLOAT64 else convert(block, out)

    def reals(self, start: int, stop: int, out: Floats) -> Reals:
        """The same elements as native float32, if that holds all values of the dtype, or float64.

        Like `floats`, the array's own memory where that is possible.
        """
        block = self.block(start, stop)
        return block if block.dtype == self._real else convert(block, out.view(self._real))

    def take(self, positions: npt.NDArray[np.intp]) -> Array:
        """The elements at C-order `positions`, a new array of the same length."""
        if self._vector is not None:
            return self._vector.take(positions)
        picked: Array = self.array.flat[positions]
        return picked

    def item(self, position: int) -> Any:
        """The element at C-order `position` as a Python object where there is one for its dtype."""
        element = self.array.flat[position]
        return element.item() if hasattr(element, "item") else element


@functools.lru_cache(maxsize=256)
def _real_type(dtype: np.dtype[Any]) -> np.dtype[np.floating[Any]]:
    size = {Kind.NARROW: 2, Kind.REAL: 4}.get(kind_of(dtype), 0)
    return _FLOAT32 if dtype.itemsize <= size else _FLOAT64


def convert(block: Array, out: Array) -> Array:
    """Copy `block` to the head of `out` in the dtype of `out`, and return that head."""
    head = out[: block.size]
    head[...] = block
    return head


def modulus(block: Array) -> Array:
    """``|z|`` of complex numbers; NaN where either part is NaN, even beside an infinity."""
    sizes: Array = np.abs(block)
    if not np.isfinite(np.maximum.reduce(sizes, initial=0)):
        np.copyto(sizes, np.nan, where=np.isnan(block))
    return sizes


@functools.lru_cache(maxsize=1024)
def unravel(position: int, shape: tuple[int, ...]) -> Index:
    """The index tuple of a C-order position in an array of that shape; ``()`` for a 0-d array."""
    index: Index = ()
    for length in shape[:0:-1]:
        position, remainder = divmod(position, length)
        index = (remainder, *index)
    return (position, *index) if shape else ()


def _copy_range(array: Array, start: int, stop: int, kind: Kind) -> Array:
    if kind is Kind.OTHER:
        elements: Array = array.flat[start:stop]
        return elements
    # A buffered iterator is several times faster than `flat` on slices with a stride.
    out = np.empty(stop - start, array.dtype)
    # What the stubs of numpy lack, the "ranged" iterator has.
    chunks: Any = np.nditer(
        array,
        flags=["external_loop", "buffered", "ranged"],
        op_flags=["readonly"],
        order="C",
        buffersize=stop - start,
    )
    chunks.iterrange = (start, stop)
    filled = 0
    for chunk in chunks:
        out[filled : filled + chunk.size] = chunk
        filled += chunk.size
    return out
