"""Measures what each site of a quantized model loses, on activations of the float model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.domain.quantization.losses import (
    SiteLoss,
    activation_loss,
    sample_elements,
    weight_loss,
)
from polygraphy.domain.quantization.sites import RAW, Site

_MOST_INPUTS = 16
"""Ranges are measured on at most this many inputs."""
_ELEMENTS = 1 << 14
"""Elements of an activation that are kept for each input."""

Feed = Mapping[str, Any]


def measure_losses(
    sites: Sequence[Site],
    source: Callable[[Site], str],
    compute: Callable[[Feed], Mapping[str, Any]] | None,
    feeds: Sequence[Feed],
) -> dict[int, SiteLoss]:
    """Return the loss of each site, by its position, if it can be measured.

    Args:
        sites: the sites.
        source: returns the tensor of an activation.
        compute: runs the model in floating point, with activations as outputs; None to measure
            weights only.
        feeds: its inputs.
    """
    wanted = {
        number: source(site)
        for number, site in enumerate(sites)
        if site.kind == "activation" and site.scheme is not None
    }
    arrays: dict[int, list[Any]] = {}
    errors: dict[int, list[float]] = {}
    for feed in feeds[:_MOST_INPUTS] if compute is not None else ():
        assert compute is not None
        values = {**feed, **compute(feed)}
        for number, name in wanted.items():
            if f"{name}{RAW}" in values:
                stored = sites[number].round_trip(values[f"{name}{RAW}"])
                error, size = np.square(stored - values[name]), np.square(values[name])
                errors.setdefault(number, []).append(float(error.sum() / (size.sum() or 1)))
            if name in values:
                array = sample_elements([np.asarray(values[name])], _ELEMENTS, sites[number].axis)
                arrays.setdefault(number, []).append(array)
    losses: dict[int, SiteLoss] = {}
    for number, site in enumerate(sites):
        loss = None
        if number in arrays:
            by_channel = None if site.axis is None else 0
            loss = activation_loss(site, sample_elements(arrays[number], axis=by_channel))
            if number in errors:
                # The quantization replaces a Relu, so compare its result with the output of the
                # Relu.
                total_error = float(np.nan_to_num(np.sqrt(np.mean(errors[number])), nan=inf))
                loss = evolve(loss, loss=total_error, replaces_relu=True)
        elif site.kind != "activation":
            loss = weight_loss(site)
        if loss is not None:
            losses[number] = loss
    return losses
