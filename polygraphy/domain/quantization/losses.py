"""The loss of a tensor at a site, and the least possible loss with the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from polygraphy.domain.quantization.schemes import Scheme, scheme_of_range
from polygraphy.domain.quantization.sites import Site
from polygraphy.domain.tensors.aliases import Array

_SHARES = (1.0, 0.9, 0.7)
"""Shares of the range of the data that are tried: cutting off a few elements may lose less.
Chosen, not measured.
"""
_SYMMETRIC_COST = 2.5
"""A symmetric range may lose this multiple of the least loss, if the model has symmetric ranges
(chosen, not measured)."""
_DEAD = 1e-3
"""A channel whose rms is less than this share of that of the weight counts for nothing: chosen, not
measured.
"""


@frozen(eq=False)
class SiteLoss:
    """The quantization loss at a site.

    Attributes:
        loss: the RMS of the error divided by that of the tensor; for a weight, in its worst
            channel.
        least: the same with the best range for the same type and granularity.
        cut: the share of elements outside the range.
        spread: the range of the data.
        channel: the worst channel; None if there is one scale.
        best: the scheme that loses least; None if there is none.
        shared: for a weight with one scale, the loss of its worst channel, and its loss with a
            scale for each channel; None if that is not known.
        replaces_relu: whether the smallest code represents the values that a Relu set to zero.
        moved: the loss with the same scale and another zero point; None if there is none.
        count: the elements of an activation that were measured.
    """

    loss: float
    least: float
    cut: float
    spread: tuple[float, float]
    channel: int | None = None
    best: Scheme | None = field(default=None, repr=False)
    shared: tuple[float, float] | None = None
    replaces_relu: bool = False
    moved: float | None = None
    count: int = 0

    @property
    def ratio(self) -> float:
        """Return the loss relative to the smallest possible loss."""
        return self.loss / max(self.least, 1e-6)


def activation_loss(site: Site, array: Array) -> SiteLoss:
    """Return the quantization loss of an activation.

    Args:
        site: the site at which it is quantized.
        array: its elements on all data, in floating point; by channel, if each has a scale.
    """
    scheme = site.scheme
    assert scheme is not None
    axis = scheme.axis
    low, high = (float(np.min(array)), float(np.max(array))) if array.size else (0.0, 0.0)
    if not scheme.is_per_tensor:
        if array.ndim != 2 or len(array) != scheme.scale.size or scheme.block:
            return SiteLoss(0.0, 0.0, 0.0, (low, high))
        read = None if site.read is None else evolve(site.read, axis=0)
        scheme = evolve(scheme, axis=0)
        site = evolve(site, scheme=scheme, read=read)
    loss = _relative_error(site.round_trip(array) - array, array)
    bottom, top = (_broadcast_limits(limit, array) for limit in scheme.limits())
    margin = (top - bottom) / 255 / 2
    outside = (array < bottom - margin) | (array > top + margin)
    cut = float(np.mean(outside)) if array.size else 0.0
    ends = (array.min(1), array.max(1)) if not scheme.is_per_tensor else (low, high)
    best = _best_schemes(array, scheme, *ends)
    least = min((scheme for scheme, _ in best), default=loss)
    chosen = next((scheme for value, scheme in best if value <= _SYMMETRIC_COST * least), None)
    if chosen is not None:
        chosen = evolve(chosen, axis=axis)
    moved = _loss_with_other_zero(array, site) if site.read is None else None
    return SiteLoss(
        loss,
        least if site.is_missing else min(least, loss),
        cut,
        (low, high),
        None,
        chosen,
        moved=moved,
        count=array.size,
    )


def _loss_with_other_zero(array: Array, site: Site) -> float | None:
    """Return the least loss with the same scale and a zero point that aligns one end of the data
    with one end of the range; None if there is no such zero point."""
    scheme = site.scheme
    assert scheme is not None
    if scheme.stored_type.minifloat is not None or not scheme.is_per_tensor or not array.size:
        return None
    if scheme.has_invalid_scale:
        return None
    stored, scale = scheme.stored_type, float(np.ravel(scheme.scale)[0])
    ends = min(float(array.min()), 0.0), max(float(array.max()), 0.0)
    zeros = (stored.least - ends[0] / scale, stored.most - ends[1] / scale)
    losses = []
    for zero in zeros:
        code = np.clip(np.rint(zero), stored.least, stored.most)
        if code != np.ravel(scheme.zero_point)[0]:
            other_scheme = evolve(scheme, zero_point=np.full(np.shape(scheme.zero_point), code))
            losses.append(_relative_error(_round_trip(other_scheme, array) - array, array))
    return min(losses, default=None)


def _broadcast_limits(limits: Array, array: Array) -> Array:
    """Return limits (maybe per channel) in a shape that broadcasts to the array."""
    limits = np.asarray(limits)
    return limits.reshape(()) if limits.size == 1 else limits.reshape(-1, 1)


def _best_schemes(array: Array, scheme: Scheme, low: Any, high: Any) -> list[tuple[float, Scheme]]:
    """Return schemes with their losses; the model's own kind comes first."""
    is_symmetric = bool(np.all(scheme.zero_point == scheme.stored_type.middle))
    kinds = (True, False) if is_symmetric else (False, True)
    results = []
    for symmetric in kinds:
        losses = []
        for share in _SHARES:
            candidate = scheme_of_range(scheme, share * low, share * high, symmetric=symmetric)
            error = _round_trip(candidate, array) - array
            losses.append((_relative_error(error, array), candidate))
        results.append(min(losses, key=lambda values: values[0]))
    return results


def weight_loss(site: Site) -> SiteLoss | None:
    """Return the quantization loss of a weight in its worst channel, or None.
    The result is None if the float weight is unknown.
    """
    if site.exact is None or site.values is None or site.exact.shape != site.values.shape:
        return None
    exact, values = np.asarray(site.exact, np.float64), np.asarray(site.values, np.float64)
    spread = (float(exact.min()), float(exact.max())) if exact.size else (0.0, 0.0)
    if site.kind == "bias" or site.scheme is None:
        return SiteLoss(_relative_error(values - exact, exact), 0.0, 0.0, spread)
    scheme = site.scheme
    best, least = best_weight_scheme(exact, scheme)
    axes = _axes_of_group(exact, scheme)
    sizes = _rms_along(exact, axes)
    counted = np.flatnonzero(sizes > _DEAD * _rms(exact))
    if not counted.size:
        return SiteLoss(0.0, 0.0, 0.0, spread)
    losses, possible = (
        np.nan_to_num(_rms_along(array - exact, axes)[counted] / sizes[counted], nan=inf)
        for array in (values, least)
    )
    at = int(np.argmax(losses / np.maximum(possible, 1e-6)))
    loss, smallest = float(losses[at]), float(possible[at])
    number_of = None if sizes.size == 1 else int(counted[at])
    shared = None
    if scheme.is_per_tensor and site.channel_axis is not None:
        shared = _with_shared_scale(exact, values, scheme, site.channel_axis)
    return SiteLoss(loss, min(smallest, loss), 0.0, spread, number_of, best, shared)


def with_worst_channels(site: Site, most: int) -> Site:
    """Return a site with those channels of its weight that lose most, and evenly chosen others;
    the site itself if its weight is small, or its channels share a scale.

    Args:
        site: the site.
        most: about the number of elements that remain.
    """
    axis = _axis_of_channels(site)
    exact, values = site.exact, site.values
    if axis is None or exact is None or values is None or exact.size <= most:
        return site
    count, axes = exact.shape[axis], tuple(at for at in range(exact.ndim) if at != axis)
    with np.errstate(all="ignore"):
        squares = values - exact
        error = np.sum(np.square(squares, out=squares), axes)
        size = np.sum(np.square(exact, out=squares), axes)
        order = np.argsort(-np.nan_to_num(error / np.where(size, size, inf), nan=inf))
    number = max(2, most * count // exact.size)
    ats = np.union1d(order[: number // 2], np.arange(0, count, max(1, 2 * count // number)))
    return _take_channels(site, axis, ats)


def best_scheme_by_channels(site: Site, most: int) -> Scheme | None:
    """Return the scheme of equal granularity with the smallest loss for a weight, or None.
    The result is None if its float weight is unknown. At most about `most` elements are quantized
    at once, if channels do not share a scale.
    """
    axis = _axis_of_channels(site)
    if axis is None or site.exact is None:
        loss = weight_loss(site)
        return None if loss is None else loss.best
    count = site.exact.shape[axis]
    step = max(1, most * count // max(site.exact.size, 1))
    parts = (  # One at a time in memory.
        _take_channels(site, axis, np.arange(start, min(start + step, count)))
        for start in range(0, count, step)
    )
    best = [
        best_weight_scheme(np.asarray(part.exact, np.float64), part.scheme)[0]
        for part in parts
        if part.scheme is not None
    ]
    scale_axis = axis if best[0].block else 0
    scale, zero = (
        np.concatenate([np.asarray(getattr(scheme, name)) for scheme in best], scale_axis)
        for name in ("scale", "zero_point")
    )
    return evolve(best[0], scale=scale, zero_point=zero)


def _axis_of_channels(site: Site) -> int | None:
    """Return the axis of a weight along which no elements share a scale, or None.
    The result is None if there is none, or the float weight is unknown."""
    scheme, exact, values = site.scheme, site.exact, site.values
    if scheme is None or exact is None or values is None or exact.shape != values.shape:
        return None
    axes = _axes_of_group(exact, scheme)
    if len(axes) != exact.ndim - 1:
        return None
    axis = next(at for at in range(exact.ndim) if at not in axes)
    count = exact.shape[axis]
    shape = tuple(exact.shape) if scheme.block else (count,)
    numbers = [scheme.scale, scheme.zero_point]
    scale_axis = axis if scheme.block else 0
    if any(
        np.size(array) > 1
        and (np.ndim(array) != len(shape) or np.shape(array)[scale_axis] != count)
        for array in numbers
    ):
        return None
    return axis


def _take_channels(site: Site, axis: int, channels: Array) -> Site:
    """Return a site with some channels of its weight."""
    scheme, exact, values, codes = site.scheme, site.exact, site.values, site.codes
    assert scheme is not None and exact is not None and values is not None
    scale_axis = axis if scheme.block else 0
    scale, zero = (
        np.take(array, channels, scale_axis) if np.size(array) > 1 else array
        for array in (scheme.scale, scheme.zero_point)
    )
    return evolve(
        site,
        scheme=evolve(scheme, scale=scale, zero_point=zero),
        exact=np.take(exact, channels, axis),
        values=np.take(values, channels, axis),
        codes=(
            None if codes is None or codes.shape != exact.shape else np.take(codes, channels, axis)
        ),
    )


def _with_shared_scale(
    exact: Array, values: Array, scheme: Scheme, axis: int
) -> tuple[float, float] | None:
    """Return the loss of a weight's worst channel, and its loss with its own scale, or None.
    The result is None if that cannot be compared."""
    if exact.ndim < 2 or scheme.stored_type.minifloat is not None:
        return None
    rows, read = (
        np.moveaxis(array, axis, 0).reshape(exact.shape[axis], -1) for array in (exact, values)
    )
    unit_scales = np.ones(len(rows))
    like = evolve(scheme, scale=unit_scales, zero_point=0 * unit_scales, axis=0)
    own_scheme = scheme_of_range(like, rows.min(1), rows.max(1), symmetric=True)
    sizes = _rms_along(rows, (1,))
    counted = sizes > _DEAD * _rms(exact)
    if not counted.any():
        return None
    shared, separate = (
        (_rms_along(array - rows, (1,)) / np.where(counted, sizes, 1))[counted]
        for array in (read, own_scheme.values(own_scheme.codes(rows)))
    )
    return max(zip(shared.tolist(), separate.tolist()))


def best_weight_scheme(exact: Array, scheme: Scheme) -> tuple[Scheme, Array]:
    """Return the scheme with the smallest loss for a weight, and the dequantized weight.
    The scheme has the same granularity.
    """
    is_symmetric = bool(np.all(scheme.zero_point == scheme.stored_type.middle))
    low, high = _extremes(exact, scheme)
    candidates = [
        scheme_of_range(scheme, share * low, share * high, symmetric=symmetric)
        for symmetric in dict.fromkeys((True, is_symmetric))
        for share in _SHARES
    ]
    if scheme.block and scheme.stored_type.minifloat is None:
        # The largest number is the least code, which is one step further from zero.
        extreme = np.where(-low > high, low, high)
        steps = extreme / (scheme.stored_type.least - scheme.stored_type.middle)
        steps = np.where(steps, steps, 1.0).reshape(np.shape(scheme.scale))
        middle = np.full(np.shape(steps), float(scheme.stored_type.middle))
        candidates.append(Scheme(scheme.dtype, steps, middle, scheme.axis, scheme.block))
    error, best, least = inf, scheme, exact
    for candidate in candidates:  # Only the values of the best candidate remain in memory.
        values = _round_trip(candidate, exact)
        remaining_error = _rms(values - exact)
        if remaining_error < error or best is scheme:
            error, best, least = remaining_error, candidate, values
    return best, least


def _round_trip(scheme: Scheme, array: Array) -> Array:
    """Return an array after it was quantized and dequantized."""
    return scheme.values(scheme.codes(array))


def _extremes(exact: Array, scheme: Scheme) -> tuple[Array, Array]:
    """Return, by scale, the smallest and the largest of the elements that share the scale."""
    if scheme.is_per_tensor:
        shape = np.shape(scheme.scale)
        return np.full(shape, exact.min()), np.full(shape, exact.max())
    axis = scheme.axis % exact.ndim
    if scheme.block:
        starts = range(0, exact.shape[axis], scheme.block)
        return (
            np.minimum.reduceat(exact, [*starts], axis),
            np.maximum.reduceat(exact, [*starts], axis),
        )
    ats = tuple(at for at in range(exact.ndim) if at != axis)
    return exact.min(ats), exact.max(ats)


def _axes_of_group(exact: Array, scheme: Scheme) -> tuple[int, ...]:
    """Return the axes of the elements that are judged together:
    all without channels, all but the channel axis, or, with blocks, all but the axis without
    blocks."""
    if scheme.is_per_tensor:
        return tuple(range(exact.ndim))
    axis = scheme.axis % exact.ndim
    if scheme.block:
        axis = next((at for at in range(exact.ndim) if at != axis), axis)
    return tuple(at for at in range(exact.ndim) if at != axis)


def _rms_along(array: Array, axes: tuple[int, ...]) -> Array:
    """Return the root mean square over some axes, flattened over the remaining ones.
    The result is 0 for an empty array."""
    if not array.size:
        return np.zeros(1)
    return np.atleast_1d(np.sqrt(np.mean(np.square(array), axes))).reshape(-1)


def _rms(array: Array) -> float:
    """Return the root mean square of an array; 0 if it is empty."""
    return float(np.sqrt(np.mean(np.square(array)))) if array.size else 0.0


def _relative_error(error: Array, array: Array) -> float:
    """Return the RMS of an error relative to that of an array.
    The result is infinite if the error is not finite."""
    with np.errstate(all="ignore"):
        size, off = _rms(array), _rms(error)
    if not np.isfinite(off):
        return inf
    return off / size if size else float(off > 0)


def with_exact(site: Site, exact: Array | None) -> Site:
    """Return a site with its floating-point weight."""
    return evolve(site, exact=exact)


def sample_elements(arrays: Sequence[Array], most: int = 1 << 16, axis: int | None = None) -> Array:
    """Return activation elements over several inputs:
    all, or at most `most`, including the smallest and largest; with an axis, one row for each
    channel.
    """
    if axis is not None:
        rows = [np.moveaxis(np.asarray(array, np.float64), axis, 0) for array in arrays]
        joined = np.concatenate([row.reshape(len(row), -1) for row in rows], 1)
        joined = joined[:, np.isfinite(joined).all(0)]
        step = max(1, -(-joined.size // most))
        ends = np.stack([joined.min(1), joined.max(1)], 1) if joined.size else joined[:, :0]
        return np.asarray(np.concatenate([joined[:, ::step], ends], 1) if step > 1 else joined)
    flat = np.concatenate([np.asarray(array, np.float64).reshape(-1) for array in arrays])
    flat = flat[np.isfinite(flat)]
    if flat.size <= most:
        return np.asarray(flat)
    limits = [flat.min(), flat.max()]
    return np.asarray(np.concatenate([flat[:: -(-flat.size // most)], limits]))
