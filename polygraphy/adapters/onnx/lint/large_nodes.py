"""Which nodes of a model make too much to be tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from polygraphy.adapters.onnx.graph.constants import graph_weights
from polygraphy.adapters.onnx.graph.element_types import domain_of
from polygraphy.adapters.onnx.graph.growth import (
    LIFTED_BY,
    LONGEST_VECTOR,
    grown_elements,
    limit_bytes,
    model_bytes,
    vector_lengths,
)
from polygraphy.adapters.onnx.graph.shape_proofs import shapes_of
from polygraphy.adapters.onnx.graph.shapes import inferred_value_infos
from polygraphy.adapters.onnx.graph.value_infos import set_input_shapes
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx.storage.weights import (
    SMALL,
    byte_size,
    is_external,
    without_large_weights,
)
from polygraphy.adapters.onnx_common.messages import graphs_of

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto


_ITEMSIZE = 4  # Of most tensors.
_MOST_ROUNDS = 1 << 31
"""What no backend goes through within minutes, however little it computes in each round."""
_LOOP_INPUTS = 2  # The body of a Loop takes the number of the round and the condition.
_RUN = 2
"""What a run may take, in limits of what a file may become: activations go again."""


def large_nodes(model: ModelProto, feed: Mapping[str, Any]) -> dict[int, str]:
    """Return which nodes of the main graph make more than they may with some input data, by index,
    and a message about each.
    """
    weights = graph_weights(model.graph)
    shapes: dict[str, Any] = {name: tuple(tensor.dims) for name, tensor in weights.items()}
    shapes.update((name, tuple(np.shape(value))) for name, value in feed.items())
    shapes.update(shapes_of(inferred_value_infos(_fed(model, feed))))
    external = sum(map(byte_size, filter(is_external, weights.values())))
    limit = _RUN * limit_bytes(model_bytes(model) + external)
    vectors = vector_lengths(model, with_weights=False)
    lost: set[str] = set()
    constant, folded = set(weights), 0

    def value(name: str) -> Any:
        tensor = weights.get(name)
        if name in feed:
            return np.asarray(feed[name]) if np.size(feed[name]) <= LONGEST_VECTOR else None
        is_small = tensor is not None and byte_size(tensor) <= SMALL and not is_external(tensor)
        return elements(tensor) if tensor is not None and is_small else None

    found: dict[int, str] = {}
    for index, node in enumerate(model.graph.node):
        if (rounds := _rounds(node, value)) > _MOST_ROUNDS:
            found[index] = f"It was not tried: it goes through {rounds:,} rounds."
            continue
        if not lost.isdisjoint(node.input) or any(
            vectors.get(name, 0) > LONGEST_VECTOR for name in node.output
        ):
            lost.update(filter(None, node.output))
            found[index] = "It was not tried: it needs a list longer than any shape is."
            continue
        grown = grown_elements(node, value, shapes.get)
        sizes = [shapes.get(name) for name in node.output if name]
        counts = [prod(s) for s in sizes if s and all(isinstance(dim, int) for dim in s)]
        nbytes = _ITEMSIZE * max([grown or 0, *counts])
        if constant.issuperset(filter(None, node.input)):  # These stay, and all at once.
            constant.update(node.output)
            nbytes += folded
            folded = nbytes
        if nbytes > limit:
            found[index] = (
                f"It was not tried: it makes {nbytes:,} bytes, more than {limit:,.0f}. {LIFTED_BY}"
            )
    return found


def _rounds(node: NodeProto, value: Callable[[str], Any]) -> int:
    """Return how many rounds a Loop goes through whatever it computes; 0 where that depends."""
    if node.op_type != "Loop" or domain_of(node.domain) or not node.input:
        return 0
    body = next(iter(graphs_of(node)), None)
    if body is None or not body.output or len(body.input) < _LOOP_INPUTS:
        return 0  # Against the standard, which others say better.
    trips = value(node.input[0])
    starts = value(node.input[1]) if len(node.input) > 1 and node.input[1] else np.array(True)
    if trips is None or starts is None or not np.all(starts):
        return 0
    copies = (made for made in body.node if made.op_type == "Identity" and made.input)
    origins = {made.output[0]: made.input[0] for made in copies if made.output}
    condition = body.output[0].name
    while condition in origins:
        condition = origins.pop(condition)
    return int(np.max(trips)) if condition == body.input[1].name else 0


def _fed(model: ModelProto, feed: Mapping[str, Any]) -> ModelProto:
    """Return a copy without large weights whose inputs have the shapes of the data."""
    made = without_large_weights(model)
    set_input_shapes(made.graph, {name: np.shape(value) for name, value in feed.items()})
    return made
