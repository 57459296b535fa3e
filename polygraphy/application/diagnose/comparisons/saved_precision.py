"""Saved tensors that differ only because their products were computed in TF32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polygraphy.application.diagnose.case import Case, Values
from polygraphy.application.diagnose.parts import cut_part
from polygraphy.application.diagnose.tensor_trace import Trace
from polygraphy.domain.catalog.compute import ATTENTION, RECURRENT, TF32_OPERATORS
from polygraphy.domain.diagnosis.quantizing import rms_ratio
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.model.graph import Node
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
_LEAST = 2.0**-10
"""An error up to this share of the RMS is explained even if rounding has a smaller effect: hardware
that drops bits instead of rounding makes all products too small by up to this share. Chosen, not
measured.
"""
_REPRODUCED = 0.1
"""A product was computed in TF32 if rounding or dropping digits of its operands leaves at most this
share of its error. A weight that is 0.1% too large keeps 45% of its error if digits are dropped,
which makes all products smaller, so the limit is far below that.
"""
_TIMES = 3.0
"""A product may differ by this multiple of the effect of rounded operands. With it, 40 healthy
networks are not blamed, 17 of them with dropped bits (see `diagnosis.md`)."""
_STATES = 2.0
"""The same for a recurrent node, as a multiple of other nodes: it also rounds its state in each
step. Chosen, not measured."""


def tf32_tensors(
    case: Case,
    party: SuspectedParty,
    trace: Trace,
    wrong: Mapping[str, Any],
    compared: Mapping[str, Deviation],
) -> set[str]:
    """Return the wrong tensors that TF32 explains.

    These are the products whose error TF32 reproduces, because libraries choose a kernel for each
    shape, and compute some products in float32. If most products of the model differ, those within
    the effect of TF32 as well: the kernel may round in another way.

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
    held = trace.held
    is_tf32 = len(visible) > _MOST * len(products)
    explained = set()
    # What drops digits is asked only where rounding does not explain an error.
    for drops in (False, True):
        for name in visible:
            if name not in wrong or name in explained:
                continue
            made = _compute_rounded(case, party, name, held, drops=drops)
            error = rms_ratio(wrong[name], trace.values[name])
            left = error if made is None else rms_ratio(made, trace.values[name])
            effect = 0.0 if made is None else rms_ratio(made, wrong[name])
            times = _TIMES * (_STATES if nodes[makers[name]].operator in RECURRENT else 1)
            is_within = is_tf32 and error <= max(times * effect, _LEAST)
            if is_within or left <= _REPRODUCED * error:
                explained.add(name)
    return explained


def _lower(array: Any, *, drops: bool) -> Any:
    """Return floating-point numbers with the digits that TF32 has; other arrays unchanged."""
    return with_digits(array, _SPACING, drops=drops) if is_float(array) else array


def _compute_rounded(
    case: Case, party: SuspectedParty, name: str, values: Values, *, drops: bool
) -> Any:
    """Return a product computed from given values, with rounded operands; None if it is refused."""
    graph = case.model.graph
    node = graph.nodes[graph.computed[name]]
    rounded = {
        read: _lower(np.asarray(values[read]), drops=drops)
        for read in _operands(node)
        if read in values
    }
    weights = {
        read: _lower(array, drops=drops)
        for read in _operands(node)
        if read in graph.constants and is_float(array := graph.constants[read].values)
    }
    values = {**values, **rounded}
    try:
        part = cut_part(case.model, region_before(graph, name, values.keys()), values, [name])
        if weights:
            part = part.change(name, Variant("weight", changes.differs(), node, weights))
        return part.run(party, plain=True).get(name)
    except PolygraphyException:
        return None


def _operands(node: Node) -> Sequence[str]:
    """Return the inputs that TF32 rounds: the factors of products, but no bias."""
    if node.op in RECURRENT:  # The data, both weights, and the first state.
        return [*node.inputs[:3], *node.inputs[5:6]]
    return node.inputs[: 3 if node.op in ATTENTION else 2]
