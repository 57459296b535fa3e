"""Padding before a pooling: the pads of MaxPool itself never win, but those of a Pad may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import Graph

_VALUE = 2
"""The input of Pad with the number that it fills with."""

_NEW = "pad_value"
"""The name of that number in a variant of a Pad that has none."""


def padding_variants(side: Graph, position: int) -> Iterator[Variant]:
    """Yield the variant of a Pad before MaxPool that fills with the lowest number, as the pads of
    MaxPool do: it comes before other modes, which often have the same maximum."""
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


def _lowest_number(dtype: Any) -> Any:
    """Return the lowest number of a type: that with which MaxPool pads."""
    return np.iinfo(dtype).min if np.issubdtype(dtype, np.integer) else -np.inf
