"""Which tensor a node does not read although it should: the one with which it computes what is
expected, at a position where an input is absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.changes.change_search import ChangeSearch, OtherTensor
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import changes
from polygraphy.domain.model.graph import Node

_BEHIND = 3
"""Positions behind the last input that are tried: after a removed input, others may be absent."""
_MOST = 64
"""Tensors that are tried at a position; weights that no node reads come first."""
_LARGEST = 1 << 24
"""Bytes of the largest tensor that is tried, because each try stores it in a model."""


def find_unread_inputs(
    search: ChangeSearch, position: int, tensors: Iterable[OtherTensor]
) -> Iterator[Variant]:
    """Yield variants of a node that reads one more tensor of the model, and then computes the
    expected values; the backend decides which inputs the operator has.

    Args:
        search: tries changes of the node alone.
        position: the node.
        tensors: the computed tensors that the node may read.
    """
    node, graph = search.graph.nodes[position], search.graph
    used = {name for other_node in graph.nodes for name in other_node.reads}
    unused = {
        name: weight.values
        for name, weight in graph.constants.items()
        if name not in used and weight.values is not None
    }
    later = search.dependents(position)
    computed = (
        tensor
        for tensor in tensors
        if tensor.is_in_model and tensor.name not in {*later, *node.inputs, *unused}
    )
    found = {
        name: np.asarray(value)
        for name, value in chain(unused.items(), ((x.name, x.value) for x in computed))
    }
    small = [name for name, value in found.items() if 0 < value.nbytes <= _LARGEST][:_MOST]
    at_end = range(len(node.inputs), len(node.inputs) + _BEHIND)
    for at in (*(at for at, name in enumerate(node.inputs) if not name), *at_end):
        names = small if at <= len(node.inputs) else [name for name in small if name in unused]
        reading = (_reading(node, at, name, found[name]) for name in names)
        for variant in search.select_matching(reading):
            yield evolve(variant, weights={})


def _reading(node: Node, at: int, name: str, value: Any) -> Variant:
    """Return the variant of a node that reads a tensor at one more position."""
    reads = [*node.inputs, *("" for _ in range(at + 1 - len(node.inputs)))]
    reads[at] = name
    change = changes.unread_input(node.op, name)
    return Variant("structure", change, evolve(node, inputs=tuple(reads)), {name: value})
