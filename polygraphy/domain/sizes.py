"""Sizes of the parts of an output, relative to which errors are judged.

An output has the parts that its graph says (`Layout`). If nobody knows the graph, slices along an
axis are parts if all elements of some are so small that the tolerance of the rest covers them. In
both cases constants that fill are left out: numbers that both sides have at the same places, far
outside the rest, such as the -1e9 of suppressed logits. Numbers that are not usual in masks may
have been computed, as the first bin of a spectrum is, and count a little (the last rule below).

The size of a part follows from what its computation can resolve, so that no part is held to more
than that:

- Zeros do not count, because a sparse part is computed from terms as large as its other elements.
- A few elements may be small by chance: their size is what it would be in 99 of 100 cases.
- Slices of unknown origin may be what is left where large terms cancel, if their signs are mixed
  or many of them are zero, unless both sides agree on finer digits than large terms have. An
  epsilon of the large elements is explained there; always if they are quantized, because all may
  have the same steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.domain.arithmetic.summary import root_mean_square
from polygraphy.domain.tensors.aliases import Array
from polygraphy.domain.tensors.naming import one_line
from polygraphy.domain.tensors.parts import Layout, UnresolvedError, index_text, label_parts

FAR = 16.0
"""A constant is a fill value if it is this factor larger than any other element. Chosen, not
measured."""
_NEAR_FILL = 1 / 128
"""Share of the constant within which elements of an added mask lie. Chosen, not measured."""
_MATTERS = 0.1
"""Constants are left out if their tolerance exceeds this share of the size of the other elements.
Chosen, not measured."""
_MOST_FILLS = 4
_USUAL_FILL = 1e4
"""Powers of ten from this one on, and the largest numbers of data types, are usual in masks."""
_LARGEST = (65504.0, 3.3895314e38, 3.4028235e38, 1.7976931348623157e308)
_BY_CHANCE = 0.01
"""Probability that a few elements are smaller by chance than assumed. Chosen, not measured."""
_MANY = 32
"""With at least this number of elements, their root mean square is their size."""
_ONE_SIGN, _FEW_ZEROS = 0.95, 0.25
"""Values in which terms cancel have both signs, or zeros: a smaller share of one sign, or a larger
share of zeros. Chosen, not measured."""
_RESOLVED = 1 / 16
"""Elements below this multiple of the epsilon of the whole are too small to be a difference of its
terms. Chosen, not measured."""
_WIDE = 1e-5
"""Types with a smaller epsilon, or limit, are stored as they are computed. A half-precision model
may round its tensors, and compute in float32 from there."""
_FINE = 1 / 64
"""Share of the last digit of large terms that is not left of them. Chosen, not measured."""
_ALIKE = 0.25
"""Error, relative to their size, of elements that two sides agree on. Chosen, not measured."""
_PEAK = 4.0
"""Largest element of a slice, relative to its usual ones. In half precision, 12 of 4,100 healthy
tensors of packages would fail."""
_DIGITS = 53
"""Binary digits of float64."""
_DEEPEST = 4
_MANY_APART = 8
"""Elements on either side of a gap that are two tensors, rather than chance. Chosen, not
measured."""
_BLOCK = 1 << 16


@frozen
class PartSize:
    """The typical magnitude of the elements of a part of an output.

    Attributes:
        name: the tensor that it was computed as; "" if that is not known.
        where: its place, as an index of the output; "" if it has none.
        size: in units of the output.
        floor: the least error that is explained.
        is_bounded: whether the elements lie between -1 and 1 by nature.
        step: the size of a quantization step behind the join; 0 if there is none.
    """

    name: str
    where: str
    size: float
    floor: float = 0.0
    is_bounded: bool = False
    step: float = 0.0


@frozen
class Sizes:
    """The parts of an output with their magnitudes, and the part number of each element (see
    `label_parts`)."""

    parts: Sequence[PartSize]
    labels: Array


def sizes_of(
    name: str,
    arrays: tuple[Array, Array],
    layout: Layout | None,
    rtol: float,
    epsilon: float,
    *,
    has_steps: bool = False,
) -> Sizes | None:
    """Return the parts of an output, with the typical magnitude of each, or None.
    The result is None for a single part without fill values.

    Args:
        name: the output.
        arrays: the output and its reference, of one shape.
        layout: its structure; None if unknown.
        rtol: the error that is explained, as a fraction of an element.
        epsilon: that of the data type in which it was computed.
        has_steps: whether that is a quantized one, whose steps are of the same size.
    """
    value, reference = arrays
    if reference.size < 2:
        return None
    is_known = layout is not None
    whole_layout = Layout(is_mixed=True) if layout is None else layout
    try:
        labels, leaves = label_parts(whole_layout, reference.shape)
    except UnresolvedError:
        whole_layout = Layout(is_mixed=True)
        labels, leaves = label_parts(whole_layout, reference.shape)
    if len(leaves) == 1 and leaves[0].has_unknown_parts:
        is_known, leaves = False, [evolve(leaves[0], is_mixed=True)]
    if len(leaves) == 1:
        single_sizes = _single_sizes(name, arrays, leaves[0], (rtol, epsilon), is_known=is_known)
        return (
            _with_steps(single_sizes, arrays[1], epsilon)
            if has_steps and not is_known
            else single_sizes
        )
    rms = root_mean_square(reference)
    parts = []
    for number, leaf in enumerate(leaves):
        own_array, other_array = (
            elements_of(array, labels, number) for array in (value, reference)
        )
        residual, fill = _without_fills(own_array, other_array, leaf, rtol)
        counted = other_array if residual is None else residual
        size = _typical_size(counted, rms)
        parts.append(
            PartSize(
                leaf.name,
                index_text(name, labels, number, reference.shape),
                size,
                _floor(_where_finite(own_array, counted), counted, fill, epsilon),
                leaf.is_bounded,
                leaf.step,
            )
        )
    return Sizes(parts, labels)


def _single_sizes(
    name: str,
    arrays: tuple[Array, Array],
    leaf: Layout,
    limits: tuple[float, float],
    *,
    is_known: bool,
) -> Sizes | None:
    """Return the parts of an output, with their magnitudes, if no graph shows them, or None.
    The result is None for a single part without fill values.

    Args:
        name: the output.
        arrays: the output and its reference.
        leaf: the layout of its only part.
        limits: the error that is explained, relative to an element, and the epsilon of its type.
        is_known: whether a graph shows that it has only one part.
    """
    value, reference = arrays
    rtol, epsilon = limits
    residual, fill = _without_fills(value, reference, leaf, rtol)
    counted = reference if residual is None else residual
    labels = None
    if leaf.is_mixed:
        unpadded = counted if is_known else _without_padding(value, counted)
        labels = _levels(unpadded, rtol, may_be_apart=is_known)
        counted = counted if labels is None else unpadded
    if labels is None and residual is None:
        return None
    if labels is None:
        size = _typical_size(counted, root_mean_square(reference))
        floor = _floor(_where_finite(value, counted), counted, fill, epsilon)
        part = PartSize("", "", size, floor, leaf.is_bounded)
        return Sizes([part], np.zeros((1,) * reference.ndim, np.uint8))
    parts: list[PartSize] = []
    larger = fill  # Levels are numbered from the one with the largest values.
    for number in range(int(labels.max()) + 1):
        array = elements_of(counted, labels, number)
        size = _typical_size(array, larger)
        if number and _peak(array) <= 1:
            # Values up to 1 may be probabilities, which are judged relative to 1.
            size = max(size, 1.0)
        # If the graph shows which tensors are joined, larger neighbors did not add rounding errors
        # to this part.
        terms = fill if is_known else larger
        elements = elements_of(_where_finite(value, counted), labels, number) if terms else array
        may_be_resolved = not fill and epsilon < _WIDE
        are_resolved = may_be_resolved and _are_resolved(elements, array, epsilon * terms)
        floor = 0.0 if are_resolved else _floor(elements, array, terms, epsilon)
        parts.append(PartSize("", index_text(name, labels, number, counted.shape), size, floor))
        larger = max(larger, size)
    return Sizes(parts, labels)


def _with_steps(sizes: Sizes | None, reference: Array, epsilon: float) -> Sizes | None:
    """Return parts whose limits allow the rounding step of the largest element, or None.
    The result is None without parts."""
    if sizes is None:
        return None
    step = epsilon * _peak(reference)
    return Sizes([evolve(part, floor=max(part.floor, step)) for part in sizes.parts], sizes.labels)


def _floor(value: Array, reference: Array, terms: float, epsilon: float) -> float:
    """Return the least limit for elements that may be the difference of larger terms,
    for the side with the coarser resolution."""
    for array in (reference, value) if terms else ():
        if _typical_size(array, 0.0) >= _RESOLVED * epsilon * terms and _is_like_noise(array):
            return epsilon * terms
    return 0.0


def _are_resolved(value: Array, reference: Array, unit: float) -> bool:
    """Return whether two sides agree on elements that are finer than a unit:
    a difference of larger terms is a multiple of their last digit."""
    fine = _FINE * unit
    if max(_last_digit(value), _last_digit(reference)) > fine:
        return False
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.subtract(value, reference, dtype=np.float64)
    return root_mean_square(error) <= _ALIKE * root_mean_square(reference)


def _last_digit(array: Array) -> float:
    """Return the median of the smallest powers of two that are still set in elements.
    The result is infinite if all are zero."""
    for (block,) in _blocks(array):
        counted = block[np.isfinite(block) & (block != 0)]
        if counted.size:
            mantissas, exponents = np.frexp(counted)
            bits = np.ldexp(mantissas, _DIGITS).astype(np.int64)
            return float(
                np.median(np.ldexp((bits & -bits).astype(np.float64), exponents - _DIGITS))
            )
    return math.inf


def _extremes(block: Array) -> tuple[float, float]:
    """Return the largest and the smallest finite element, at least and at most zero."""
    high, low = float(block.max(initial=0.0)), float(block.min(initial=0.0))
    if math.isfinite(high) and math.isfinite(low):
        return high, low
    finite = block[np.isfinite(block)]
    return float(finite.max(initial=0.0)), float(finite.min(initial=0.0))


def _where_finite(value: Array, counted: Array) -> Array:
    """Return a value without the elements whose reference is excluded."""
    return value if _is_all_finite(counted) else np.where(np.isfinite(counted), value, np.nan)


def _is_all_finite(array: Array) -> bool:
    """Return whether no element is NaN or infinite."""
    return all(bool(np.isfinite(block).all()) for (block,) in _blocks(array))


def flat_elements(value: Any) -> Array:
    """Return the elements of a tensor, or of a sequence or map of tensors, as one vector."""
    if isinstance(value, dict):
        return flat_elements(list(value.values()))
    if isinstance(value, (list, tuple)):
        parts = [np.ravel(flat_elements(part)) for part in value]
        return np.concatenate(parts) if parts else np.zeros(0)
    return np.asarray(value)


def elements_of(array: Array, labels: Array, number: int) -> Array:
    """Return the elements of a part: a view if it is a box of whole slices."""
    mask = labels == number
    index: list[slice] = []
    for axis in range(array.ndim):
        if labels.shape[axis] == 1:
            index.append(slice(None))
            continue
        other_indices = tuple(index for index in range(mask.ndim) if index != axis)
        at = np.flatnonzero(mask.any(axis=other_indices))
        index.append(slice(int(at[0]), int(at[-1]) + 1))
    if mask[tuple(s if mask.shape[a] > 1 else slice(None) for a, s in enumerate(index))].all():
        return array[tuple(index)]
    computed_array: Array = array[np.broadcast_to(mask, array.shape)]
    return computed_array


def pieces_of(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Yield arrays of one shape in flat pieces, also for views, so short that temporary arrays take
    little memory."""
    first = arrays[0]
    if not first.size:
        return
    if first.ndim < 2 or all(array.flags.c_contiguous for array in arrays):
        flat = [array.reshape(-1) for array in arrays]
        for start in range(0, first.size, _BLOCK):
            yield tuple(array[start : start + _BLOCK] for array in flat)
        return
    width = _BLOCK // first[0].size
    if not width:
        for rows in zip(*arrays):
            yield from pieces_of(*rows)
        return
    for start in range(0, len(first), width):
        yield tuple(array[start : start + width].reshape(-1) for array in arrays)


def _blocks(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Yield arrays in blocks, in float64."""
    for pieces in pieces_of(*arrays):
        with np.errstate(invalid="ignore"):  # Memory that was never written may hold any NaN.
            wide = tuple(np.asarray(piece, np.float64) for piece in pieces)
        yield wide


def _typical_size(array: Array, whole_value: float) -> float:
    """Return the size of elements, raised if their small number could make it small by chance, but
    at most to that of the whole output."""
    count = squares = 0.0
    for (block,) in _blocks(array):
        own_block = block if math.isfinite(block.sum()) else block[np.isfinite(block)]
        count += np.count_nonzero(own_block)
        squares += float(np.square(own_block).sum())
    if not count:
        return 0.0
    size = math.sqrt(squares / count)
    return max(size, min(size / _least_by_chance(int(count)), whole_value))


def _least_by_chance(count: int) -> float:
    """Return the share of its expected RMS that a sample of `count` normal numbers reaches in 99%
    of cases."""
    if count >= _MANY:
        return 1.0
    log = (math.log(_BY_CHANCE) + math.lgamma(count / 2 + 1)) / count
    return min(1.0, math.sqrt(2 / count) * math.exp(log))


def _peak(array: Array) -> float:
    """Return the largest absolute value of an array."""
    peak = 0.0
    for (block,) in _blocks(array):
        high, low = _extremes(block)
        peak = max(peak, high, -low)
    return peak


def _without_fills(
    value: Array, reference: Array, leaf: Layout, rtol: float
) -> tuple[Array | None, float]:
    """Return the reference with NaN for fill values (or None), and the largest fill value.
    That fill value may have been computed. The reference is None if there are no relevant fill
    values.
    """
    residual: Array | None = None
    computed = 0.0
    for _ in range(0 if leaf.is_pure and not leaf.fills else _MOST_FILLS):
        array = reference if residual is None else residual
        fill = _fill_of(value, array, leaf.fills, rtol)
        if fill is None:
            break
        if not _is_usual(fill) and not _is_among(fill, leaf.fills):
            computed = max(computed, abs(fill))
        wide = np.asarray(array, np.float64)
        residual = np.where(np.abs(wide - fill) <= abs(fill) * _NEAR_FILL, np.nan, wide)
    return residual, computed


def _without_padding(value: Array, reference: Array) -> Array:
    """Return a reference with NaN in slices that are one constant in both arrays,
    such as the missing rows of a detector: they would hide the sizes of the others."""
    for axis in range(reference.ndim):
        count = reference.shape[axis]
        if count < 3 or reference.size < 2 * count:
            continue
        others = tuple(index for index in range(reference.ndim) if index != axis)
        low = reference.min(axis=others)
        constant = low == reference.max(axis=others)
        if constant.all() or np.count_nonzero(constant) < 2:
            continue
        numbers, counts = np.unique(low[constant], return_counts=True)
        if counts.max() < 2:
            continue
        padding = constant & (low == numbers[np.argmax(counts)])
        own_rows, rows = (np.compress(padding, array, axis) for array in (value, reference))
        if np.array_equal(own_rows, rows):
            shape = [1] * reference.ndim
            shape[axis] = count
            return np.where(padding.reshape(shape), np.nan, np.asarray(reference, np.float64))
    return reference


def without_fills(value: Array, reference: Array) -> Array:
    """Return a reference with NaN where both it and the value have the same fill value."""
    residual, _ = _without_fills(value, reference, Layout(is_mixed=True), 1.0)
    return reference if residual is None else residual


def _is_among(fill: float, known_values: Sequence[float]) -> bool:
    """Return whether a fill value is nearly equal to a known one."""
    return any(abs(fill - value) <= abs(fill) * _NEAR_FILL for value in known_values)


def _is_usual(fill: float) -> bool:
    """Return whether a constant is, or nearly is, a usual fill value of masks."""
    size = abs(fill)
    power = 10.0 ** round(math.log10(size))
    return size >= _USUAL_FILL / 2 and _is_among(size, (power, power / 2, *_LARGEST))


def _fill_of(
    value: Array, reference: Array, known_values: Sequence[float], rtol: float
) -> float | None:
    """Return the most frequent constant that is far outside the other elements, or None.
    The result is None if there is none."""
    extreme = 0.0
    for (block,) in _blocks(reference):
        extreme = max((extreme, *_extremes(block)), key=abs)
    if not extreme:
        return None
    near, limit = abs(extreme) * _NEAR_FILL, abs(extreme) / FAR
    filled = remaining_size = 0
    squares = 0.0
    for own_array, array in _blocks(value, reference):
        with np.errstate(invalid="ignore"):
            far = np.abs(array - extreme) <= near
            other_array = array[~far & np.isfinite(array)]
            if np.abs(other_array).max(initial=0.0) > limit:
                # Most outputs end here in the first block.
                return None
            if not (np.abs(own_array[far] - extreme) <= near).all():
                return None
        filled += int(np.count_nonzero(far))
        counted = other_array[other_array != 0]
        remaining_size += counted.size
        squares += float(np.square(counted).sum())
    if not remaining_size or filled < (1 if _is_among(extreme, known_values) else 2):
        return None
    size = math.sqrt(squares / remaining_size)
    all_size = abs(extreme) * math.sqrt(filled / (filled + remaining_size))
    return extreme if rtol * all_size > _MATTERS * size else None


def _levels(reference: Array, rtol: float, *, may_be_apart: bool) -> Array | None:
    """Return the level number of each slice, from the largest level, or None.
    The result is None if all slices have the same level.

    Args:
        reference: the elements.
        rtol: the error that is explained, relative to an element.
        may_be_apart: whether a graph says that any element may be of another tensor.
    """
    if _peak(reference) <= 1 or reference.ndim == 0:
        # Values up to 1 may be probabilities, which are judged relative to 1.
        return None
    labels = np.zeros((1,) * reference.ndim, np.uint8)
    array, last = reference, 0
    for _ in range(_DEEPEST):
        covered_slices = _slices_below_tolerance(array, rtol)
        if covered_slices is not None:
            axis, small = covered_slices
            shape = [1] * reference.ndim
            shape[axis] = reference.shape[axis]
            small = small.reshape(shape)
        else:
            below = _elements_below_gap(array, rtol) if may_be_apart else None
            if below is None:
                break
            small = below
        last += 1
        below = np.broadcast_to(small, np.broadcast_shapes(labels.shape, small.shape))
        labels = np.where(below & (labels == last - 1), np.uint8(last), labels)
        mask = np.broadcast_to(labels == last, reference.shape)
        array = np.where(mask, np.asarray(reference, np.float64), np.nan)
    return labels if last else None


def _slices_below_tolerance(array: Array, rtol: float) -> tuple[int, Array] | None:
    """Return an axis, and a mask of its slices that are negligible beside the others; or None.

    The tolerance of the others covers their usual elements.
    """
    limit = (_PEAK if rtol < _WIDE else 1.0) * rtol * root_mean_square(array)
    for axis in range(array.ndim):
        if array.shape[axis] < 2:
            continue
        peaks = _peaks(array, axis)
        small = (peaks > 0) & (peaks <= limit)
        if small.any():
            return axis, small
    return None


def _elements_below_gap(array: Array, rtol: float) -> Array | None:
    """Return a mask of the elements that are so small that the tolerance of the others covers them,
    if no element lies between: Where and Scatter take them from another tensor. Return None if
    there are none, or too few of either."""
    counts: dict[int, int] = {}
    for (block,) in _blocks(array):
        counted = block[np.isfinite(block) & (block != 0)]
        exponents, numbers = np.unique(np.frexp(counted)[1], return_counts=True)
        for exponent, count in zip(exponents.tolist(), numbers.tolist()):
            counts[exponent] = counts.get(exponent, 0) + count
    levels = sorted(counts)
    gaps = [(b - a, a) for a, b in itertools.pairwise(levels)]
    width, last = max(gaps, default=(0, 0))
    below = sum(count for exponent, count in counts.items() if exponent <= last)
    if 2.0 ** (width - 1) < FAR or min(below, sum(counts.values()) - below) < _MANY_APART:
        return None
    limit = 2.0**last
    wide = np.abs(np.asarray(array, np.float64))
    small = (wide < limit) & (wide > 0)
    large = root_mean_square(np.where(small, np.nan, wide))
    return small if limit <= rtol * large else None


def _peaks(array: Array, axis: int) -> Array:
    """Return the largest magnitude of the finite elements in each slice."""
    rows = np.moveaxis(array, axis, 0)
    width = max(1, _BLOCK // max(1, rows[0].size))
    peaks = np.zeros(len(rows))
    for start in range(0, len(rows), width):
        block = np.abs(np.asarray(rows[start : start + width], np.float64))
        block[~np.isfinite(block)] = 0
        peaks[start : start + width] = block.reshape(len(block), -1).max(axis=1, initial=0)
    return peaks


def _is_like_noise(array: Array) -> bool:
    """Return whether elements may be differences of larger terms:
    they have both signs, or zeros."""
    positive = negative = zeros = 0
    for (block,) in _blocks(array):
        positive += int(np.count_nonzero(block > 0))
        negative += int(np.count_nonzero(block < 0))
        zeros += int(np.count_nonzero(block == 0))
    count = positive + negative
    if not count or zeros > _FEW_ZEROS * (count + zeros):
        return True
    return max(positive, negative) < _ONE_SIGN * count


def in_words(part: PartSize) -> str:
    """Return the name of a part: its tensor and position."""
    name, where = map(one_line, (part.name, part.where))
    return f"{name} ({where})" if name and where else name or where
