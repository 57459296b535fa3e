"""The mean of the signed differences: what is left when errors in both directions cancel."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from polygraphy.domain.arithmetic.passes import blocks
from polygraphy.domain.arithmetic.passes.pair import Pair
from polygraphy.domain.arithmetic.passes.scratch import Scratch
from polygraphy.domain.arithmetic.passes.widen import Array, Flat, Kind


def mean_signed_error(value: Array, reference: Array, *, threads: int = 1) -> float:
    """Return the mean of ``a - b``; 0 for empty arrays, NaN if a difference is NaN.

    Integers are subtracted exactly.

    Raises:
        ValueError: the shapes differ.
        TypeError: the arrays hold no real numbers.
    """
    pair = Pair(value, reference)
    if {Kind.OTHER, Kind.COMPLEX} & {pair.value.kind, pair.reference.kind}:
        raise TypeError(f"a bias is of real numbers, not {value.dtype}, {reference.dtype}")
    if not pair.size:
        return 0.0
    sums = blocks.scan(pair.size, lambda scratch: _summer(pair, scratch), threads)
    if any(map(math.isnan, sums)) or {math.inf, -math.inf} <= set(sums):
        return math.nan
    infinite = next(filter(math.isinf, sums), None)
    return infinite if infinite is not None else math.fsum(x / pair.size for x in sums)


def _summer(pair: Pair, scratch: Scratch) -> Callable[[int, int], float]:
    load = pair.loader(scratch)
    signed, mask = scratch.floats(), scratch.mask()
    read = _comparable(pair, scratch)

    def total(start: int, stop: int) -> float:
        kernel = load(start, stop)
        room = signed[: stop - start]
        np.copyto(room, kernel.absolute)
        a, b = read(start, stop)
        np.negative(room, out=room, where=np.less(a, b, out=mask[: stop - start]))
        return float(np.add.reduce(room))

    return total


def _comparable(pair: Pair, scratch: Scratch) -> Callable[[int, int], tuple[Array, Array]]:
    """Return what reads a block of both sides in data types that NumPy compares without rounding:
    next to a float4, it would round an int8 to one.
    """
    value, reference = pair.value, pair.reference
    kinds = (value.kind, reference.kind)
    if Kind.LONG in kinds:
        return lambda start, stop: (value.block(start, stop), reference.block(start, stop))
    if Kind.WIDE in kinds and all(kind.integral for kind in kinds):
        return lambda start, stop: (_whole(value, start, stop), _whole(reference, start, stop))
    a, b = scratch.floats(), scratch.floats()
    return lambda start, stop: (value.floats(start, stop, a), reference.floats(start, stop, b))


def _whole(flat: Flat, start: int, stop: int) -> Array:
    block = flat.block(start, stop)
    return block if flat.kind is Kind.WIDE else block.astype(np.int64)
