"""Other ways to quantize a model, for losses that many nodes share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import evolve

from polygraphy.domain.quantization.losses import SiteLoss, best_weight_scheme
from polygraphy.domain.quantization.schemes import Scheme, scheme_of_range
from polygraphy.domain.quantization.sites import Site

PER_CHANNEL, WIDE, RANGES = "per channel", "16 bits", "ranges"
_WIDER = {"int8": "int16", "uint8": "uint16"}


def alternatives(
    sites: Sequence[Site], losses: Mapping[int, SiteLoss]
) -> dict[str, dict[int, Scheme]]:
    """Return, by alternative, the schemes of the sites that it changes:
    per-channel scales for weights, 16-bit activations, or the ranges of these inputs.
    Alternatives without effect are omitted."""
    changed: dict[str, dict[int, Scheme]] = {PER_CHANNEL: {}, WIDE: {}, RANGES: {}}
    for number, site in enumerate(sites):
        scheme, loss = site.scheme, losses.get(number)
        if scheme is None or scheme.block or not scheme.is_per_tensor:
            continue
        if site.kind == "weight":
            split = _scheme_by_channel(site, scheme)
            if split is not None:
                changed[PER_CHANNEL][number] = split
        elif site.kind == "activation" and loss is not None and loss.best is not None:
            changed[RANGES][number] = loss.best
            if scheme.dtype in _WIDER:
                changed[WIDE][number] = scheme_of_range(
                    evolve(scheme, dtype=_WIDER[scheme.dtype]),
                    *loss.spread,
                    symmetric=bool(np.all(scheme.zero_point == scheme.stored_type.middle)),
                )
    return {name: schemes for name, schemes in changed.items() if schemes}


def _scheme_by_channel(site: Site, scheme: Scheme) -> Scheme | None:
    """Return a scheme with a scale for each channel of a weight; None if it cannot have one."""
    exact, axis = site.exact, site.channel_axis
    if exact is None or axis is None or exact.ndim < 2 or exact.shape[axis] < 2:
        return None
    if scheme.stored_type.minifloat is not None:
        return None
    ones = np.ones(exact.shape[axis])
    zero_points = np.full(ones.shape, float(scheme.stored_type.middle))
    best, _ = best_weight_scheme(exact, Scheme(scheme.dtype, ones, zero_points, axis))
    return best
