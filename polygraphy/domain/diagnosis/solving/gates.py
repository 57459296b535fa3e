"""Gates of recurrent operators: other frameworks store them in another order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import Graph

_GATES = {"LSTM": 4, "GRU": 3}
_WEIGHTS = slice(1, 4)
"""The inputs with the gates along axis 1: those of the input, of the state, and the biases."""


def gate_variants(side: Graph, position: int) -> Iterator[Variant]:
    """Yield variants of a recurrent node with the gates of all its weights in another order."""
    node = side.nodes[position]
    count = _GATES.get(node.op, 0)
    weights = {
        name: np.asarray(side.constants[name].values)
        for name in filter(None, node.inputs[_WEIGHTS])
        if name in side.constants and side.constants[name].values is not None
    }
    read = [name for name in node.inputs[_WEIGHTS] if name]
    if not count or len(weights) != len(read) or len(node.inputs) > 7:  # With peepholes.
        return
    hidden = weights[read[1]].shape[-1] if len(read) > 1 else 0
    if not hidden or any(
        array.ndim < 2 or array.shape[1] % (count * hidden) for array in weights.values()
    ):
        return
    for order in permutations(range(count)):
        if order == tuple(range(count)):
            continue
        places = [int(np.argwhere(np.array(order) == gate)[0, 0]) for gate in range(count)]
        slices = [place * hidden + at for place in places for at in range(hidden)]
        other_weights = {
            name: np.concatenate(
                [half[:, slices] for half in np.split(array, array.shape[1] // len(slices), 1)], 1
            )
            for name, array in weights.items()
        }
        stored = [gate * hidden + at for gate in order for at in range(hidden)]
        yield Variant("weight", changes.moved_gates(node.op, read, stored), node, other_weights)
