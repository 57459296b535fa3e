"""Saved tensors that differ only because their products were computed in TF32."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

import numpy as np

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.parts import compute_part
from polygraphy.application.diagnose.tensor_trace import Trace
from polygraphy.domain.catalog.compute import RECURRENT, TF32_OPERATORS
from polygraphy.domain.diagnosis.quantizing import rms_ratio
from polygraphy.domain.model.regions import region_before
from polygraphy.domain.rounding import Deviation
from polygraphy.domain.tensors.precision import is_float, with_digits
from polygraphy.ports.diagnosing import SuspectedParty

_SPACING = 2.0**-10
"""The spacing of TF32 at 1."""
_VISIBLE = 2e-5
"""The largest error of a product in TF32 exceeds this share of its RMS, and in float32 does not."""
_MOST = 0.5
"""The share of all products that differ if they were computed in TF32. Chosen, not measured."""
_LEAST = 2.0**-13
"""Least error of a product in TF32, as a share of its RMS, even if the operands are round numbers.
"""
_TIMES = 3.0
"""A product may differ by this multiple of the effect of rounded operands. With it, no product of
`lab/golden` in TF32 is blamed (see `diagnosis.md`)."""
_STATES = 2.0
"""The same for a recurrent node, as a multiple of other nodes: it also rounds its state in each
step. Chosen, not measured."""
_BOTH = sqrt(2)
"""Only one operand is rounded to measure the effect, and both are in TF32."""


def tf32_tensors(
    case: Case,
    party: SuspectedParty,
    trace: Trace,
    wrong: Mapping[str, Any],
    compared: Mapping[str, Deviation],
) -> set[str]:
    """Return the wrong tensors that TF32 explains; none unless most products of the model differ.

    Args:
        case: the model.
        party: the backend that computed each node from what was saved.
        trace: what was saved.
        wrong: by tensor, what the backend computed, if it is not what was saved.
        compared: by tensor, its error.
    """
    nodes = case.model.nodes
    makers = case.model.graph.producers
    products = [
        name
        for name, error in compared.items()
        if name in makers and nodes[makers[name]].operator in TF32_OPERATORS
    ]
    visible = [name for name in products if compared[name].relative > _VISIBLE]
    if len(visible) <= _MOST * len(products):
        return set()
    held = trace.held
    rounded = {
        name: with_digits(np.asarray(held[name]), _SPACING) if is_float(held[name]) else held[name]
        for name in dict.fromkeys(n for each in visible for n in nodes[makers[each]].reads)
        if name in held
    }
    explained = set()
    for name in visible:
        if name not in wrong:
            continue
        region = region_before(case.model.graph, name, held.keys())
        made = compute_part(case.model, region, {**held, **rounded}, party, [name]).get(name)
        effect = 0.0 if made is None else _BOTH * rms_ratio(made, wrong[name])
        times = _TIMES * (_STATES if nodes[makers[name]].operator in RECURRENT else 1)
        if rms_ratio(wrong[name], trace.values[name]) <= times * max(effect, _LEAST):
            explained.add(name)
    return explained
