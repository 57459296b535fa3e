"""Integers of the weight of a product, with which it computes what is expected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attrs import frozen

_MOST = 4_000_000
"""Elements of the largest system of equations that is solved. Chosen, not measured."""
_PAIRS = 64
"""Pairs of exchanged inputs that are tried. Chosen, not measured."""
_ELEMENTS = 8
"""Elements of a channel that are tried if its sums are rounded. Chosen, not measured."""
_WORK = 1 << 30
"""The most products that are computed to find single elements. Chosen, not measured."""
_ROWS = 64
"""Rows that tell which two inputs are exchanged, before all are checked. Chosen, not measured."""
_SPREAD = 8
"""The largest difference from the nearest integer that is tried then. Chosen, not measured."""


@frozen
class Factors:
    """What the elements of a weight are multiplied by.

    Attributes:
        rows: the numbers in float64, by element of the result and element of a channel.
        unit: the size of one step of the result, as a multiple of the products' sums; 1 if these
            are the result.
    """

    rows: Any
    unit: float = 1.0

    @property
    def is_exact(self) -> bool:
        """Return whether the sums are not rounded."""
        return self.unit == 1.0


def solve_channels(
    weight: Any, computed: Any, wanted: Any, factors: Factors | None = None
) -> Iterator[Any]:
    """Yield weights of a product that give the expected result:
    with channels in another order, in another layout, with other elements, or as the solution of a
    system of equations.

    Args:
        weight: the integers, with the output channels as the first axis.
        computed: the result for this weight, by channel.
        wanted: the expected result.
        factors: what the elements of each channel are multiplied by; None if that is unknown.
    """
    channels = {channel.tobytes(): at for at, channel in enumerate(computed)}
    differing = [at for at in range(len(computed)) if not np.array_equal(computed[at], wanted[at])]
    sources = {at: channels.get(wanted[at].tobytes()) for at in differing}
    solved = weight.astype(np.int64)
    for at, source in sources.items():
        if source is not None:
            solved[at] = weight[source]
    open_channels = [at for at in differing if sources[at] is None]
    if not open_channels:
        yield solved
        return
    if factors is None:
        return
    yield from _other_layouts(weight.astype(np.int64), computed, wanted, factors)
    flat = solved.reshape(len(weight), -1)
    limits = np.iinfo(weight.dtype)
    rows = factors.rows
    for at in list(open_channels) if rows.size * len(open_channels) <= _WORK else ():
        changes = _changes_of_one_element(computed[at], wanted[at], factors)
        for element, step in changes if len(open_channels) == 1 and not factors.is_exact else ():
            changed = flat.copy()
            changed[at, element] += step
            if limits.min <= changed[at, element] <= limits.max:
                yield changed.reshape(weight.shape)
        for element, step in changes[:1]:
            flat[at, element] += step
            open_channels.remove(at)
    if open_channels and factors.is_exact and rows.size <= _MOST and len(rows) >= rows.shape[1]:
        apart = wanted[open_channels].astype(np.float64) - computed[open_channels]
        least = np.linalg.lstsq(rows, apart.T, rcond=None)[0]
        flat[open_channels] += np.rint(least.T).astype(np.int64)
    if limits.min <= flat.min() and flat.max() <= limits.max:
        yield flat.reshape(weight.shape)


def _changes_of_one_element(computed: Any, wanted: Any, factors: Factors) -> list[tuple[int, int]]:
    """Return positions, with the change, of single elements that explain a channel's difference.
    The nearest ones come first.
    """
    rows, apart = factors.rows, (wanted.astype(np.float64) - computed) * factors.unit
    if not factors.is_exact:
        limits = np.iinfo(wanted.dtype)
        ends = (limits.min, limits.max)
        inside = ~np.isin(computed, ends) & ~np.isin(wanted, ends)
        rows, apart = rows[inside], apart[inside]
    if not apart.any():
        return []
    sizes = np.maximum(np.square(rows).sum(axis=0), 1)
    steps = np.rint(apart @ rows / sizes).astype(np.int64)
    remainders = np.abs(rows * steps - apart[:, np.newaxis]).max(axis=0)
    most = 0 if factors.is_exact else factors.unit
    order = [int(at) for at in np.argsort(remainders) if steps[at] and remainders[at] <= most]
    if factors.is_exact:
        return [(at, int(steps[at])) for at in order[:1]]
    # Because of rounding, a few integers are possible; running the model decides.
    spreads = {at: min(int(np.ceil(factors.unit / np.sqrt(sizes[at]))), _SPREAD) for at in order}
    return [
        (at, int(steps[at]) + more)
        for at in order[:_ELEMENTS]
        for more in sorted(range(-spreads[at], spreads[at] + 1), key=abs)
    ]


def _other_layouts(weight: Any, computed: Any, wanted: Any, factors: Factors) -> Iterator[Any]:
    """Yield a weight transposed, moved or turned, and with two exchanged inputs,
    as far as these give the expected result, if that is known without a run."""
    rows, apart = factors.rows, wanted.astype(np.int64) - computed.astype(np.int64)
    layouts = [np.roll(weight, 1, 1), np.roll(weight, -1, 1), weight[:, ::-1], weight[::-1]]
    if weight.ndim == 2 and weight.shape[0] == weight.shape[1]:
        layouts.insert(0, weight.T)
    if weight.ndim > 3:
        layouts += [weight[..., ::-1, ::-1]]
        layouts += [weight.swapaxes(-1, -2)] if weight.shape[-1] == weight.shape[-2] else []
    flat = weight.reshape(len(weight), -1)
    if factors.is_exact:
        layouts += _exchanged_inputs(weight, rows, apart)
    for layout in layouts:
        change = layout.reshape(flat.shape) - flat
        if not factors.is_exact or np.array_equal(change @ rows.T, apart):
            yield layout


def _exchanged_inputs(weight: Any, rows: Any, apart: Any) -> Iterator[Any]:
    """Yield a matrix with two exchanged inputs that gives the expected result of the first channel
    that differs."""
    if weight.ndim != 2 or weight.shape[1] ** 2 > _MOST:
        return
    [channel, *_] = np.flatnonzero(apart.any(axis=1))
    column = weight[channel]
    steps = column[np.newaxis, :] - column[:, np.newaxis]
    fits = steps != 0
    for row, difference in zip(rows[:_ROWS], apart[channel]):
        fits &= (row[:, np.newaxis] - row[np.newaxis, :]) * steps == difference
    for first, second in np.argwhere(np.triu(fits))[:_PAIRS]:
        exchanged = weight.copy()
        exchanged[:, [first, second]] = weight[:, [second, first]]
        yield exchanged
