"""Predicted losses of sites: squares add up approximately, because losses are independent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from operator import getitem

from attrs import frozen

from polygraphy.domain.quantization.site_requests import bits_of, numbers_of

POWER_UNIT = 1 << 80
"""Powers are added as integers, multiples of this fraction: a sum that a large power was in, and no
longer is, is exact.
"""


@frozen
class MeasuredPowers:
    """The power, which is the squared loss, of each group of sites.

    Attributes:
        values: the squared loss of each group by itself.
        runs: the number of runs used.
        together: the number of groups that were only measured together with others.
    """

    values: Sequence[float]
    runs: int
    together: int = 0


def measure_powers(
    groups: Sequence[Sequence[int]],
    expected: Sequence[float],
    measure: Callable[[Sequence[int]], float],
    most: int,
    is_over: Callable[[], bool] = lambda: False,
) -> MeasuredPowers:
    """Return the measured power of each group of sites: each by itself if there are enough runs;
    else halves are divided again, the most costly first.

    Args:
        groups: sites that are switched together, in the order of the model.
        expected: the expected loss of each group, relative to others; it divides the power of
            groups that are only measured together.
        measure: returns the loss if some sites are quantized.
        most: the number of runs.
        is_over: whether the time is over.
    """
    values = [0.0] * len(groups)
    parts: list[tuple[float, int, int]] = []
    runs = 0

    def measure_part(start: int, end: int) -> None:
        """Measure the power of consecutive groups, and add it to the heap."""
        nonlocal runs
        sites = [number for group in groups[start:end] for number in group]
        runs += 1
        heappush(parts, (-(measure(sites) ** 2), start, end))

    if len(groups) <= most:
        for start in range(len(groups)):
            measure_part(start, start + 1)
    elif groups:
        measure_part(0, len(groups))
    together = 0
    while parts:
        power, start, end = heappop(parts)
        if end - start > 1 and power and runs + 2 <= most and not is_over():
            middle = (start + end) // 2
            measure_part(start, middle)
            measure_part(middle, end)
            continue
        if end - start > 1:
            together += end - start
        total = sum(expected[start:end])
        for at in range(start, end):
            share = expected[at] / total if total else 1 / (end - start)
            values[at] = -power * share
    return MeasuredPowers(values, runs, together)


class PowerSum:
    """Predicts the power, which is the squared loss, of sets of sites.

    Args:
        powers: the power of each site.
        again: by weight that a backend quantizes again, the site that its node reads, the sites
            after it, and the power that this adds.

    Attributes:
        linked: the sites around each such weight, as bits: their powers depend on each other.
    """

    def __init__(
        self,
        powers: Sequence[float],
        again: Mapping[int, tuple[int, Sequence[int], float]],
    ) -> None:
        """Set the measured power of each site, and the corrections for weights that a backend
        quantizes again."""
        self._every = (1 << len(powers)) - 1
        fixed = [int(power * POWER_UNIT) for power in powers]
        self._by_byte = [_sums(fixed[start : start + 8]) for start in range(0, len(fixed), 8)]
        self._again = {
            weight: (1 << before, bits_of(behind), int(power * POWER_UNIT))
            for weight, (before, behind, power) in again.items()
        }
        self._weights = bits_of(again)
        self.linked = [
            1 << weight | before | behind for weight, (before, behind, _) in self._again.items()
        ]

    def __call__(self, sites: int) -> float:
        """Return the expected power of a set of sites, given as bits."""
        return self.power_in_units(sites) / POWER_UNIT

    def power_in_units(self, sites: int) -> int:
        """Return the expected power of a set of sites,
        given as bits, in multiples of 1 / `POWER_UNIT`."""
        sites &= self._every
        site_bytes = sites.to_bytes(len(self._by_byte), "little")
        remaining_power = sum(map(getitem, self._by_byte, site_bytes))
        for weight in numbers_of(self._weights & ~sites):
            before, behind, power = self._again[weight]
            if sites & before and sites & behind:
                remaining_power += power
        return remaining_power


def _sums(powers: Sequence[int]) -> list[int]:
    """Return the sum of each set of up to eight powers, by the bits of the set."""
    sums = [0]
    for power in powers:
        sums += [before + power for before in sums]
    return sums
