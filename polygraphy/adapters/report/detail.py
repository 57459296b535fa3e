"""What a page shows of an output that failed: how its elements are distributed, and what is around
the worst one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from polygraphy.domain.arithmetic import histogram
from polygraphy.domain.compare.differences import OutputCompareResult
from polygraphy.domain.compare.result import CompareResult
from polygraphy.domain.report.document import plain

_BINS = 32
_AROUND = 2
_MOST = 1 << 20
"""Elements that a histogram is made of; of more, some are left out at equal distances."""

_Array = np.ndarray[Any, Any]


def detail_of(answer: CompareResult) -> Mapping[str, Any] | None:
    """Return histograms of both sides and of the differences, and the elements around the worst;
    None where there are no numbers to look at.
    """
    if not isinstance(answer, OutputCompareResult) or answer.arrays is None:
        return None
    found, expected = answer.arrays
    if found.dtype.kind in "OSUc" or expected.dtype.kind in "OSUc" or not found.size:
        return None
    worst = answer.mismatches.worst if answer.mismatches is not None else None
    detail: dict[str, Any] = {"is_sample": found.size > _MOST}
    detail |= _histograms(_thinned(found), _thinned(expected))
    if worst is not None and found.ndim:
        detail["around"] = _around(found, expected, worst.index)
    return detail


def _thinned(array: _Array) -> _Array:
    flat = array.reshape(-1)
    return np.asarray(flat[:: max(1, -(-flat.size // _MOST))], np.float64)


def _histograms(found: _Array, expected: _Array) -> dict[str, Any]:
    finite = [side[np.isfinite(side)] for side in (found, expected)]
    ends = [(float(side.min()), float(side.max())) for side in finite if side.size]
    low, high = min((a for a, _ in ends), default=0.0), max((b for _, b in ends), default=1.0)
    if not low < high or not np.isfinite(high - low):
        low, high = low - 0.5, low + 0.5
    counts = [list(histogram(side, _BINS, (low, high)).counts) for side in finite]
    with np.errstate(all="ignore"):
        difference = np.abs(found - expected)
        sizes = difference[np.isfinite(difference) & (difference > 0)]
        decades = histogram(np.log10(sizes), _BINS)
    return {
        "range": [low, high],
        "found": counts[0],
        "expected": counts[1],
        "difference": {
            "decades": [decades.edges[0], decades.edges[-1]],
            "counts": list(decades.counts),
            "equal": int(np.count_nonzero(difference == 0)),
            "not_finite": int(np.count_nonzero(~np.isfinite(difference))),
        },
    }


def _around(found: _Array, expected: _Array, index: tuple[int, ...]) -> dict[str, Any]:
    """Return the elements around an index in the last two dimensions."""
    starts = [max(0, at - _AROUND) for at in index[-2:]]
    place: tuple[Any, ...] = (
        *index[:-2],
        *(slice(start, at + _AROUND + 1) for start, at in zip(starts, index[-2:])),
    )
    return {
        "start": [*map(int, index[:-2]), *map(int, starts)],
        "found": plain(np.atleast_2d(np.asarray(found[place], np.float64)).tolist()),
        "expected": plain(np.atleast_2d(np.asarray(expected[place], np.float64)).tolist()),
    }
