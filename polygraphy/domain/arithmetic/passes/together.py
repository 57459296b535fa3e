"""The differences of many small arrays, formed together: the same to the last bit, in a fraction of
the time that one array after another takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from polygraphy.domain.arithmetic.passes.blocks import Floats
from polygraphy.domain.arithmetic.passes.streams import KEPT, Channel, Kernel, Pair
from polygraphy.domain.arithmetic.passes.survey import Extent
from polygraphy.domain.tensors.aliases import Array

FEWEST = 4
"""Arrays of one shape and type from which on a group is faster than one after another."""
MOST = 1 << 18
"""Elements of a group: its four matrices take 8 MiB."""


class FormedKernel(Kernel):
    """The differences of a small pair, whose vectors are rows of matrices."""

    def __init__(
        self, absolute: Floats, scale: Floats, relative: Floats, peaks: tuple[float, float]
    ) -> None:
        """Take what `load` and `relative` would compute for the whole pair; nothing else of a
        kernel is needed then.
        """
        self.start, self.stop = 0, absolute.size
        self.absolute, self.scale, self._relative = absolute, scale, relative
        self.peak, self.relative_peak = peaks

    @classmethod
    def of_row(
        cls, matrices: tuple[Floats, Floats, Floats], row: int, peaks: tuple[float, float]
    ) -> FormedKernel:
        """Return the kernel of a row of the matrices of a group."""
        absolute, scale, relative = (matrix[row] for matrix in matrices)
        return cls(absolute, scale, relative, peaks)


def form_together(pairs: Sequence[Pair]) -> list[Mapping[Channel, Extent] | None]:
    """Form the differences of small pairs in groups of one shape and type, and keep them in the
    pairs. Pairs with NaN or infinite differences, and small groups, are left as they are.

    Returns:
        By pair the extents that are known; None if its differences were not formed.
    """
    extents: list[Mapping[Channel, Extent] | None] = [None] * len(pairs)
    groups: dict[object, list[int]] = {}
    for number, pair in enumerate(pairs):
        if pair.size <= KEPT and pair.is_unformed:
            value, reference = pair.arrays
            key = pair.shape, value.dtype, reference.dtype, pair.infinities_equal
            groups.setdefault(key, []).append(number)
    for group in groups.values():
        first = pairs[group[0]]
        most = max(1, MOST // first.size)
        for start in range(0, len(group), most):
            part = group[start : start + most]
            if len(part) >= FEWEST and first.kernel_type is Kernel:
                for number, found in zip(part, _form_group([pairs[number] for number in part])):
                    extents[number] = found
    return extents


def _form_group(pairs: Sequence[Pair]) -> Sequence[Mapping[Channel, Extent] | None]:
    """Form the differences of pairs of one shape and type; see `form_together`."""
    size = pairs[0].size
    values, references = (_rows_of([pair.arrays[side] for pair in pairs]) for side in (0, 1))
    zero = Extent(0, 0, 0.0, size, 0.0)
    zeros: dict[Channel, Extent] = {"absolute": zero, "relative": zero}
    if np.array_equal(values, references) and np.isfinite(values).all():
        for row, pair in enumerate(pairs):
            pair.keep(partial(_equal_kernel, references, row))
        return [zeros] * len(pairs)
    absolute = values.astype(np.float64, copy=False)
    scale = references.astype(np.float64, copy=False)
    with np.errstate(all="ignore"):
        absolute = np.abs(np.subtract(absolute, scale))
        scale = np.abs(scale)
        quotient = np.divide(absolute, scale)
        np.fmax(quotient, 0.0, out=quotient)  # 0 / 0; other NaN belong to peaks that are NaN.
        columns = [
            each.tolist()
            for matrix in (absolute, quotient)
            for each in (np.maximum.reduce(matrix, axis=1), np.add.reduce(matrix, axis=1))
        ]
    found: list[Mapping[Channel, Extent] | None] = []
    for row, (pair, peak, total, relative_peak, relative_total) in enumerate(zip(pairs, *columns)):
        if not math.isfinite(peak):
            found.append(None)
            continue
        extents, relative = zeros, absolute
        if peak != 0:
            extents, relative = {}, quotient
            if math.isfinite(total):
                extents["absolute"] = Extent(0, 0, peak, size, total / size)
            if math.isfinite(relative_total):
                extents["relative"] = Extent(0, 0, relative_peak, size, relative_total / size)
        peaks = peak, relative_peak
        kernel = partial(FormedKernel.of_row, (absolute, scale, relative), row, peaks)
        pair.keep(kernel, (absolute, relative, row))
        found.append(extents)
    return found


def _rows_of(arrays: Sequence[Array]) -> Array:
    """Return a matrix with a row for each of several arrays of one shape and type."""
    joined = np.concatenate(arrays) if arrays[0].ndim else np.array(arrays)
    return joined.reshape(len(arrays), -1)


def _equal_kernel(references: Array, row: int) -> FormedKernel:
    """Return the kernel of a pair whose elements are equal and finite."""
    scale = np.abs(references[row].astype(np.float64))
    zeros = np.zeros(scale.size)
    return FormedKernel(zeros, scale, zeros, (0.0, 0.0))
