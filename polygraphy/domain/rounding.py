"""The judge: whether rounding explains the difference of two values of a tensor. `run --rtol auto`,
`convert --verify`, all modes of `diagnose`, and halves use this limit, and no other.

It is `rtol` of each element or `atol`, whichever is larger. `rtol` is `GROWTH` epsilons of the
coarsest type in which the output is computed; `atol` is the same relative to the size of the
output, which is 1 for a probability. The measured effect of rounding every tensor may be exceeded
by the factor `BESIDE`. The parts of an output are judged like outputs (`polygraphy.domain.sizes`).
See ``docs/tolerances.md`` for reasons and measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from polygraphy.domain.arithmetic.summary import root_mean_square
from polygraphy.domain.catalog.compute import TF32, ComputePrecision
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.part_limits import (
    Limits,
    PartRounding,
    errors_of,
    grow_limits,
    limit_lost_parts,
    limits_of,
    round_outward,
    scale_limits,
)
from polygraphy.domain.row_order import FLIPS, order_like_reference
from polygraphy.domain.sizes import sizes_of
from polygraphy.domain.tensors.aliases import IN_DOCUMENT, Array
from polygraphy.domain.tensors.naming import count_text, differing_text
from polygraphy.domain.tensors.parts import Layout
from polygraphy.domain.tensors.pickling import pickle_as
from polygraphy.domain.tensors.precision import (
    Precision,
    coarsest_type,
    epsilon_of,
    is_exact,
    is_float,
    is_float_code,
    precision_of,
)

ComputedIn = tuple["str | None", "str | None"]

GROWTH = 16.0
"""Epsilons by which one operator may be off. 1024 independent roundings in a row, of half an
epsilon each, add up to the square root of 1024 times half an epsilon."""
BESIDE = 1.5
"""Multiple of the measured effect of rounding that is accepted: the only free number, measured in
`decisions.md`."""
_NEAR = 3.0
"""If a pair of runs falls short by less than this factor, further pairs are drawn. `decisions.md`
shows pairs that differ by this factor."""
MOST = 5.0
ADDS_UP = "The differences are accumulated rounding."
ROUNDED = "The differences are within the precision of the outputs."
"""The verdict on outputs within the rounding limit of the types in which they are computed."""
LARGE = 1e-3
"""Limit of accumulated rounding relative to the size of an output, if that is more than `MOST`
times the usual limit: a more sensitive model is of no use. Chosen, not measured."""
WIDE = ("float64", "float32", TF32)
"""Types in which the effect of rounding along a model is measured by a change of its tensors."""
NOISE = 64.0
"""Multiple of the effect of moving a node's inputs by one ulp that rounding explains. Chosen, not
measured."""

_COARSE = 2.0**-11
"""Types with at least this epsilon decide differently between nearly equal numbers: float16,
bfloat16 and coarser ones."""
_MOVED = 2.0
"""Epsilons by which numbers are moved, so that each becomes another number."""
_BLOCK = 1 << 16
"""Elements that are compared at a time, so that comparing a tensor takes little memory."""

WHOLE = Layout(is_pure=True)
"""The layout of an output that is judged as one."""


@pickle_as("polygraphy.comparator.compare")
@frozen
class Rounding:
    """The rounding limit of an output: the differences that rounding explains.

    Attributes:
        dtype: the data type that it follows from, such as ``float16``.
        rtol: the largest relative difference.
        atol: the largest absolute difference, in the output's own unit; of several parts
            in the one where that is most.
        origin: the origin of the data type, in words.
        parts: the limits of the parts of the output; empty if it is judged as a whole.
        labels: by element the number of its part, of length 1 along axes along which that is the
            same; None if there are no parts.
        lowered: the precision in which one side computes operators on float32 tensors, if that is
            the reason.
    """

    dtype: str
    rtol: float
    atol: float
    origin: str
    parts: tuple[PartRounding, ...] = ()
    labels: Array | None = field(default=None, eq=False, repr=False, metadata={IN_DOCUMENT: False})
    lowered: ComputePrecision | None = None

    @staticmethod
    def of(
        precision: Precision, magnitude: float, origin: str, *, is_bounded: bool = False
    ) -> Rounding:
        """Return the limit of a precision: ``rtol = 16 epsilon`` and ``atol = rtol * magnitude``.

        Args:
            precision: the data type of the computation.
            magnitude: the root of the mean square of the reference. Where that is less than the
                data type resolves in full, the smallest number that it does stands for it.
            origin: the origin of the data type, in words.
            is_bounded: whether the elements lie between -1 and 1 by definition, so that they are as
                precise as 1 is, however small they are.
        """
        rtol = GROWTH * precision.epsilon
        scale = _error_scale(magnitude, precision, is_bounded)
        # Users read and type no more digits of a tolerance.
        return Rounding(precision.name, round_outward(rtol), round_outward(rtol * scale), origin)

    @staticmethod
    def exact_limit(dtype: str) -> Rounding:
        """Return the limit of integers, booleans and text, which is zero."""
        return Rounding(dtype, 0.0, 0.0, "whose values are exact")

    def with_accumulation(self, share: float) -> Rounding:
        """Return the limit raised by accumulated rounding, given as a multiple of the limit."""
        return self.with_accumulation_by_part([share] * max(1, len(self.parts)))

    def with_accumulation_by_part(self, errors: Sequence[float]) -> Rounding:
        """Return the limit raised by the accumulated rounding of each part,
        which is given as a multiple of the limit of that part."""
        shares = [allowance(share, self.rtol) for share in errors]
        if max(shares) <= 1:
            return self
        why = f"{self.origin}, accumulated along the model"
        items = [grow_limits(part, share) for part, share in zip(self.parts, shares)]
        scaled = grow_limits(self, max(shares))
        return evolve(_with_parts(scaled, items, self.labels), origin=why)

    def scale(self, share: float) -> Rounding:
        """Return the limit multiplied by a factor."""
        parts = tuple(scale_limits(part, share) for part in self.parts)
        rounding: Rounding = evolve(scale_limits(self, share), parts=parts)
        return rounding

    def for_part(self, part: int) -> Rounding:
        """Return the limit that judges one part only; other parts are unlimited."""
        if not self.parts:
            return self
        parts = [
            part_rounding if number == part else evolve(part_rounding, atol=np.inf)
            for number, part_rounding in enumerate(self.parts)
        ]
        return evolve(self, parts=tuple(parts))

    @property
    def largest_factor(self) -> float:
        """Return the largest factor by which accumulated rounding may raise the limit."""
        return _largest_share(self.rtol)

    @property
    def flip_share(self) -> float:
        """Return the share of integers that may differ."""
        precision = precision_of(self.dtype)
        return FLIPS if precision is not None and precision.epsilon >= _COARSE else 0.0

    def __str__(self) -> str:
        """Return the data type and the origin of the limit."""
        return f"{self.dtype}, {self.origin}"


def _with_parts(
    rounding: Rounding, parts: Sequence[PartRounding], labels: Array | None
) -> Rounding:
    """Return the limit of an output with these parts."""
    if not parts:
        return rounding
    most = max(part.atol for part in parts)
    return evolve(rounding, atol=most, parts=tuple(parts), labels=labels)


def limit_by_part(
    rounding: Rounding,
    name: str,
    arrays: tuple[Array, Array],
    layout: Layout | None,
    *,
    is_bounded: bool = False,
    is_quantized: bool = False,
) -> Rounding:
    """Return the limit of an output with a separate limit for each of its parts.

    Args:
        rounding: that of the whole.
        name: the output.
        arrays: the output and its reference, of one shape.
        layout: its structure; None if unknown.
        is_bounded: whether all elements lie between -1 and 1 by definition.
        is_quantized: whether both sides are quantized: a step may be decided differently.
    """
    precision = precision_of(rounding.dtype)
    is_one = layout is not None and layout.is_plain and layout.is_pure
    if is_one or precision is None or not all(map(is_float, arrays)):
        return rounding
    has_steps = is_exact(precision.name)
    sizes = sizes_of(name, arrays, layout, rounding.rtol, precision.epsilon, has_steps=has_steps)
    if sizes is None:
        return rounding
    smallest = rounding.atol / rounding.rtol if rounding.rtol else 0.0
    parts = limits_of(
        sizes, rounding.rtol, smallest, is_bounded=is_bounded, is_quantized=is_quantized
    )
    if has_steps:
        parts = limit_lost_parts(parts, sizes, arrays, precision.epsilon)
    return _with_parts(rounding, parts, sizes.labels)


def has_lost_part(name: str, arrays: tuple[Array, Array], layout: Layout | None) -> bool:
    """Return whether a part of an output is constant but varies in the reference,
    by more than 8-bit steps."""
    precision = precision_of("int8")
    if precision is None or arrays[0].shape != arrays[1].shape or not all(map(is_float, arrays)):
        return False
    rtol, epsilon = Rounding.of(precision, 1.0, "").rtol, precision.epsilon
    sizes = sizes_of(name, arrays, layout, rtol, epsilon, has_steps=True)
    if sizes is None:
        return False
    parts = limits_of(sizes, rtol, 0.0, is_bounded=False, is_quantized=False)
    return limit_lost_parts(parts, sizes, arrays, epsilon) != parts


def _error_scale(magnitude: float, precision: Precision, is_bounded: bool) -> float:
    """Return the magnitude that errors are relative to:
    at least the smallest number, or 1 for bounded outputs.
    """
    return max(magnitude, 1.0 if is_bounded else precision.smallest)


def rounding_between_runs(
    runs: Sequence[Mapping[str, Any]], name: str, rounding: Rounding | None, excess: float = 0.0
) -> float:
    """Return the distance between several computations of an output with perturbed rounding,
    as a multiple of its limit. A third computation is read only if the first two are close to
    explaining the difference.

    Args:
        runs: the computed runs; more than two are only requested if they may matter.
        name: the output.
        rounding: the error that rounding explains.
        excess: the error as a multiple of that.
    """
    if rounding is None or rounding.dtype not in (*WIDE, *HALF):
        return 0.0
    between_runs = 0.0
    for index in range(1, len(runs)):
        first, other_values = runs[0], runs[index]
        if name in first and name in other_values:
            difference = deviation(first[name], other_values[name], rounding=rounding)
            between_runs = max(between_runs, difference.excess)
        if not BESIDE * between_runs < excess <= _NEAR * BESIDE * between_runs:
            break
    return between_runs


def parts_beyond_limit(
    measured: Deviation, rounding: Rounding
) -> list[tuple[int, Rounding, float]]:
    """Return number, limit and error in limits of the parts that exceed their rounding limit.
    The limit is that of the part alone, and the error a multiple of it.
    """
    if not rounding.parts or len(measured.excesses) != len(rounding.parts):
        return [(0, rounding, measured.excess)]
    return [
        (number, rounding.for_part(number), excess)
        for number, excess in enumerate(measured.excesses)
        if excess > 1
    ]


def allowance(share: float, rtol: float) -> float:
    """Return the factor for the rounding limit, at least 1, from measured accumulated rounding.

    Args:
        share: the measured rounding error as a multiple of the usual one, of every tensor.
        rtol: the usual limit, as a fraction of the size of the output.
    """
    return max(1.0, min(BESIDE * share, _largest_share(rtol))) if np.isfinite(share) else 1.0


def _largest_share(rtol: float) -> float:
    """Return the largest factor for accumulated rounding."""
    return max(MOST, LARGE / rtol if rtol else 0.0)


def coarsest_between(arrays: tuple[Array, Array], compute_types: ComputedIn) -> Precision | None:
    """Return the coarsest data type in the computation of two outputs, including their own types.
    The result is None if its precision is unknown."""
    names = (array.dtype.name for array in arrays)
    return coarsest_type([*(name for name in compute_types if name), *names])


def rounding_between(
    arrays: tuple[Array, Array],
    compute_types: ComputedIn = (None, None),
    *,
    is_bounded: bool = False,
    threads: int = 1,
    name: str = "",
    layout: Layout | None = WHOLE,
) -> Rounding | None:
    """Return the rounding limit of the difference between two outputs; None if it is unknown.

    Args:
        arrays: an output and its reference, of one shape.
        compute_types: the data types in which they were computed; None where not known.
        is_bounded: whether the elements lie between -1 and 1 by definition.
        threads: most threads to use.
        name: the output.
        layout: its structure (default: one part); None if unknown.
    """
    value, reference = arrays
    known = _known_precision(value.dtype, reference.dtype, compute_types)
    if known is None:
        has_exact_types = all(is_exact(array.dtype.name) for array in arrays)
        return Rounding.exact_limit(reference.dtype.name) if has_exact_types else None
    precision, origin = known
    magnitude = root_mean_square(reference, threads=threads)
    rounding = Rounding.of(precision, magnitude, origin, is_bounded=is_bounded)
    if layout == WHOLE:
        return rounding
    is_quantized = all(name is not None and is_exact(name) for name in compute_types)
    flags = {"is_bounded": is_bounded, "is_quantized": is_quantized}
    return limit_by_part(rounding, name, arrays, layout, **flags)


@lru_cache(maxsize=256)
def _known_precision(
    dtype: np.dtype[Any], reference_dtype: np.dtype[Any], compute_types: ComputedIn
) -> tuple[Precision, str] | None:
    """Return the precision in which two outputs were computed, and its origin; or None.

    None if their values are exact or it is unknown. The result is kept, because NumPy composes the
    name of a data type each time.
    """
    names = (dtype.name, reference_dtype.name)
    precision = coarsest_type([*filter(None, compute_types), *names])
    if precision is None or all(map(is_exact, names)):
        return None
    origin = _origin(precision, names, compute_types)
    if None not in compute_types:  # A value that one side flushes to 0 is an error.
        sides = [coarsest_type((name, known or "")) for name, known in zip(names, compute_types)]
        precision = evolve(precision, smallest=min(side.smallest for side in sides if side))
    return precision, origin


def _origin(precision: Precision, names: tuple[str, str], compute_types: ComputedIn) -> str:
    """Return the reason for a data type: the computation, or the type of the outputs."""
    reported = coarsest_type(name for name in compute_types if name)
    own_type = coarsest_type(names)
    is_own = own_type is not None and own_type.epsilon >= precision.epsilon
    if is_own and None in compute_types:
        return "the type of the output, because the type of the computation is unknown"
    if reported is not None and reported.epsilon >= precision.epsilon:
        return "in which it was computed"
    return "the type of the output"


@frozen
class Deviation:
    """The difference between a tensor and its reference, judged by a rounding limit.

    Attributes:
        excess: the largest error, in multiples of what rounding explains; infinite where the shape
            or the place of a NaN or an infinity differs.
        share: the share of elements that rounding does not explain.
        count: their number.
        largest: the largest absolute error.
        relative: the same, divided by the root mean square of the reference.
        where: the index of the worst element.
        value: its value.
        expected: its value in the reference.
        broken: number of elements that are NaN or infinite in only one of the two.
        part: the part with the worst element, such as ``scores (output[:, 4:6])``; "" if the
            output is judged as one. Of several outputs, the one that is off most, or its part.
        excesses: the excess of each part; empty if it is judged as one.
        off: the absolute error of the worst element.
        is_approximation: whether the usual approximations of backends explain it.
    """

    excess: float = 0.0
    share: float = 0.0
    count: int = 0
    largest: float = 0.0
    relative: float = 0.0
    where: tuple[int, ...] = ()
    value: Any = None
    expected: Any = None
    broken: int = 0
    part: str = ""
    excesses: tuple[float, ...] = ()
    off: float = 0.0
    is_approximation: bool = False

    @property
    def is_wrong(self) -> bool:
        """Return whether neither rounding nor the usual approximations explain all elements."""
        return self.excess > 1 and not self.is_approximation

    @property
    def is_tolerable(self) -> bool:
        """Return whether rounding explains all elements."""
        return self.excess <= 1

    @property
    def has_other_form(self) -> bool:
        """Return whether the shape or the data type differs, so that no element is the worst."""
        return self.excess == np.inf and not self.where and self.value is None

    def __str__(self) -> str:
        """Return the worst element as text, with its error relative to the RMS."""
        if self.broken:
            become = "becomes" if self.broken == 1 else "become"
            count = count_text(self.broken, "element")
            return f"{count} of {self.part!r} {become} infinite or NaN"
        if self.has_other_form:
            return f"{self.part!r} has a different shape or data type"
        if not self.excess and not self.off:
            return f"{self.part!r} matches exactly"
        share = f"{100 * self.excess:.3g}% of" if self.is_tolerable else f"{self.excess:.3g} times"
        if not self.off:  # Whole numbers: equal or not.
            text = f"{self.part!r} differs in {count_text(self.count, 'element')}"
            return text if self.excess == np.inf else f"{text}, {share} what rounding explains"
        return f"{self.part!r} has an error of {self.off:.3g}, {share} the tolerance"

    def in_words(self) -> str:
        """Return the worst element as text."""
        if self.has_other_form:
            return "has a different shape or data type"
        at = f" at {list(self.where)}" if self.where else ""
        at += f", in {self.part}" if self.part else ""
        return f"is {_number(self.value)}{at}, expected {_number(self.expected)}"


def _number(value: Any) -> str:
    """Return a value as text, floats with six digits."""
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


_OTHER = Deviation(np.inf, 1.0, 1, np.inf, np.inf)
"""The deviation of values that cannot be compared."""


def deviation(
    value: Any,
    reference: Any,
    noise: Array | float = 0.0,
    rounding: Rounding | None = None,
    *,
    rtol: float | None = None,
    is_bounded: bool = False,
    is_sorted: bool = False,
) -> Deviation:
    """Return the deviation of a tensor, or of sequences and maps of tensors, from a reference.

    Args:
        value: the computed value.
        reference: the expected value.
        noise: for each element, the measured effect of moving the inputs.
        rounding: the error that rounding explains (default: in the data type of the values).
        rtol: the error that is explained instead, relative to each element and to the size of all.
        is_bounded: whether the elements lie between -1 and 1 by definition.
        is_sorted: whether the rows are sorted by a score, so that rows with nearly equal scores
            may have swapped places.
    """
    if isinstance(value, (list, tuple, dict)) or isinstance(reference, (list, tuple, dict)):
        kind = {"rounding": rounding, "rtol": rtol, "is_bounded": is_bounded}
        return _collection_deviation(value, reference, kind)
    if not isinstance(value, np.ndarray) or not isinstance(reference, np.ndarray):
        is_same = type(value) is type(reference) and bool(value == reference)
        return Deviation() if is_same else _OTHER
    if value.shape != reference.shape or _comparison_kind(value) != _comparison_kind(reference):
        return evolve(_OTHER, count=max(value.size, 1))
    if not value.size:
        return Deviation()
    if rounding is None:
        rounding = rounding_between((value, reference), is_bounded=is_bounded)
    if rtol is not None or rounding is None:
        rounding = _share_of(rtol or 0.0, reference, is_bounded)
    plain = _elementwise_deviation(value, reference, noise, rounding)
    if plain.is_wrong and is_sorted:
        again = _elementwise_deviation(
            order_like_reference(value, reference, rounding), reference, noise, rounding
        )
        return again if again.excess < plain.excess else plain
    return plain


def _share_of(rtol: float, reference: Array, is_bounded: bool) -> Rounding:
    """Return a limit that allows a share of each element, or of the RMS of all."""
    precision = precision_of(reference.dtype.name)
    if precision is None or not is_float(reference):
        return Rounding(reference.dtype.name, rtol, 0.0, "")
    scale = _error_scale(root_mean_square(reference), precision, is_bounded)
    return Rounding(precision.name, rtol, rtol * scale, "")


def _elementwise_deviation(
    value: Array, reference: Array, noise: Array | float, rounding: Rounding
) -> Deviation:
    """Return the deviation of an array, judged element by element."""
    if not is_float(reference):
        return _exact_deviation(value, reference, rounding.flip_share)
    flat, expected, unsure = (
        value.reshape(-1),
        reference.reshape(-1),
        _flat_noise(noise, value.shape),
    )
    is_even = isinstance(unsure, float)
    worst, peak, count, largest, broken = 0.0, 0, 0, 0.0, 0
    limits = Limits((rounding.rtol, rounding.atol), rounding.parts, rounding.labels, value.shape)
    for part in _blocks(flat.size):
        if np.array_equal(flat[part], expected[part]):
            continue
        array = NOISE * np.asarray(unsure if is_even else unsure[part], np.float64)
        ratio, error, is_broken = errors_of(
            flat[part], expected[part], array, limits.limits_of(part)
        )
        limits.note(part, ratio, error)
        at = int(np.argmax(ratio))
        if ratio[at] > worst:
            worst, peak = float(ratio[at]), part.start + at
        count += int(np.count_nonzero(ratio > 1))
        largest = max(largest, float(error.max()))
        broken += int(np.count_nonzero(is_broken))
    where = tuple(int(index) for index in np.unravel_index(peak, value.shape))
    return Deviation(
        worst,
        count / value.size,
        count,
        np.inf if broken else largest,
        np.inf if broken else limits.relative(largest, expected),
        where,
        value[where],
        reference[where],
        broken,
        limits.part_at(peak),
        tuple(float(excess) for excess in limits.excesses),
        limits.off if limits.excesses.size else np.inf if broken else largest,
    )


def flip_limit(value: Array, reference: Array, rounding: Rounding) -> Rounding | None:
    """Return the limit for integers if only a few of them differ, as a coarse type can break ties
    differently; None if too many differ."""
    exact_deviation = _exact_deviation(value, reference, rounding.flip_share)
    if exact_deviation.is_wrong or not exact_deviation.count:
        return None
    text = f"{exact_deviation.count} of {reference.size}"
    why = f"which can decide ties differently: {text} elements differ"
    return Rounding(rounding.dtype, 0.0, 0.0, why)


def _blocks(size: int) -> Iterator[slice]:
    """Yield slices of a flat array, so short that temporary arrays take little memory."""
    for start in range(0, size, _BLOCK):
        yield slice(start, min(start + _BLOCK, size))


def _flat_noise(noise: Array | float, shape: Sequence[int]) -> Any:
    """Return noise as a number, or as a flat array with a value for each element."""
    if isinstance(noise, float) or np.ndim(noise) == 0:
        return float(noise)
    return np.broadcast_to(noise, shape).reshape(-1)


def _comparison_kind(array: Array) -> str:
    """Return "f" for floats, "s" for strings and objects, else the kind of the data type."""
    return "f" if is_float(array) else "s" if array.dtype.kind in "OUS" else array.dtype.kind


def _exact_deviation(value: Array, reference: Array, flips: float) -> Deviation:
    """Return the deviation of an array whose elements must be equal."""
    differs = np.asarray(value != reference)
    count = int(np.count_nonzero(differs))
    if not count:
        return Deviation()
    peak = np.unravel_index(int(np.argmax(differs)), differs.shape)
    largest = 1.0
    if reference.dtype.kind in "iu" and value.dtype.kind in "iu":
        gaps = np.abs(value.astype(np.float64) - reference.astype(np.float64))
        peak = np.unravel_index(int(np.argmax(gaps)), gaps.shape)
        largest = float(gaps.max())
    where = tuple(int(index) for index in peak)
    share = count / reference.size
    excess = share / flips if flips else np.inf
    return Deviation(excess, share, count, largest, largest, where, value[peak], reference[peak])


def _collection_deviation(value: Any, reference: Any, kind: Mapping[str, Any]) -> Deviation:
    """Return the deviation of sequences and maps,
    whose members are all judged by the same limit."""
    if isinstance(value, dict) and isinstance(reference, dict):
        if value.keys() != reference.keys():
            return _OTHER
        pairs = [(value[key], reference[key]) for key in reference]
    elif isinstance(value, (list, tuple)) and isinstance(reference, (list, tuple)):
        if len(value) != len(reference):
            return _OTHER
        pairs = list(zip(value, reference))
    else:
        return _OTHER
    if pairs and all(isinstance(value, float) for pair in pairs for value in pair):
        # These are the numbers of a map, which are float32 in ONNX.
        values, expected = (np.array(pair, np.float32) for pair in zip(*pairs))
        return deviation(values, expected, **kind)
    deviations = [deviation(value, other_value, **kind) for value, other_value in pairs]
    return max(deviations, key=lambda difference: difference.excess, default=Deviation())


def move_by_epsilons(array: Any, seed: int, epsilons: float = _MOVED) -> Any:
    """Return an array with each number moved up or down at random by some epsilons.
    Other arrays are unchanged."""
    if not is_float(array) or is_float_code(array):
        return array
    rng = np.random.default_rng(seed)
    flat = array.reshape(-1)
    result = np.empty_like(flat)
    kind = np.float64 if array.dtype == np.float64 else np.float32  # Holds narrower types.
    step = kind(epsilons * epsilon_of(array.dtype))
    bits = np.frombuffer(rng.bytes(flat.size // 8 + 1), np.uint8)
    with np.errstate(over="ignore", invalid="ignore"):
        for part in _blocks(flat.size):
            before = flat[part]
            signs = np.unpackbits(bits[part.start // 8 : part.stop // 8 + 1])
            factors = signs[part.start % 8 :][: before.size].astype(kind)
            factors *= 2 * step
            factors += 1 - step
            moved = (np.asarray(before, kind) * factors).astype(array.dtype, copy=False)
            finite = np.isfinite(moved)
            result[part] = moved if finite.all() else np.where(finite, moved, before)
    return result.reshape(array.shape)


def spread(values: Sequence[Array], reference: Array) -> Array | float:
    """Return, by element, the largest distance of some values from the reference.
    The result is infinite if only one of them is finite."""
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
            is_equal = (value[part] == flat[part]) | (np.isnan(value[part]) & np.isnan(center))
            far = np.where(is_equal, 0.0, np.where(np.isnan(gap), np.inf, gap))
            widest[part] = np.maximum(widest[part], far)
    array: Array = widest.reshape(reference.shape)
    return array


def deviation_sentence(
    deviations: Mapping[str, Deviation], outputs: int, reference: str = "the reference"
) -> str:
    """Return a sentence on how many outputs differ from a reference, and the largest error."""
    if not deviations:
        return f"All outputs match those of {reference}."
    name, worst = max(deviations.items(), key=lambda item: item[1].relative)
    sentence = differing_text(len(deviations), outputs)
    return f"{sentence} from {reference}; largest error {worst.largest:.3g}, in {name!r}."
