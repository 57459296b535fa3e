"""Where two arrays are not both finite in the same way."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from attrs import frozen

from polygraphy.domain.arithmetic.passes import blocks
from polygraphy.domain.arithmetic.passes.pair import Pair
from polygraphy.domain.arithmetic.passes.scratch import Scratch
from polygraphy.domain.arithmetic.passes.widen import Array, Floats, Index, Kind, Mask, unravel


@frozen
class NonFinite:
    """How many elements are NaN, +inf or -inf on one side only.

    An element that is NaN here and infinite there is counted once in `count`, and under both kinds.
    """

    size: int
    count: int
    nan: int
    posinf: int
    neginf: int
    first: Index | None
    """The first of them in C order."""


class _Row(NamedTuple):
    far: int
    nan: int
    posinf: int
    neginf: int
    first: int


_SAME = _Row(0, 0, 0, 0, -1)


def compare_non_finite(value: Array, reference: Array, *, threads: int = 1) -> NonFinite:
    """Compare the masks of NaN, of +inf and of -inf of two arrays of one shape.

    Raises:
        ValueError: the shapes differ.
        TypeError: the arrays hold no real numbers.
    """
    pair = Pair(value, reference)
    if {Kind.OTHER, Kind.COMPLEX} & {pair.value.kind, pair.reference.kind}:
        raise TypeError(f"only real numbers are looked at, not {value.dtype}, {reference.dtype}")
    rows = blocks.scan(pair.size, lambda scratch: _finder(pair, scratch), threads)
    first = next((row.first for row in rows if row.far), None)
    return NonFinite(
        pair.size,
        sum(row.far for row in rows),
        sum(row.nan for row in rows),
        sum(row.posinf for row in rows),
        sum(row.neginf for row in rows),
        None if first is None else unravel(first, pair.shape),
    )


def _finder(pair: Pair, scratch: Scratch) -> Callable[[int, int], _Row]:
    rooms = scratch.floats(), scratch.floats()

    def find(start: int, stop: int) -> _Row:
        a = pair.value.floats(start, stop, rooms[0])
        b = pair.reference.floats(start, stop, rooms[1])
        if _is_finite(a) and _is_finite(b):
            return _SAME
        nan: Mask = np.isnan(a) ^ np.isnan(b)
        posinf: Mask = np.isposinf(a) ^ np.isposinf(b)
        neginf: Mask = np.isneginf(a) ^ np.isneginf(b)
        different = nan | posinf | neginf
        count = int(np.count_nonzero(different))
        if not count:
            return _SAME
        kinds = [int(np.count_nonzero(mask)) for mask in (nan, posinf, neginf)]
        return _Row(count, kinds[0], kinds[1], kinds[2], start + int(different.argmax()))

    return find


def _is_finite(block: Floats) -> bool:
    """Return, without a mask, without a mask whether all elements are finite."""
    extremes = float(np.minimum.reduce(block)), float(np.maximum.reduce(block))
    return bool(np.isfinite(extremes).all())
