"""Quantized states that are written with one scale and read with another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from attrs import frozen

from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.states.pairs import StatePair

_CARRIERS = frozenset(
    {"Concat", "ScatterND", "ScatterElements", "TensorScatter", "Identity", "Transpose", "Reshape",
     "Slice", "Gather", "Squeeze", "Unsqueeze", "Expand"}
)  # fmt: skip
"""Operators that hand codes on as they are."""


@frozen
class OtherScale:
    """A quantized state whose reader has another scale or zero point than its writer.

    Attributes:
        state: the output that is the state.
        writer: the node that quantizes it.
        reader: the node that dequantizes it.
    """

    state: str
    writer: Node
    reader: Node

    def __str__(self) -> str:
        """Return the contradiction as a sentence."""
        return (
            f"State {self.state!r} is quantized by {self.writer.label!r}, but"
            f" {self.reader.label!r} reads it with a different scale or zero point."
        )


def find_other_scales(graph: Graph, pairs: Sequence[StatePair]) -> Iterator[OtherScale]:
    """Yield the quantized states that are written with one scale and read with another."""
    makers, seen = graph.makers, set()
    for pair in pairs:
        carried = _code_tensors(graph, {pair.output, pair.input})
        writers = [
            makers[name]
            for name in carried
            if name in makers and makers[name].op == "QuantizeLinear"
        ]
        readers = [
            node
            for node in graph.nodes
            if node.op == "DequantizeLinear" and carried.intersection(node.inputs[:1])
        ]
        for writer in writers:
            for reader in readers:
                names = writer.label, reader.label
                if names not in seen and _have_different_scales(graph, writer, reader):
                    seen.add(names)
                    yield OtherScale(pair.output, writer, reader)


def _code_tensors(graph: Graph, names: set[str]) -> set[str]:
    """Return the tensors that hold the codes of a state,
    before and after it is returned as an output."""
    carriers = [
        node for node in graph.nodes if node.op in _CARRIERS and node.inputs and node.outputs
    ]
    code_names, size = set(names), -1
    while size != len(code_names):
        size = len(code_names)
        for node in carriers:
            data = [name for name in _data_inputs(node) if name]
            if node.outputs[0] in code_names:
                code_names.update(data)
            elif not code_names.isdisjoint(data):
                code_names.add(node.outputs[0])
    return code_names


def _data_inputs(node: Node) -> Sequence[str]:
    """Return the inputs of a node that are data, rather than indices or shapes."""
    if node.op == "Concat":
        return node.inputs
    if node.op == "TensorScatter":
        return node.inputs[:2]
    return (node.inputs[0], *node.inputs[2:]) if node.op.startswith("Sc") else node.inputs[:1]


def _have_different_scales(graph: Graph, writer: Node, reader: Node) -> bool:
    """Return whether two nodes have different constant scales or zero points."""
    for at in (1, 2):
        pair = [
            graph.constants.get(node.inputs[at]) if at < len(node.inputs) else None
            for node in (writer, reader)
        ]
        if None in pair:
            continue
        left, right = (np.asarray(weight.values).reshape(-1) for weight in pair if weight)
        if left.size == right.size and not np.array_equal(left, right):
            return True
    return False
