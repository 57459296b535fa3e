"""Differences in units in the last place: in multiples of the distance between neighbours of a data
type.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from polygraphy.domain.arithmetic.passes.kernels import Kernel
from polygraphy.domain.arithmetic.passes.pair import Pair
from polygraphy.domain.arithmetic.passes.scratch import Scratch
from polygraphy.domain.arithmetic.passes.streams import RealReader, Stream
from polygraphy.domain.arithmetic.passes.widen import Array, Floats, Kind
from polygraphy.domain.arithmetic.summary import Summary, summarize_stream
from polygraphy.domain.tensors.precision import Precision


def ulp_distances(
    value: Array,
    reference: Array,
    precision: Precision | None,
    *,
    quantiles: Sequence[float] = (0.99,),
    threads: int = 1,
) -> Summary:
    """Summarise ``|a - b| / ulp(b)``, where ulp(b) is the distance between neighbours of the
    magnitude of `b` in a data type (Goldberg, 1991).

    Equal infinities are 0 apart. The arrays need not be of that data type: a float32 output may be
    measured in the float16 in which it was computed.

    Args:
        value: numbers of any data type.
        reference: numbers, of the same shape.
        precision: the data type; None for whole numbers, of which the unit is 1.
        quantiles: probabilities, each from 0 to 1.
        threads: most threads to use.

    Raises:
        ValueError: the shapes differ.
        TypeError: the arrays hold no numbers.
    """
    pair = Pair(value, reference, infinities_equal=True)
    if Kind.OTHER in (pair.value.kind, pair.reference.kind):
        raise TypeError(f"a distance in ulps is of numbers, not {value.dtype}, {reference.dtype}")
    return summarize_stream(_UlpStream(pair, precision), quantiles, threads)[0]


class _UlpStream(Stream["_UlpReader"]):
    """The distances of a pair."""

    def __init__(self, pair: Pair, precision: Precision | None) -> None:
        self.shape = pair.shape
        self.size = pair.size
        self._pair = pair
        self._precision = precision

    def reader(self, scratch: Scratch) -> _UlpReader:
        return _UlpReader(self._pair, self._precision, scratch)

    def sample(self, positions: npt.NDArray[np.intp]) -> Sequence[Floats]:
        kernel = self._pair.take(positions).kernel(Scratch(positions.size))
        kernel.load(0, positions.size)
        return (_in_ulps(kernel, self._precision, np.empty(positions.size)),)


class _UlpReader(RealReader):
    def __init__(self, pair: Pair, precision: Precision | None, scratch: Scratch) -> None:
        super().__init__(scratch)
        self._load = pair.loader(scratch)
        self._precision = precision
        self._distances = scratch.floats()

    def load(self, start: int, stop: int) -> Sequence[Floats]:
        kernel = self._load(start, stop)
        self._channels = (_in_ulps(kernel, self._precision, self._distances[: stop - start]),)
        return self._channels


def _in_ulps(kernel: Kernel, precision: Precision | None, out: Floats) -> Floats:
    if precision is None:
        np.copyto(out, kernel.absolute)
        return out
    digits = -round(math.log2(precision.epsilon))
    least = round(math.log2(precision.smallest))
    _, exponents = np.frexp(kernel.scale)
    exponents -= 1  # 2 ** exponent <= |b| < 2 ** (exponent + 1)
    np.maximum(exponents, least, out=exponents)
    np.copyto(exponents, least, where=kernel.scale == 0)
    np.ldexp(kernel.absolute, digits - exponents, out=out)
    return out
