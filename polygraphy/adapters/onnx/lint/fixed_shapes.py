"""Finds Reshape nodes that keep the sizes of an example input, in a model with dynamic inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from polygraphy.adapters.onnx.graph.element_types import domain_of
from polygraphy.adapters.onnx.graph.graph import graph_weights
from polygraphy.adapters.onnx.graph.shapes import infer_value_infos, shapes_of
from polygraphy.adapters.onnx.storage.elements import elements
from polygraphy.adapters.onnx.storage.weights import SMALL, byte_size, is_external
from polygraphy.adapters.onnx_common.messages import shape_of
from polygraphy.domain.checks.lint import WARNING, LintEntry, Source

if TYPE_CHECKING:
    from onnx import ModelProto


def fixed_shape_findings(model: ModelProto, labels: Sequence[str]) -> Iterator[LintEntry]:
    """Yield a warning for each Reshape that fits only one size of dynamic inputs.

    Args:
        model: the model.
        labels: the names of its nodes.
    """
    names = {
        dim
        for value in model.graph.input
        for dim in shape_of(value.type.tensor_type) or ()
        if isinstance(dim, str)
    }
    nodes = [
        (node, label)
        for node, label in zip(model.graph.node, labels)
        if node.op_type == "Reshape" and not domain_of(node.domain) and len(node.input) > 1
    ]
    if not names or not nodes:
        return
    weights, shapes = graph_weights(model.graph), shapes_of(infer_value_infos(model))
    shapes |= shapes_of({value.name: value for value in model.graph.input})
    for node, label in nodes:
        tensor, shape = weights.get(node.input[1]), shapes.get(node.input[0])
        if tensor is None or shape is None or is_external(tensor) or byte_size(tensor) > SMALL:
            continue
        sizes = [int(size) for size in elements(tensor).reshape(-1)]
        allows_zero = any(
            attribute.name == "allowzero" and attribute.i for attribute in node.attribute
        )
        if need := _needed_size(shape, sizes, names, allows_zero=allows_zero):
            held = f"{node.input[1]!r} contains {', '.join(map(str, sizes))}"
            message = f"It works only if {need}: {held}."
            yield LintEntry(WARNING, Source.SHAPES, message, (label,), node.op_type)


def _needed_size(
    shape: Sequence[Any], sizes: Sequence[int], names: set[str], *, allows_zero: bool
) -> str:
    """Return the sizes that dynamic dimensions need for a Reshape;
    empty if they may vary, or are unknown."""
    dims, wanted = [*shape], [*sizes]
    if min(wanted, default=0) < 0 or (allows_zero and 0 in wanted):
        return ""
    for axis in [axis for axis, size in enumerate(wanted) if size == 0 and axis < len(shape)]:
        dims.remove(shape[axis])
    known = prod(dim for dim in dims if isinstance(dim, int))
    dynamic = [dim for dim in dims if not isinstance(dim, int)]
    if not dynamic or not known or not names.issuperset(dynamic):
        return ""
    needed, rest = divmod(prod(size for size in wanted if size), known)
    if rest:
        return ""
    return f"{' x '.join(map(repr, dynamic))} is {needed}"
