"""The rounding limit of each part of an output, and the errors of its elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.domain.arithmetic.summary import root_mean_square
from polygraphy.domain.sizes import Sizes, elements_of, in_words, pieces_of
from polygraphy.domain.tensors.aliases import Array

_MANY = 16
"""Fewer elements can be equal by chance. Chosen, not measured."""
_STEP = 1.01
"""Steps by which two quantized sides may differ, if they decide for neighboring steps: one, plus
rounding."""
_NO_PARTS = np.zeros(0)
"""The errors of the parts of an output that is judged as a whole."""


@frozen
class PartRounding:
    """The rounding limit of a part of an output.

    Attributes:
        name: the part, such as ``scores (output[:, 4:6])``.
        size: that of its elements.
        rtol: the largest relative difference.
        atol: the largest absolute difference.
    """

    name: str
    size: float
    rtol: float
    atol: float


def limits_of(
    sizes: Sizes, rtol: float, smallest: float, *, is_bounded: bool, is_quantized: bool
) -> tuple[PartRounding, ...]:
    """Return the rounding limit of each part.

    Args:
        sizes: those of the parts.
        rtol: the rounding limit as a fraction.
        smallest: the size of a part of zeros.
        is_bounded: whether all elements lie between -1 and 1 by nature.
        is_quantized: whether both sides are quantized: a step may be decided differently.
    """
    parts = []
    for part in sizes.parts:
        size = max(part.size, 1.0) if is_bounded or part.is_bounded else part.size
        size = size or smallest
        atol = max(rtol * size, part.floor, _STEP * part.step if is_quantized else 0.0)
        parts.append(PartRounding(in_words(part), size, rtol, round_outward(atol)))
    return tuple(parts)


def limit_lost_parts(
    parts: Sequence[PartRounding], sizes: Sizes, arrays: tuple[Array, Array], epsilon: float
) -> tuple[PartRounding, ...]:
    """Return limits in which a part with numbers up to 1 is judged by its own size if a quantized
    output is constant there, although the reference varies by more than two steps of a suitable
    scale."""
    limits = list(parts)
    for number, part in enumerate(parts):
        if part.size != 1.0:  # Other parts are already judged by their own size.
            continue
        value, reference = (elements_of(array, sizes.labels, number) for array in arrays)
        if is_lost(value, reference, epsilon):
            size = float(np.sqrt(np.mean(np.square(reference, dtype=np.float64))))
            limits[number] = evolve(part, size=size, atol=round_outward(part.rtol * size))
    return tuple(limits)


def is_lost(value: Array, reference: Array, epsilon: float) -> bool:
    """Return whether a quantized part of an output is constant, although the reference varies by
    more than two steps of a scale for numbers up to 1.

    Args:
        value: the elements of the part.
        reference: those of the reference.
        epsilon: the step of the scale.
    """
    if value.size < _MANY or value.min() != value.max():
        return False
    return float(reference.max()) - float(reference.min()) > 2 * epsilon


def round_outward(number: float) -> float:
    """Return a number rounded up or down to three digits, because nobody reads or types more digits
    of a tolerance."""
    return float(f"{number:.3g}")


def are_near(value: Array, reference: Array, parts: Sequence[PartRounding], labels: Array) -> bool:
    """Return whether all errors are within the absolute limit of their part,
    which is faster than judging each element; if not, the relative limit may still hold."""
    return all(
        _largest(elements_of(value, labels, number), elements_of(reference, labels, number))
        <= part.atol
        for number, part in enumerate(parts)
    )


def _largest(value: Array, reference: Array) -> float:
    """Return the largest error; NaN if there is a NaN."""
    wide = np.float64 if np.float64 in (value.dtype, reference.dtype) else np.float32
    size = 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        for pieces in pieces_of(value, reference):
            array, expected_array = (np.asarray(piece, wide) for piece in pieces)
            largest = float(np.abs(array - expected_array).max())
            if np.isnan(largest):  # Equal infinities are not an error.
                largest = float(
                    np.where(array == expected_array, 0, np.abs(array - expected_array)).max()
                )
            size = max(size, largest) if not np.isnan(largest) else largest
            if np.isnan(size):
                break
    return size


class Limits:
    """The rounding limits of the elements of a flat array, and the worst element of each part."""

    def __init__(
        self,
        limits: tuple[float, float],
        parts: Sequence[PartRounding],
        labels: Array | None,
        shape: tuple[int, ...],
    ) -> None:
        """Prepare the limits of an output, given its parts and the part number of each element."""
        self._whole, self._parts = limits, parts
        self._labels: Array | None = None
        self.off = self._worst = 0.0
        self.excesses = _NO_PARTS
        if not parts:
            return
        self.excesses, self._errors = np.zeros(len(parts)), np.zeros(len(parts))
        self._rtol = np.array([part.rtol for part in parts])
        self._atol = np.array([part.atol for part in parts])
        if labels is not None:
            self._labels = np.broadcast_to(labels, shape).reshape(-1)

    def limits_of(self, block: slice) -> tuple[Any, Any]:
        """Return the relative and absolute limits for the elements of a block."""
        if self._labels is None:
            return self._whole
        label = self._labels[block]
        return self._rtol[label], self._atol[label]

    def note(self, block: slice, ratio: Array, error: Array) -> None:
        """Record the errors of the elements of a block."""
        if self._labels is not None:
            at = int(np.argmax(ratio))
            if ratio[at] > self._worst:
                self._worst, self.off = float(ratio[at]), float(error[at])
            np.maximum.at(self.excesses, self._labels[block], ratio)
            np.maximum.at(self._errors, self._labels[block], error)

    def relative(self, largest: float, expected: Array) -> float:
        """Return the largest error divided by the RMS of the expected elements;
        if parts are judged, the largest ratio of a part's error to its size."""
        if self._labels is None:
            rms = root_mean_square(expected) if largest else 0.0
            return largest / rms if rms else (np.inf if largest else 0.0)
        is_judged = np.isfinite(self._atol)
        sizes = np.array([part.size for part in self._parts])
        shares = self._errors / np.maximum(sizes, np.finfo(np.float64).tiny)
        return float(shares[is_judged].max(initial=0.0))

    def part_at(self, position: int) -> str:
        """Return the name of the part that an element belongs to."""
        if self._labels is None:
            return ""
        return self._parts[int(self._labels[position])].name


def errors_of(
    value: Array, reference: Array, noise: Array, limits: tuple[Any, Any]
) -> tuple[Array, Array, Array]:
    """Return, by element, error as a multiple of its limit, error, whether one value is finite.
    The last is true where only one of both elements is finite.
    """
    with np.errstate(invalid="ignore"):  # Memory that was never written may hold any NaN.
        value_array, other_array = np.asarray(value, np.float64), np.asarray(reference, np.float64)
    finite = np.isfinite(other_array)
    array = np.where(finite, other_array, 0.0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        tolerance = np.maximum(limits[0] * np.abs(array), limits[1]) + noise
        error = np.abs(np.where(finite & np.isfinite(value_array), value_array - array, 0.0))
        is_equal = (value_array == other_array) | (np.isnan(value_array) & np.isnan(other_array))
        broken = ~is_equal & ~(finite & np.isfinite(value_array)) & np.isfinite(tolerance)
        ratio = np.where(error > 0, error / np.maximum(tolerance, np.finfo(np.float64).tiny), 0.0)
    return np.where(broken, np.inf, np.nan_to_num(ratio, nan=0.0, posinf=np.inf)), error, broken


def grow_limits(limits: Any, share: float) -> Any:
    """Return limits multiplied by a factor that may differ between parts."""
    return scale_limits(limits, share) if share > 1 else limits


def scale_limits(limits: Any, share: float) -> Any:
    """Return limits that are multiplied by a factor."""
    return evolve(
        limits, rtol=round_outward(share * limits.rtol), atol=round_outward(share * limits.atol)
    )
