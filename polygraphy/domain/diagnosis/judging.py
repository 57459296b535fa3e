"""Whether two values of a tensor differ by more than rounding explains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.domain.tensors.precision import GROWTH, epsilon_of, is_float

Array = np.ndarray[Any, Any]

NOISE = 64.0
"""How many times what moving the inputs by an ulp does is still explained by rounding."""
_MOVED = 2.0
"""By how many epsilons numbers are moved, to be sure of another number."""
_BLOCK = 1 << 16
"""Elements that are looked at together: so judging a tensor takes little memory beside it."""


@frozen
class Deviation:
    """How far a tensor is from its reference.

    Attributes:
        excess: the largest error, in multiples of what rounding explains; infinite where the shape
            or the place of a NaN or an infinity differs.
        share: the share of elements that rounding does not explain.
        count: their number.
        largest: the largest absolute error.
        relative: the same, divided by the root mean square of the reference.
        where: the index of the worst element.
        value: what it is.
        expected: what it is in the reference.
    """

    excess: float = 0.0
    share: float = 0.0
    count: int = 0
    largest: float = 0.0
    relative: float = 0.0
    where: tuple[int, ...] = ()
    value: Any = None
    expected: Any = None

    def __bool__(self) -> bool:
        return self.excess > 1

    def in_words(self) -> str:
        """Return the worst element in words."""
        if not self.where and self.value is None:
            return "has another shape or data type"
        at = f" at {list(self.where)}" if self.where else ""
        return f"is {_number(self.value)}{at}, expected {_number(self.expected)}"


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


def deviation(
    value: Any,
    reference: Any,
    noise: Array | float = 0.0,
    epsilon: float | None = None,
    share_of_rms: float = 1.0,
) -> Deviation:
    """Compare two values of a tensor.

    Args:
        value: what is judged.
        reference: what it should be.
        noise: per element, what rounding was seen to do to it.
        epsilon: of the data type in which it was computed (default: its own).
        share_of_rms: how much of the root mean square counts beside an element's own magnitude.
    """
    if not isinstance(value, np.ndarray) or not isinstance(reference, np.ndarray):
        same = type(value) is type(reference) and _equal_lists(value, reference)
        return Deviation() if same else Deviation(np.inf, 1.0, 1, np.inf, np.inf)
    if value.shape != reference.shape or _kind(value) != _kind(reference):
        return Deviation(np.inf, 1.0, max(value.size, 1), np.inf, np.inf)
    if not value.size:
        return Deviation()
    if not is_float(reference):
        return _exact(value, reference)
    eps = max(epsilon or 0.0, epsilon_of(reference.dtype), epsilon_of(value.dtype))
    one, other, unsure = value.reshape(-1), reference.reshape(-1), _flat(noise, value.shape)
    rms = _root_mean_square(other)
    worst, place, count, largest, is_broken = -1.0, 0, 0, 0.0, False
    for part in _blocks(one.size):
        held = NOISE * np.asarray(unsure if np.isscalar(unsure) else unsure[part], np.float64)
        ratio, error, broken = _errors(one[part], other[part], held, eps, share_of_rms * rms)
        at = int(np.argmax(ratio))
        if ratio[at] > worst:
            worst, place = float(ratio[at]), part.start + at
        count += int(np.count_nonzero(ratio > 1))
        largest = max(largest, float(error.max()))
        is_broken = is_broken or bool(broken.any())
    where = tuple(int(index) for index in np.unravel_index(place, value.shape))
    return Deviation(
        worst,
        count / value.size,
        count,
        np.inf if is_broken else largest,
        np.inf if is_broken else largest / rms if rms else (np.inf if largest else 0.0),
        where,
        value[where],
        reference[where],
    )


def _errors(
    value: Array, reference: Array, noise: Array, eps: float, scale: float
) -> tuple[Array, Array, Array]:
    """Return per element the error in multiples of what is explained, the error itself, and whether
    one side alone is no number.
    """
    one, other = np.asarray(value, np.float64), np.asarray(reference, np.float64)
    finite = np.isfinite(other)
    held = np.where(finite, other, 0.0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        tolerance = GROWTH * eps * (np.abs(held) + scale) + noise
        error = np.abs(np.where(finite & np.isfinite(one), one - held, 0.0))
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        broken = ~same & ~(finite & np.isfinite(one)) & np.isfinite(tolerance)
        ratio = np.where(error > 0, error / np.maximum(tolerance, np.finfo(np.float64).tiny), 0.0)
    return np.where(broken, np.inf, np.nan_to_num(ratio, nan=0.0, posinf=np.inf)), error, broken


def _root_mean_square(array: Array) -> float:
    """Return it of the elements of a flat array that are finite; the others count as zero."""
    total = 0.0
    with np.errstate(over="ignore"):
        for part in _blocks(array.size):
            held = np.asarray(array[part], np.float64)
            total += float(np.sum(np.square(np.where(np.isfinite(held), held, 0.0))))
        return float(np.sqrt(total / array.size))


def _blocks(size: int) -> Iterator[slice]:
    """Yield parts of a flat array, so small that what is made of them takes little memory."""
    for start in range(0, size, _BLOCK):
        yield slice(start, min(start + _BLOCK, size))


def _flat(noise: Array | float, shape: Sequence[int]) -> Any:
    """Return noise as a number, or as a flat array of a number for each element."""
    return float(noise) if np.ndim(noise) == 0 else np.broadcast_to(noise, shape).reshape(-1)


def _kind(array: Array) -> str:
    return "f" if is_float(array) else "s" if array.dtype.kind in "OUS" else array.dtype.kind


def _exact(value: Array, reference: Array) -> Deviation:
    differs = np.asarray(value != reference)
    count = int(np.count_nonzero(differs))
    if not count:
        return Deviation()
    place = np.unravel_index(int(np.argmax(differs)), differs.shape)
    largest = 1.0
    if reference.dtype.kind in "iu" and value.dtype.kind in "iu":
        gaps = np.abs(value.astype(np.float64) - reference.astype(np.float64))
        place = np.unravel_index(int(np.argmax(gaps)), gaps.shape)
        largest = float(gaps.max())
    where = tuple(int(index) for index in place)
    share = count / reference.size
    return Deviation(np.inf, share, count, largest, largest, where, value[place], reference[place])


def _equal_lists(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and not any(deviation(a, b) for a, b in zip(one, other))
    return bool(one == other)


def moved(array: Any, seed: int) -> Any:
    """Return an array whose numbers are moved by about an ulp, up or down; others as they are."""
    if not is_float(array):
        return array
    rng = np.random.default_rng(seed)
    flat = array.reshape(-1)
    made = np.empty_like(flat)
    with np.errstate(over="ignore", invalid="ignore"):
        for part in _blocks(flat.size):
            wide = np.asarray(flat[part], np.float64)
            signs = rng.choice(np.array([-1.0, 1.0]), size=wide.size)
            other = wide * (1 + _MOVED * epsilon_of(array.dtype) * signs)
            made[part] = np.where(np.isfinite(other), other, wide).astype(array.dtype)
    return made.reshape(array.shape)


def spread(values: Sequence[Array], reference: Array) -> Array | float:
    """Return per element how far some values are from the reference at most; infinite where one of
    them is not finite and the reference is, or the reverse.
    """
    if not is_float(reference):
        return 0.0
    alike = [
        value.reshape(-1)
        for value in values
        if isinstance(value, np.ndarray) and value.shape == reference.shape
    ]
    flat = reference.reshape(-1)
    widest = np.zeros(flat.shape)
    for part in _blocks(flat.size):
        center = np.asarray(flat[part], np.float64)
        for value in alike:
            with np.errstate(invalid="ignore", over="ignore"):
                gap = np.abs(np.asarray(value[part], np.float64) - center)
            same = (value[part] == flat[part]) | (np.isnan(value[part]) & np.isnan(center))
            far = np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap))
            widest[part] = np.maximum(widest[part], far)
    made: Array = widest.reshape(reference.shape)
    return made


def said_of(found: Mapping[str, Deviation], outputs: int) -> str:
    """Say how many of so many outputs differ from a reference, and how."""
    if not found:
        return "All outputs match those of the reference."
    name, worst = max(found.items(), key=lambda item: item[1].relative)
    return (
        f"{len(found)} of {outputs} differ from the reference, worst {name!r}: {worst.largest:.3g}."
    )
