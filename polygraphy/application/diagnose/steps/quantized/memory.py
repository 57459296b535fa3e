"""The diagnosis of a quantized model that does not fit into memory: the loss of each weight, one
node at a time."""

from __future__ import annotations

from math import prod

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.comparisons.model_pair import ModelPair
from polygraphy.domain.diagnosis.words import errors
from polygraphy.domain.diagnosis.words import quantization as words
from polygraphy.domain.model import Weight
from polygraphy.domain.quantization.causes import cause_of, is_suspect
from polygraphy.domain.quantization.losses import with_worst_channels
from polygraphy.domain.quantization.measuring import measure_losses
from polygraphy.domain.quantization.schemes import STORED
from polygraphy.ports.diagnosing import open_node_weights

_FLOAT_BYTES = 12
"""Bytes that the search holds for each weight in floating point: three copies of the model."""
_BYTES = {**dict.fromkeys(STORED, 30), "uint8": 60}
"""The same for quantized weights: codes and values as float64, the exact weight, and both forms in
the model with switches. Bytes may hold two weights.
"""
_ELEMENTS = 1 << 20
"""About the number of elements of a weight that are quantized in other ways, which takes half a
microsecond each: those of the channels that lose most, and of some others."""
_SHOWN = 3
"""Most weights that are named."""


def _needed_bytes(weight: Weight) -> int:
    """Return the bytes of memory that the search needs for a weight."""
    return prod(weight.shape) * _BYTES.get(str(weight.dtype), _FLOAT_BYTES)


def _allowed_bytes(case: Case) -> int:
    """Return the bytes of memory that a search may use."""
    return case.budget or 2 * case.resident_limit


def check_memory(case: Case) -> None:
    """Raise UsageError if not even the largest weight of a model can be measured: before a model
    runs.
    """
    weights = case.model.graph.all_weights
    needed = max(map(_needed_bytes, weights), default=0)
    if needed > _allowed_bytes(case):
        raise errors.search_needs_memory(sum(map(_needed_bytes, weights)), _allowed_bytes(case))


def missing_memory(case: Case) -> tuple[int, int] | None:
    """Return the bytes that the search needs, and how many it may use; None if they fit."""
    needed = sum(map(_needed_bytes, case.model.graph.all_weights))
    return (needed, _allowed_bytes(case)) if needed > _allowed_bytes(case) else None


def describe_weights(case: Case, pair: ModelPair, needed: int, allowed: int) -> str:
    """Return the sentence with the weights that lose most, each measured by itself, and the memory
    that a search needs.

    Args:
        case: the quantized model.
        pair: the model and its reference.
        needed: the bytes that a search needs.
        allowed: the bytes that it may use.
    """
    losses = []
    for part in open_node_weights(case.model.proto, pair.reference.proto):
        sites = [with_worst_channels(site, _ELEMENTS) for site in part.sites]
        for number, loss in measure_losses(sites, part.source, None, ()).items():
            site = sites[number]
            cause = cause_of(site, loss) if is_suspect(site, loss) else ""
            losses.append((site.kind, part.nodes[-1].name, loss.loss, loss.least, cause))
    losses.sort(key=lambda loss: (loss[-1] != "", loss[2]), reverse=True)  # Wrong ones first.
    return words.weights_by_themselves(needed, allowed, losses[:_SHOWN], len(losses))
