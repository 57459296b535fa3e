"""The differences of many small arrays, formed together: the same to the last bit, in a fraction of
the time that one array after another takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from polygraphy.domain.arithmetic.passes.blocks import Floats
from polygraphy.domain.arithmetic.passes.streams import KEPT, Channel, Kernel, Pair
from polygraphy.domain.arithmetic.passes.survey import Extent

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


def form_together(pairs: Iterable[Pair]) -> Iterator[tuple[Pair, dict[Channel, Extent]]]:
    """Form the differences of small pairs in groups of one shape and type, and keep them in the
    pairs. Pairs with NaN or infinite differences, and small groups, are left as they are.

    Yields:
        Each pair whose differences were formed, with the extents that are known.
    """
    groups: dict[object, list[Pair]] = {}
    for pair in pairs:
        if pair.is_unformed and pair.size <= KEPT:
            dtypes = pair.value.array.dtype, pair.reference.array.dtype
            groups.setdefault((pair.shape, *dtypes, pair.infinities_equal), []).append(pair)
    for group in groups.values():
        most = max(1, MOST // group[0].size)
        for start in range(0, len(group), most):
            part = group[start : start + most]
            if len(part) >= FEWEST and group[0].kernel_type is Kernel:
                yield from _form_group(part)


def _form_group(pairs: Sequence[Pair]) -> Iterator[tuple[Pair, dict[Channel, Extent]]]:
    """Form the differences of pairs of one shape and type."""
    shape, size = pairs[0].shape, pairs[0].size
    absolute, scale = (np.empty((len(pairs), *shape)) for _ in range(2))
    for row, pair in enumerate(pairs):
        absolute[row], scale[row] = pair.value.array, pair.reference.array
    absolute, scale = (matrix.reshape(len(pairs), size) for matrix in (absolute, scale))
    with np.errstate(all="ignore"):
        np.abs(np.subtract(absolute, scale, out=absolute), out=absolute)
        np.abs(scale, out=scale)
        quotient = np.divide(absolute, scale)
        np.fmax(quotient, 0.0, out=quotient)  # 0 / 0; other NaN belong to peaks that are NaN.
        columns = [
            each.tolist()
            for matrix in (absolute, quotient)
            for each in (np.maximum.reduce(matrix, axis=1), np.add.reduce(matrix, axis=1))
        ]
    zero = Extent(0, 0, 0.0, size, 0.0)
    for row, (pair, peak, total, relative_peak, relative_total) in enumerate(zip(pairs, *columns)):
        if not math.isfinite(peak):
            continue
        extents: dict[Channel, Extent] = {"absolute": zero, "relative": zero}
        relative = absolute[row]
        if peak != 0:
            relative = quotient[row]
            extents = {}
            if math.isfinite(total):
                extents["absolute"] = Extent(0, 0, peak, size, total / size)
            if math.isfinite(relative_total):
                extents["relative"] = Extent(0, 0, relative_peak, size, relative_total / size)
        pair.keep(FormedKernel(absolute[row], scale[row], relative, (peak, relative_peak)))
        yield pair, extents
