"""Why more is lost at a site than has to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import evolve

from polygraphy.domain.quantization.losses import SiteLoss
from polygraphy.domain.quantization.schemes import Scheme
from polygraphy.domain.quantization.sites import Site
from polygraphy.domain.tensors.aliases import Array

CLIPPED, WIDE, ZERO_POINT, SIGN = "clipped range", "wide range", "zero point", "signedness"
ORDER, BIAS_CLIPPED, BIAS = "scale order", "clipped bias", "bias scale"
NIBBLES, BLOCK_ZERO, PAIR = "nibble order", "block zero point", "pair mismatch"
MISSING = "missing pair"
SCALE, CALIBRATION, WEIGHT = "scale", "calibration data", "weight"
PARAMETER_CAUSES = frozenset(
    (
        *(CLIPPED, WIDE, ZERO_POINT, SIGN, ORDER, BIAS_CLIPPED, BIAS),
        *(NIBBLES, BLOCK_ZERO, PAIR, MISSING, SCALE, CALIBRATION),
    )
)
"""Causes that are a wrong parameter of a quantized model."""

_RATIOS = {"activation": 5.0, "weight": 2.5, "operator": 2.5}
"""From this multiple of the least possible loss on, a parameter is wrong. Measured with
`lab/quantized` (48 healthy and 192 planted models of five quantizers): healthy weights and packed
operators reach 1.22, wrong ones begin at 4.64; healthy activations of 8 bits reach 2.4 with ranges
of the data (4.4 if symmetric), wrong ones begin at 5.66.
"""
_MUCH_WIDER, _WIDE_RATIO = 4.0, 2.5
"""A range with this multiple of the best scale is wrong from a smaller multiple of the least loss
on: where one channel is much larger than all others, the loss shows little of what small channels
lose. Healthy ranges of three quantizers reach 2.01 times the best scale.
"""
_CLIPPED_LOSS = 0.28
"""Calibration may cut off elements on purpose: NNCF's and ModelOpt's lose up to 0.239, 50 times the
least (seed 5, 47 healthy models); planted ranges that are too narrow begin at 0.334.
"""
_CERTAIN_LOSS = 0.5
"""No calibration gives up this much of an activation on purpose: twice the most that was measured
(0.239)."""
_CLIPPED_LOSS_IF_FAR, _FAR = 0.05, 1.5
"""The same if the data reach this multiple of an end of the range, for 16 bits, or if hardly any
other range cuts off elements: such calibrations cut off nothing on purpose, but may have seen few
samples. Healthy ranges of 16 bits lose up to 0.089 (nine models of `lab/quantized`, seeds 5120787,
8203341 and 11). The multiple is chosen, not measured.
"""
_FEW_CUT, _MANY_ELEMENTS = 0.02, 1024
"""The share of the ranges that cut off elements anyway, beside one that is wrong, and the number of
elements from which on a single wrong range is no chance: of 60 healthy models by three quantizers,
a convolution of 512 elements reaches 1.86 times its range.
"""
_LEAST_LOSS = 0.015
"""A smaller loss is never wrong: with 16 bits, a few elements that the calibration did not see are
hundreds of times the least loss (healthy: up to 0.012).
"""
_BIAS_LOSS = 0.1
"""From this loss on a bias is wrong: healthy ones, those of LayerNormalization among them, reach
0.059; planted ones begin at 0.9.
"""
_CUT = 0.002
"""A range that cuts off more than this share is too narrow (chosen, not measured); with a smaller
scale than the best one, any share.
"""
_LOST_SIGN = 0.02
"""A sign is lost if the numbers that have it reach this share of the range (chosen, not measured).
"""
_SHARE = 0.4
"""A zero point, or a cause in packed blocks, explains an error if it leaves less than this share.
Chosen, not measured."""
_ROUNDING = 2.0
"""A code that is more steps than this from the value of the reference was not rounded from it.
Chosen, not measured."""
_SCALED = 0.1
"""Another scale explains the codes of a weight if it leaves less than this share of the error.
Chosen, not measured."""
_ALIKE = 0.5
"""Scales in a different order fit if sorting both leaves at most this share of their difference.
Chosen, not measured."""
_FREE = 0.5
"""A range with a wrong zero point leaves free at one end what it cuts off at the other (1), less
what these inputs need beyond the calibration data.
"""
_GAP = 0.1, 0.2
"""Below this loss, and this share of the range that the data exceed it by, it may be that of a few
calibration samples: healthy models reach 0.041 and 0.127 (a tensor of 128 elements, six samples);
wrong zero points that lose less than 0.1 begin at 0.35 of the range.
"""
_MOVED = 0.1, 0.3
"""With this share of the range cut off at one end, and this share together with what is free at the
other end, a range is shifted: a range from few samples is too narrow at both ends. Healthy models
reach 0.084 and 0.18 (a cache of 1,024 elements, eight samples).
"""
_FEW, _CHANCE = 32, 3
"""Of so few elements over all inputs, such as those of a single score, this number may exceed the
range by chance: the largest of as many calibration values is below theirs half of the time.
"""
_PRODUCT = 0.01
"""The scale of a bias may differ from the product of the scales of its operands by this share, as
rounding does. Chosen, not measured."""
_CLOSE = 1.3
"""Two scales differ by less than this factor if only the zero point is wrong (chosen, not
measured).
"""


def cuts_on_purpose(sites: Sequence[Site], losses: Mapping[int, SiteLoss]) -> bool:
    """Return whether a calibration may have chosen ranges that cut off elements:
    ranges that do are more than a few of all."""
    numbers = [number for number in losses if sites[number].kind == "activation"]
    cut = sum(losses[number].cut > _CUT for number in numbers)
    return cut > max(1.0, _FEW_CUT * len(numbers))


def is_suspect(site: Site, loss: SiteLoss, *, cuts: bool = True) -> bool:
    """Return whether a parameter of a site is wrong.

    Args:
        site: the site.
        loss: its loss.
        cuts: whether the calibration may cut off elements on purpose.
    """
    if site.scheme is not None and site.scheme.has_invalid_scale:
        return loss.loss > 0  # A weight of zeros has the scale 0 and loses nothing.
    if site.kind == "bias":
        return site.scheme is not None and loss.loss > _BIAS_LOSS
    if site.read is not None or site.is_missing:
        return site.read is not None or loss.loss > _LEAST_LOSS
    if changed_elements(site):
        return True
    ratio = _WIDE_RATIO if _is_much_wider(site, loss) else _RATIOS[site.kind]
    is_large = loss.ratio > ratio and loss.loss > _LEAST_LOSS
    if not is_large or loss.best is None:
        return False
    if 0 < loss.count < _FEW and 0 < loss.cut * loss.count <= _CHANCE:
        return False
    cause = cause_of(site, loss)
    if cause == ZERO_POINT and site.kind == "activation" and site.scheme is not None:
        gap, free = _gap(site.scheme, loss)
        is_moved = gap > _GAP[1] or (gap > _MOVED[0] and gap + free > _MOVED[1])
        return loss.loss > _GAP[0] or is_moved
    return cause != CLIPPED or loss.loss > _clipped_loss(site, loss, cuts=cuts)


def _is_much_wider(site: Site, loss: SiteLoss) -> bool:
    """Return whether the range of an activation is far wider than the best one."""
    if site.kind != "activation" or site.scheme is None or loss.best is None:
        return False
    if not site.scheme.is_per_tensor or site.scheme.stored_type.minifloat is not None:
        return False
    return _scale_factor(site.scheme, loss.best) > _MUCH_WIDER


def _scale_factor(scheme: Scheme, best: Scheme) -> float:
    """Return a scale as a multiple of the best one."""
    return float(np.ravel(scheme.scale)[0] / np.ravel(best.scale)[0])


def _clipped_loss(site: Site, loss: SiteLoss, *, cuts: bool) -> float:
    """Return the loss that a calibration may accept by clipping on purpose."""
    stored = None if site.scheme is None else site.scheme.stored_type
    if stored is None or site.scheme is None or _excess(site.scheme, loss) < _FAR:
        return _CLIPPED_LOSS
    is_wide = stored.minifloat is None and stored.most > 255
    is_only_one = not cuts and loss.count >= _MANY_ELEMENTS
    return _CLIPPED_LOSS_IF_FAR if is_wide or is_only_one else _CLIPPED_LOSS


def is_certain(site: Site, loss: SiteLoss) -> bool:
    """Return whether a suspect is wrong even if other losses hide most of its effect."""
    is_mismatch = site.read is not None or site.is_missing
    return site.kind != "activation" or is_mismatch or loss.loss > _CERTAIN_LOSS


def cause_of(site: Site, loss: SiteLoss) -> str:
    """Return the name of the incorrect parameter of a site."""
    scheme, best = site.scheme, loss.best
    if site.read is not None or site.is_missing:
        return MISSING if site.is_missing else PAIR
    if site.kind == "bias":
        return _bias_cause(site)
    if scheme is None or best is None or scheme.has_invalid_scale:
        return SCALE
    if site.codes is not None and scheme.block and (cause := _block_cause(site, scheme, best)):
        return cause
    if site.codes is not None and not scheme.is_per_tensor and _is_permuted(scheme, best):
        return ORDER
    if site.kind == "activation":
        return _range_cause(scheme, loss)
    if _is_shifted(site, scheme):
        return ZERO_POINT
    return WEIGHT if changed_elements(site) and not _is_scaled(site, scheme) else SCALE


def changed_elements(site: Site) -> int:
    """Return how many codes of a weight were not rounded from the reference.
    The result is 0 for blocks, because some quantizers choose codes by their effect on outputs."""
    scheme, codes, exact = site.scheme, site.codes, site.exact
    if site.kind == "activation" or scheme is None or codes is None or exact is None:
        return 0
    is_measured = not scheme.block and scheme.stored_type.minifloat is None and site.kind != "bias"
    if not is_measured or codes.shape != exact.shape:
        return 0
    return int(np.count_nonzero(np.abs(codes - scheme.codes(exact)) > _ROUNDING))


def _is_scaled(site: Site, scheme: Scheme) -> bool:
    """Return whether another scale explains the codes of a weight."""
    assert site.codes is not None and site.exact is not None
    values, exact = scheme.values(site.codes), site.exact
    axes = tuple(at for at in range(exact.ndim) if scheme.is_per_tensor or at != scheme.axis)
    with np.errstate(all="ignore"):
        squares = np.sum(values**2, axes, keepdims=True)
        factor = np.nan_to_num(np.sum(values * exact, axes, keepdims=True) / squares)
    return _error(factor * values, exact) < _SCALED * _error(values, exact)


def _range_cause(scheme: Scheme, loss: SiteLoss) -> str:
    """Return the cause of a wrong range: a wrong zero point, clipping, or excess width."""
    assert loss.best is not None
    low, high = (float(np.ravel(limit)[0]) for limit in scheme.limits())
    least, most = loss.spread
    factor = _scale_factor(scheme, loss.best)
    is_cut = loss.cut > _CUT or (loss.cut > 0 and factor < 1)
    if scheme.stored_type.minifloat is not None:
        return CLIPPED if is_cut else WIDE
    is_similar = 1 / _CLOSE < factor < _CLOSE
    steps = float(scheme.stored_type.most - scheme.stored_type.least)
    shift = abs(float(np.ravel(scheme.zero_point)[0]) - float(np.ravel(loss.best.zero_point)[0]))
    if least < 0 < most and (
        (shift >= 0.4 * steps and is_similar) or _loses_one_sign(low, high, loss)
    ):
        return SIGN
    is_symmetric = float(np.ravel(scheme.zero_point)[0]) == scheme.stored_type.middle
    is_explained = loss.moved is not None and loss.moved < _SHARE * loss.loss and not is_symmetric
    is_moved = is_similar and shift > 0.02 * steps and _is_moved(low, high, loss)
    if is_moved or is_explained:
        return ZERO_POINT
    if loss.replaces_relu and least >= 0 and low < -0.02 * (high - low):
        # The quantization replaces a Relu, so its type must not store negative numbers.
        return ZERO_POINT
    if is_cut:
        return CLIPPED if factor < 1 or not shift else ZERO_POINT
    return WIDE


def _excess(scheme: Scheme, loss: SiteLoss) -> float:
    """Return how far the data reach, as a multiple of the range, at the end that they exceed
    more."""
    ends = (float(np.ravel(limit)[0]) for limit in scheme.limits())
    return max((at / end for at, end in zip(loss.spread, ends) if end), default=0.0)


def _gap(scheme: Scheme, loss: SiteLoss) -> tuple[float, float]:
    """Return how far data exceed a range, and how much is unused at its other end.
    Both are shares of the range.
    """
    low, high = (float(np.ravel(limit)[0]) for limit in scheme.limits())
    below, above = low - loss.spread[0], loss.spread[1] - high
    size = (high - low) or 1.0
    return max(below, above, 0.0) / size, max(-min(below, above), 0.0) / size


def _is_moved(low: float, high: float, loss: SiteLoss) -> bool:
    """Return whether a range leaves about as much unused at one end as it clips at the other.
    A range for different data clips more than it leaves unused."""
    least, most = loss.spread
    below, above = low - least, most - high
    cut, free = (below, -above) if below > above else (above, -below)
    return cut <= 0 or free > _FREE * cut


def _loses_one_sign(low: float, high: float, loss: SiteLoss) -> bool:
    """Return whether a range starts or ends at zero although the data do not, and is large enough
    for the sign that it covers."""
    least, most = loss.spread
    if low >= 0:
        most_lost, most_kept, limit = -least, most, high
    elif high <= 0:
        most_lost, most_kept, limit = most, -least, -low
    else:
        return False
    return most_lost > _LOST_SIGN * (most - least) and most_kept < _CLOSE * limit


def _is_shifted(site: Site, scheme: Scheme) -> bool:
    """Return whether a wrong zero point explains the error of a weight."""
    exact, codes = site.exact, site.codes
    if exact is None or codes is None or not exact.size or scheme.block:
        return False
    if scheme.stored_type.minifloat is not None:
        return False
    if not scheme.is_per_tensor:
        return _is_shifted_by_channel(scheme, codes, exact)
    scale, zero = float(np.ravel(scheme.scale)[0]), float(np.ravel(scheme.zero_point)[0])
    if np.array_equal(codes, scheme.codes(exact)):
        # The codes match the scheme. Was the constant clipped although its range fits into the
        # codes?
        low, high = (float(np.ravel(limit)[0]) for limit in scheme.limits())
        ends = min(float(exact.min()), 0.0), max(float(exact.max()), 0.0)
        is_cut = ends[0] < low - scale or ends[1] > high + scale
        fits = ends[1] - ends[0] <= high - low + scale
        return is_cut and fits
    rint = np.rint(np.median(codes - exact / scale))
    moved = Scheme(scheme.dtype, scheme.scale, np.full(np.shape(scheme.zero_point), rint))
    values = scheme.values(codes)
    factor = float(np.vdot(values, exact) / (np.vdot(values, values) or 1.0))
    # The error if only the scale is incorrect, not the zero point.
    shifted = min(_error(values, exact), _error(factor * values, exact))
    return bool(rint != zero and _error(moved.values(codes), exact) < _SHARE * shifted)


def _is_shifted_by_channel(scheme: Scheme, codes: Array, exact: Array) -> bool:
    """Return whether wrong zero points explain the error of a weight with a scale by channel."""
    axis = scheme.axis % codes.ndim
    rows, exact_rows = (
        np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1) for array in (codes, exact)
    )
    scale, zero = np.ravel(scheme.scale)[:, None], np.ravel(scheme.zero_point)[:, None]
    values = (rows - zero) * scale
    moved = np.rint(np.median(rows - exact_rows / scale, axis=1, keepdims=True))
    with np.errstate(all="ignore"):
        factor = np.sum(values * exact_rows, 1, keepdims=True) / np.sum(values**2, 1, keepdims=True)
    unshifted_error = min(
        _error(values, exact_rows), _error(np.nan_to_num(factor) * values, exact_rows)
    )
    is_moved = not np.array_equal(moved, zero)
    return is_moved and _error((rows - moved) * scale, exact_rows) < _SHARE * unshifted_error


def _bias_cause(site: Site) -> str:
    """Return the cause of a wrong bias: clipped, or a wrong scale."""
    limit = 2**31 - 1
    if site.codes is not None and np.any(np.abs(site.codes) >= limit - 1):
        return BIAS_CLIPPED
    return BIAS


def explains_bias(bias: Site, operand: Site, loss: SiteLoss) -> bool:
    """Return whether a bias is stored for the scale that an operand of its node should have:
    the operand is wrong, and the bias is not.

    Args:
        bias: the bias, in units of the product of the scales of both operands.
        operand: an activation or weight of its node.
        loss: the loss of the operand.
    """
    values, exact, scheme, best = bias.values, bias.exact, operand.scheme, loss.best
    if values is None or exact is None or scheme is None or best is None:
        return False
    with np.errstate(all="ignore"):
        factor = np.nan_to_num(np.ravel(best.scale) / np.ravel(scheme.scale))
    if values.shape != exact.shape or factor.size not in (1, values.size):
        return False
    rescaled = values * (factor[0] if factor.size == 1 else factor.reshape(values.shape))
    return _error(rescaled, exact) < _SHARE * _error(values, exact)


def bias_for_products(bias: Site, operands: Sequence[Site]) -> Site | None:
    """Return a bias as integer kernels read it, with the product of the scales of both operands.
    The result is None if it is stored for that product.
    """
    scheme, codes = bias.scheme, bias.codes
    schemes = [site.scheme for site in operands if site.scheme is not None]
    if bias.kind != "bias" or scheme is None or codes is None or len(schemes) < 2:
        return None
    product = np.ravel(schemes[0].scale) * np.ravel(schemes[1].scale)
    if product.size not in (1, codes.size) or codes.ndim != 1:
        return None
    if np.allclose(product, np.ravel(scheme.scale), rtol=_PRODUCT):
        return None
    return evolve(bias, values=codes * product)


def _is_permuted(scheme: Scheme, best: Scheme) -> bool:
    """Return whether the scales are the channels' scales in a different order."""
    own_scale, expected = np.abs(np.ravel(scheme.scale)), np.abs(np.ravel(best.scale))
    if own_scale.size != expected.size or not (own_scale.all() and expected.all()):
        return False
    now, sorted_ = _spread(own_scale / expected), _spread(np.sort(own_scale) / np.sort(expected))
    return sorted_ < _ALIKE * now


def _spread(ratios: Array) -> float:
    """Return the mean deviation of log ratios from their median."""
    logs = np.log(ratios)
    return float(np.mean(np.abs(logs - np.median(logs))))


def _block_cause(site: Site, scheme: Scheme, best: Scheme) -> str:
    """Return the cause for incorrect packed blocks; empty if it is not specific to blocks."""
    codes, exact = site.codes, site.exact
    assert codes is not None
    if exact is None:
        return ""
    enough = _SHARE * _error(scheme.values(codes), exact)
    if codes.shape[-1] % 2 == 0:
        pairs = codes.reshape(*codes.shape[:-1], -1, 2)[..., ::-1].reshape(codes.shape)
        if _error(scheme.values(pairs), exact) < enough:
            return NIBBLES
    has_zeros = (
        np.ndim(scheme.scale) == codes.ndim and scheme.scale.shape == scheme.zero_point.shape
    )
    if has_zeros and _error(_shift_zero_points(scheme, codes, exact).values(codes), exact) < enough:
        return BLOCK_ZERO
    return ORDER if _is_permuted(scheme, best) else ""


def _shift_zero_points(scheme: Scheme, codes: Array, exact: Array) -> Scheme:
    """Return a scheme with the zero points that fit the codes best."""
    rows, exact_rows, scales = (
        np.moveaxis(array, scheme.axis, -1) for array in (codes, exact, scheme.scale)
    )
    with np.errstate(all="ignore"):
        scale = np.repeat(scales, scheme.block, -1)[..., : rows.shape[-1]]
        off = rows - np.where(scale != 0, exact_rows / scale, 0)
    starts = range(0, rows.shape[-1], scheme.block)
    zeros = [np.median(off[..., at : at + scheme.block], axis=-1) for at in starts]
    zero = np.moveaxis(np.rint(np.stack(zeros, -1)), -1, scheme.axis)
    return Scheme(scheme.dtype, scheme.scale, zero, scheme.axis, scheme.block)


def _error(values: Array, exact: Array) -> float:
    """Return the RMS error of values."""
    return float(np.sqrt(np.mean((values - exact) ** 2)))
