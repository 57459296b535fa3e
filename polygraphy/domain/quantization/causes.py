"""Why more is lost at a site than has to be."""

from __future__ import annotations

import numpy as np

from polygraphy.domain.quantization.losses import SiteLoss
from polygraphy.domain.quantization.schemes import Scheme
from polygraphy.domain.quantization.sites import Site
from polygraphy.domain.tensors.aliases import Array

CLIPPED, WIDE, ZERO_POINT, SIGN = "clipped range", "wide range", "zero point", "signedness"
ORDER, BIAS_CLIPPED, BIAS = "scale order", "clipped bias", "bias scale"
NIBBLES, BLOCK_ZERO, PAIR = "nibble order", "block zero point", "pair mismatch"
SCALE, CALIBRATION = "scale", "calibration data"

RATIO = 6.0
"""From this multiple of the least possible loss on, a parameter is wrong: chosen, not measured. It
is above what a symmetric range may lose.
"""
_BIAS_LOSS = 0.1
"""From this loss on a bias is wrong: chosen, not measured."""
_CUT = 0.002
"""A range that cuts off more than this share is too narrow (chosen, not measured)."""
_CLOSE = 1.3
"""Two scales differ by less than this factor if only the zero point is wrong (chosen, not
measured).
"""


def is_suspect(site: Site, loss: SiteLoss) -> bool:
    """Return whether a parameter of a site is wrong."""
    if site.kind == "bias":
        return loss.loss > _BIAS_LOSS
    return site.read is not None or (loss.ratio > RATIO and loss.best is not None)


def cause_of(site: Site, loss: SiteLoss) -> str:
    """Return which parameter of a site is wrong."""
    scheme, best = site.scheme, loss.best
    if site.read is not None:
        return PAIR
    if site.kind == "bias":
        return _of_bias(site)
    if scheme is None or best is None:
        return SCALE
    if site.codes is not None and scheme.block and (cause := _of_blocks(site, scheme)):
        return cause
    if not scheme.is_per_tensor and _is_permuted(scheme, best):
        return ORDER
    if site.kind != "activation":
        return SCALE
    return _of_range(scheme, loss)


def _of_range(scheme: Scheme, loss: SiteLoss) -> str:
    assert loss.best is not None
    low, high = (float(np.ravel(each)[0]) for each in scheme.limits())
    least, most = loss.spread
    factor = float(np.ravel(scheme.scale)[0] / np.ravel(loss.best.scale)[0])
    if scheme.stored.minifloat is not None:
        return CLIPPED if loss.cut > _CUT else WIDE
    is_similar = 1 / _CLOSE < factor < _CLOSE
    steps = float(scheme.stored.most - scheme.stored.least)
    shift = abs(float(np.ravel(scheme.zero_point)[0]) - float(np.ravel(loss.best.zero_point)[0]))
    if least < 0 < most and shift >= 0.4 * steps and (low >= 0 or high <= 0 or is_similar):
        return SIGN
    if is_similar and shift > 0.02 * steps:
        return ZERO_POINT
    if loss.cut > _CUT:
        return CLIPPED if factor < 1 or not shift else ZERO_POINT
    return WIDE


def _of_bias(site: Site) -> str:
    limit = 2**31 - 1
    if site.codes is not None and np.any(np.abs(site.codes) >= limit - 1):
        return BIAS_CLIPPED
    return BIAS


def _is_permuted(scheme: Scheme, best: Scheme) -> bool:
    """Return whether the scales are those of the channels, in another order."""
    own, right = np.ravel(scheme.scale), np.ravel(best.scale)
    if own.size != right.size or np.allclose(own, right, rtol=0.3):
        return False
    return bool(np.allclose(np.sort(own), np.sort(right), rtol=0.45))


def _of_blocks(site: Site, scheme: Scheme) -> str:
    """Return what is wrong about packed blocks; empty if it is something else."""
    codes, exact = site.codes, site.exact
    assert codes is not None
    if exact is None:
        return ""
    now = _error(scheme.values(codes), exact)
    if codes.shape[-1] % 2 == 0:
        pairs = codes.reshape(*codes.shape[:-1], -1, 2)[..., ::-1].reshape(codes.shape)
        if _error(scheme.values(pairs), exact) < now / 3:
            return NIBBLES
    with np.errstate(all="ignore"):
        scale = np.repeat(scheme.scale, scheme.block, 1)[:, : codes.shape[1]]
        zero = np.repeat(scheme.zero_point, scheme.block, 1)[:, : codes.shape[1]]
        shift = float(np.median(codes - zero - np.where(scale != 0, exact / scale, 0)))
    shifted = Scheme(
        scheme.dtype, scheme.scale, scheme.zero_point + np.rint(shift), 1, scheme.block
    )
    if abs(shift) >= 0.5 and _error(shifted.values(codes), exact) < now / 3:
        return BLOCK_ZERO
    return ""


def _error(values: Array, exact: Array) -> float:
    return float(np.sqrt(np.mean((values - exact) ** 2)))
