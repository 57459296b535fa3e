"""Integers of the weight of a product, with which it computes exactly what is expected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

_MOST = 4_000_000
"""Elements of the largest system of equations that is solved. Chosen, not measured."""
_PAIRS = 64
"""Pairs of exchanged inputs that are tried. Chosen, not measured."""


def solve_channels(weight: Any, own: Any, wanted: Any, rows: Any | None) -> Iterator[Any]:
    """Yield weights of a product that give the expected result: with channels in another order, in
    another layout, with other elements, or as the solution of a system of equations.

    Args:
        weight: the integers, by output channel.
        own: the result for this weight, by channel.
        wanted: the expected result.
        rows: the numbers by which the elements of each channel are multiplied, one row for each
            element of the result; None if they are unknown.
    """
    channel_numbers = {channel.tobytes(): at for at, channel in enumerate(own)}
    differing = [at for at in range(len(own)) if not np.array_equal(own[at], wanted[at])]
    sources = {at: channel_numbers.get(wanted[at].tobytes()) for at in differing}
    solved = weight.astype(np.int64)
    for at, source in sources.items():
        if source is not None:
            solved[at] = weight[source]
    left = [at for at in differing if sources[at] is None]
    if not left:
        yield solved
        return
    if rows is None:
        return
    apart = wanted.astype(np.int64) - own.astype(np.int64)
    for layout in _other_layouts(weight.astype(np.int64), rows, apart, left[0]):
        if np.array_equal((layout - weight) @ rows.T, apart):
            yield layout
    limits = np.iinfo(weight.dtype)
    for at in list(left):
        change = _change_of_one_element(rows, apart[at])
        if change is not None:
            solved[at] += change
            left.remove(at)
    if left and rows.size <= _MOST and len(rows) >= rows.shape[1]:
        system = rows.astype(np.float64)
        least = np.linalg.lstsq(system, apart[left].T.astype(np.float64), rcond=None)[0]
        solved[left] = weight[left] + np.rint(least.T).astype(np.int64)
    if limits.min <= solved.min() and solved.max() <= limits.max:
        yield solved


def _change_of_one_element(rows: Any, apart: Any) -> Any | None:
    """Return the change of one element of a channel that explains its difference; None if there is
    none."""
    sizes = np.square(rows).sum(axis=0)
    steps = np.rint(apart @ rows / np.maximum(sizes, 1)).astype(np.int64)
    fitting = np.flatnonzero((rows * steps == apart[:, np.newaxis]).all(axis=0) & (steps != 0))
    if not fitting.size:
        return None
    change = np.zeros(rows.shape[1], np.int64)
    change[fitting[0]] = steps[fitting[0]]
    return change


def _other_layouts(weight: Any, rows: Any, apart: Any, channel: int) -> Iterator[Any]:
    """Yield a weight transposed, moved along its inputs, and with two exchanged inputs."""
    if weight.shape[0] == weight.shape[1]:
        yield weight.T
    for other in (np.roll(weight, 1, 1), np.roll(weight, -1, 1), weight[:, ::-1], weight[::-1]):
        yield other
    if weight.shape[1] ** 2 > _MOST:
        return
    column = weight[channel]
    steps = column[np.newaxis, :] - column[:, np.newaxis]
    fits = steps != 0
    for row, difference in zip(rows, apart[channel]):
        fits &= (row[:, np.newaxis] - row[np.newaxis, :]) * steps == difference
    for first, second in np.argwhere(np.triu(fits))[:_PAIRS]:
        other = weight.copy()
        other[:, [first, second]] = weight[:, [second, first]]
        yield other
