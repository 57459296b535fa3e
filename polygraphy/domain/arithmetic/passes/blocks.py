"""Blocks of numbers: any array as a vector that float64 arithmetic can use without loss, and arrays
walked in blocks that fit the cache of one core.

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
``COMPLEX``           complex numbers, summarized by their modulus
``OTHER``             strings, objects, dates, records: they are equal or they are not
====================  =======================================================================

ml_dtypes is never imported here: an array of one of its types can only exist where other code
has imported it already, and its types are known by their names.

A pass calls a worker for each block and collects what it returns, in the order of the blocks.
That order, and where the blocks begin, depend on the size alone. So the result of a pass does not
depend on the number of threads, to the last bit.

Memory for the intermediate results of a block: fresh memory is slow, because the operating system
hands it out page by page, which takes longer than the arithmetic of a block. So a pass borrows the
memory that an earlier pass has left.
"""

from __future__ import annotations

import enum
import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

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
    """The way in which the values of a data type are widened; see the table at the top of this
    module."""

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
    """Return the kind of a data type, regardless of its byte order."""
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
    """Return the kind of a data type of ml_dtypes, from its name."""
    if name.startswith(("int", "uint")):
        return Kind.NARROW
    return Kind.COMPLEX if "complex" in name else Kind.REAL


class Flat:
    """An array of any layout, read as the vector of its elements in C order.

    Contiguous and one-dimensional arrays are read in place. Of any other layout, only the requested
    block is copied. The array is never written to.
    """

    __slots__ = ("_real", "_vector", "array", "kind", "size")

    def __init__(self, array: Array) -> None:
        """View an array as a vector; nothing is copied."""
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
        """Return the elements from `start` to `stop` (exclusive) as a vector of their own type."""
        if self._vector is not None:
            return self._vector[start:stop]
        return _copy_range(self.array, start, stop, self.kind)

    def floats(self, start: int, stop: int, out: Floats) -> Floats:
        """Return the elements from `start` to `stop` as native float64: in the array's own memory,
        or in the head of `out`.

        `out` holds at least ``stop - start`` elements. Complex values are not accepted.
        """
        block = self.block(start, stop)
        return block if block.dtype == _FLOAT64 else convert(block, out)

    def reals(self, start: int, stop: int, out: Floats) -> Reals:
        """Return the elements as native float32 if it holds all values of the dtype, else float64.

        As in `floats`, in the array's own memory if possible.
        """
        block = self.block(start, stop)
        return block if block.dtype == self._real else convert(block, out.view(self._real))

    def take(self, positions: npt.NDArray[np.intp]) -> Array:
        """Return the elements at C-order `positions`, a new array of the same length."""
        if self._vector is not None:
            return self._vector.take(positions)
        picked: Array = self.array.flat[positions]
        return picked

    def item(self, position: int) -> Any:
        """Return the element at a position in C order, as a Python object if its type has one."""
        element = self.array.flat[position]
        return element.item() if hasattr(element, "item") else element


@functools.lru_cache(maxsize=256)
def _real_type(dtype: np.dtype[Any]) -> np.dtype[np.floating[Any]]:
    """Return the float type in which a data type is compared."""
    size = {Kind.NARROW: 2, Kind.REAL: 4}.get(kind_of(dtype), 0)
    return _FLOAT32 if dtype.itemsize <= size else _FLOAT64


def convert(block: Array, out: Array) -> Array:
    """Copy `block` to the head of `out` in the dtype of `out`, and return that head."""
    head = out[: block.size]
    head[...] = block
    return head


def modulus(block: Array) -> Array:
    """Return the magnitudes of complex numbers.
    The result is NaN if either part is NaN, even beside an infinity."""
    sizes: Array = np.abs(block)
    if not np.isfinite(np.maximum.reduce(sizes, initial=0)):
        np.copyto(sizes, np.nan, where=np.isnan(block))
    return sizes


@functools.lru_cache(maxsize=1024)
def unravel(position: int, shape: tuple[int, ...]) -> Index:
    """Return the index tuple of a C-order position in an array of that shape;
    ``()`` for a 0-d array."""
    index: Index = ()
    for length in shape[:0:-1]:
        position, remainder = divmod(position, length)
        index = (remainder, *index)
    return (position, *index) if shape else ()


def _copy_range(array: Array, start: int, stop: int, kind: Kind) -> Array:
    """Return a copy of the elements between two positions, in the order of the array."""
    if kind is Kind.OTHER:
        elements: Array = array.flat[start:stop]
        return elements
    # A buffered iterator is several times faster than `flat` on slices with a stride.
    out = np.empty(stop - start, array.dtype)
    # The "ranged" iterator has methods that NumPy's stubs lack.
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


class Scratch:
    """Vectors of one length for the use of one thread, with undefined contents."""

    def __init__(self, room: int) -> None:
        """Prepare memory for blocks of up to `room` elements; it is allocated on first use."""
        self.room = room
        self._floats: list[Floats] = []
        self._masks: list[Mask] = []
        self._floats_used = self._masks_used = 0

    def floats(self) -> Floats:
        """Return a vector of `room` elements that is not in use."""
        self._floats_used += 1
        if self._floats_used > len(self._floats):
            self._floats.append(np.empty(self.room))
        return self._floats[self._floats_used - 1]

    def mask(self) -> Mask:
        """Return a mask of `room` elements that is not in use."""
        self._masks_used += 1
        if self._masks_used > len(self._masks):
            self._masks.append(np.empty(self.room, np.bool_))
        return self._masks[self._masks_used - 1]

    def release(self) -> None:
        """Make all vectors and masks available again; earlier ones must not be used any more."""
        self._floats_used = self._masks_used = 0


_idle: deque[Scratch] = deque()


class borrowed_scratch:
    """Scratch memory for the duration of a pass.

    It is kept for the next pass: about 10 MiB for each thread that took part at the same time.
    """

    def __init__(self, room: int) -> None:
        """Borrow memory for blocks of up to `room` elements."""
        self._room = room

    def __enter__(self) -> Scratch:
        """Return scratch memory that this thread may use."""
        try:
            self._scratch = _idle.pop()
        except IndexError:
            self._scratch = Scratch(self._room)
        if self._scratch.room != self._room:
            self._scratch = Scratch(self._room)
        return self._scratch

    def __exit__(self, *exception: object) -> None:
        """Give the memory back for the next pass."""
        self._scratch.release()
        _idle.append(self._scratch)


Result = TypeVar("Result")
Worker = Callable[[int, int], Result]
MakeWorker = Callable[[Scratch], Worker[Result]]

BLOCK = 1 << 17
"""Elements of a block: 1 MiB of float64.

Small enough for a few vectors of that size to stay in the cache; large enough for each numpy call
to take so long (some 10 us) that threads seldom wait for the interpreter lock between two calls.
"""

SPAN = 8
"""Blocks that a thread takes at a time; neighbors, so that memory is read in long runs."""

PARALLEL = 1 << 20
"""An array of fewer elements is done before a second thread would have started."""


def scan(size: int, make_worker: MakeWorker[Result], threads: int = 1) -> list[Result]:
    """Call ``worker(start, stop)`` for each block of `size` elements, and return the results in
    block order.

    Each thread makes one worker and lends it scratch memory for blocks. At most `threads` of them
    run, and only one if there is little to do. Floating-point conditions raise no warnings within.
    """
    count = -(-size // BLOCK)
    if threads < 2 or size < PARALLEL or count < 2:
        with np.errstate(all="ignore"), borrowed_scratch(BLOCK) as scratch:
            worker = make_worker(scratch)
            return [worker(i * BLOCK, min((i + 1) * BLOCK, size)) for i in range(count)]
    return _scan_in_threads(size, count, make_worker, threads)


def _scan_in_threads(
    size: int, count: int, make_worker: MakeWorker[Result], threads: int
) -> list[Result]:
    """Return the result of a worker for each block, in order; threads share the blocks."""
    starts = iter(range(0, count, SPAN))
    lock = threading.Lock()
    results: dict[int, Result] = {}

    def scan_blocks() -> None:
        # The floating-point error state belongs to a thread, so each one sets its own.
        """Scan blocks until none is left."""
        with np.errstate(all="ignore"), borrowed_scratch(BLOCK) as scratch:
            worker = make_worker(scratch)
            for first in _share_iterator(starts, lock):
                for i in range(first, min(first + SPAN, count)):
                    results[i] = worker(i * BLOCK, min((i + 1) * BLOCK, size))

    with ThreadPoolExecutor(min(threads, -(-count // SPAN))) as pool:
        for future in [pool.submit(scan_blocks) for _ in range(threads)]:
            future.result()
    return [results[i] for i in range(count)]


def _share_iterator(items: Iterator[int], lock: threading.Lock) -> Iterator[int]:
    """Yield items of an iterator that several threads share."""
    while True:
        with lock:
            item = next(items, None)
        if item is None:
            return
        yield item
