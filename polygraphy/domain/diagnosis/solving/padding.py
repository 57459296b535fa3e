"""Numbers that fill: the pads of MaxPool itself never win, but those of a Pad may; and logits of
-inf have no share in a softmax, but the lowest finite number has one where all are suppressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
from attrs import evolve

from polygraphy.domain.diagnosis.two_models import change_of_weight
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import Graph
from polygraphy.domain.tensors.precision import is_float, is_float_code

_VALUE = 2
"""The input of Pad with the number that it fills with."""

_NEW = "pad_value"
"""The name of that number in a variant of a Pad that has none."""
_MASKING = {"Add": (0, 1), "Where": (1, 2), "Pad": (_VALUE,)}
"""The inputs with numbers that suppress elements, by operator."""
_SUPPRESSING = -1e4
"""Numbers from this one down suppress elements."""


def padding_variants(side: Graph, position: int) -> Iterator[Variant]:
    """Yield the variant of a Pad before MaxPool that fills with the lowest number,
    as the pads of MaxPool do: it comes before other modes, which often have the same maximum."""
    node = side.nodes[position]
    readers = side.readers.get(node.outputs[0], ()) if node.op == "Pad" else ()
    if not readers or {side.nodes[index].op for index, _ in readers} != {"MaxPool"}:
        return
    if node.attribute("mode", "constant") != "constant" or len(node.inputs) < _VALUE:
        return
    name = node.inputs[_VALUE] if len(node.inputs) > _VALUE else ""
    if name and (name not in side.constants or side.constants[name].values is None):
        return
    value = np.asarray(side.constants[name].values) if name else np.zeros((), np.float32)
    lowest = np.full_like(value, _lowest_number(value.dtype))
    if np.array_equal(value, lowest):
        return
    change = changes.other_filling(node.op, value.ravel()[0].item(), lowest.ravel()[0].item())
    inputs = node.inputs if name else (*node.inputs[:_VALUE], _NEW, *node.inputs[_VALUE + 1 :])
    yield Variant("weight", change, evolve(node, inputs=inputs), {inputs[_VALUE]: lowest})


def masking_variants(side: Graph, position: int) -> Iterator[Variant]:
    """Yield the variants of a node that suppresses elements with -inf instead of a finite number,
    or with the lowest finite number instead of -inf."""
    node = side.nodes[position]
    for at in _MASKING.get(node.op, ()):
        name = node.inputs[at] if at < len(node.inputs) else ""
        weight = side.constants.get(name) if name else None
        array = None if weight is None or weight.values is None else np.asarray(weight.values)
        if array is None or not array.size or not is_float(array) or is_float_code(array):
            continue
        lowest = array.min()
        if not lowest <= _SUPPRESSING:
            continue
        limits: Any = ml_dtypes.finfo
        instead = -np.inf if np.isfinite(lowest) else limits(array.dtype).min
        expected = np.where(array == lowest, instead, array).astype(array.dtype)
        change = changes.other_weight("weight", name, change_of_weight(array, expected), node.op)
        yield Variant("weight", change, node, {name: expected})


def _lowest_number(dtype: Any) -> Any:
    """Return the lowest number of a type: that with which MaxPool pads."""
    return np.iinfo(dtype).min if np.issubdtype(dtype, np.integer) else -np.inf
