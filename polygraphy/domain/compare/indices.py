"""The comparison function `indices`: lists of indices, such as the best classes, in which places
may shift a little.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from polygraphy.domain.arithmetic.passes.blocks import unravel
from polygraphy.domain.compare.function import PairwiseCompareFunc
from polygraphy.domain.compare.pairwise import Side
from polygraphy.domain.compare.result import CompareResult, UncomparedResult
from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.naming import PerOutput, copy_setting, value_for
from polygraphy.domain.tensors.pairing import FindOutput
from polygraphy.domain.tensors.pickling import pickle_as

Positions = npt.NDArray[np.intp]


@pickle_as("polygraphy.comparator.compare")
@frozen
class Misplaced:
    """An entry of the first run that the second run does not have nearby.

    Attributes:
        index: the index in the first run's output.
        value: the entry.
        place: its position in the second run's list, the nearest of several; None if the list lacks
            it.
    """

    index: tuple[int, ...]
    value: Any
    place: int | None


class IndicesResult(CompareResult):
    """The comparison of two lists of indices.

    Attributes:
        size: number of entries compared.
        count: the number of misplaced elements.
        first: the first of these; None when there is none.
        index_tolerance: the number of positions by which an entry may be misplaced.
    """

    def __init__(self, size: int, count: int, first: Misplaced | None, index_tolerance: int):
        """Create a result from the number of entries, of misplaced ones, and the first of these."""
        super().__init__()
        self.size = size
        self.count = count
        self.first = first
        self.index_tolerance = index_tolerance

    def __bool__(self) -> bool:
        """Return whether no entry is misplaced."""
        return self.count == 0

    def __repr__(self) -> str:
        """Return the result as text, for debugging."""
        return f"IndicesResult(size={self.size}, count={self.count}, first={self.first!r})"


class IndicesCompareFunc(PairwiseCompareFunc):
    """Compares lists of indices: the last dimension is the list, the others are batches.

    Each entry of the first run's list must be in the second run's, at most `index_tolerance` places
    away. The last `index_tolerance` entries of the first list are ignored, because they may have
    been pushed out of the second list.
    """

    label = "indices"

    def __init__(
        self,
        index_tolerance: PerOutput[int] | None = None,
        fail_fast: bool | None = None,
        find_output_func: FindOutput | None = None,
    ) -> None:
        """Set by how many positions an entry may differ: one number or one per output (default: 0).

        Raises:
            UsageError: the tolerance is not a whole number, or negative.
        """
        super().__init__(True, fail_fast, find_output_func)
        self.index_tolerance = copy_setting(index_tolerance)
        for name in self.named_outputs() | {""}:
            self._tolerance_for(name)

    def per_output_settings(self) -> tuple[PerOutput[int] | None]:
        """Return the tolerance, which may differ by output."""
        return (self.index_tolerance,)

    def check_averages(self) -> None:
        """Raise UsageError, because positions have no mean."""
        raise UsageError(
            "The comparison function indices has no metric that can be averaged.",
            hint="Use a different function, or check each iteration.",
        )

    def _tolerance_for(self, name: str) -> int:
        """Return the index tolerance of an output; raise UsageError if it is not a whole number."""
        value = value_for(self.index_tolerance, name, 0)
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
            raise UsageError(
                f"An index tolerance must be a whole number of at least 0, not {value!r}."
            )
        return int(value)

    def compare_arrays(self, value: Side, reference: Side, setting: str) -> CompareResult:
        """Return the comparison of two arrays of equal shape.
        A scalar counts as a list of one element.
        """
        tolerance = self._tolerance_for(setting)
        shape = value.array.shape or (1,)
        lists, array = _lists(value.array, shape), _lists(reference.array, shape)
        checked = shape[-1] - tolerance
        if shape[-1] and checked <= 0:
            return UncomparedResult(
                f"An index tolerance of {tolerance} is too large for lists of {shape[-1]}"
                " entries: nothing would be compared."
            )
        rows, columns = _entries_out_of_place(lists, array, tolerance)
        first = None
        if rows.size:
            row, column = int(rows[0]), int(columns[0])
            position = row * shape[-1] + column
            index = unravel(position, shape) if value.array.shape else ()
            entry = lists[row, column]
            first = Misplaced(index, _python_value(entry), _nearest(array[row], entry, column))
        size = lists.shape[0] * max(checked, 0)
        return IndicesResult(size, int(rows.size), first, tolerance)

    def __repr__(self) -> str:
        """Return the expression that creates the function."""
        return f"IndicesCompareFunc({self.index_tolerance!r})"


def _lists(array: Array, shape: tuple[int, ...]) -> Array:
    """Return an array as a batch of lists, shape ``(batch, length)``."""
    batch = int(np.prod(shape[:-1], dtype=np.int64))
    return array.reshape(batch, shape[-1])


def _entries_out_of_place(
    lists: Array, array: Array, tolerance: int
) -> tuple[Positions, Positions]:
    """Return rows and columns, in order, of entries in `lists` that are out of place in `array`.
    They are out of place if `array` lacks them within `tolerance` positions.

    The arrays are compared as a whole first; then, for each nearby position, only the entries that
    were not found yet.
    """
    length = lists.shape[1]
    rows, columns = np.nonzero(~_equal_elements(lists, array)[:, : max(length - tolerance, 0)])
    for offset in _offsets(min(tolerance, length - 1)):
        if not rows.size:
            break
        positions = columns + offset
        is_present = (positions >= 0) & (positions < length)
        nearby = array[rows, np.where(is_present, positions, 0)]
        far = ~(is_present & _equal_elements(lists[rows, columns], nearby))
        rows, columns = rows[far], columns[far]
    return rows, columns


def _offsets(most: int) -> Iterator[int]:
    """Yield -1, 1, -2, 2, ... up to `most` positions away."""
    for distance in range(1, most + 1):
        yield -distance
        yield distance


def _nearest(array: Array, entry: Any, position: int) -> int | None:
    """Return the position of an entry in a list that is nearest to `position`, or None.
    The result is None if the list lacks it."""
    positions = np.flatnonzero(_equal_elements(array, np.asarray(entry)))
    if not positions.size:
        return None
    return int(positions[np.argmin(np.abs(positions - position))])


def _equal_elements(a: Array, b: Array) -> npt.NDArray[np.bool_]:
    """Return where elements are equal, compared exactly also for signed with unsigned integers."""
    kinds = {a.dtype.kind, b.dtype.kind}
    if kinds == {"i", "u"}:  # Older versions of numpy round both to float64.
        signed, unsigned = (a, b) if a.dtype.kind == "i" else (b, a)
        alike = signed.astype(np.uint64) == unsigned.astype(np.uint64)
        return np.asarray(alike & (signed >= 0), np.bool_)
    return np.asarray(a == b, np.bool_)


def _python_value(entry: Any) -> Any:
    """Return an entry as a Python value."""
    return entry.item() if hasattr(entry, "item") else entry
