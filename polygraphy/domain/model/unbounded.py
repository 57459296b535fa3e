"""Tensors whose shape depends on data without any limit.

Some operators make a tensor as large as the elements of another say: a run-time number in `Range`
may ask for any amount of memory, and TensorRT cannot plan for it. (`NonZero` and its kind depend on
data, too, but never make more than their input has.)
"""

from __future__ import annotations

from polygraphy.domain.model.description import Graph, Node, Tensor

DRIVING_INPUT = {"Expand": 1, "Pad": 1, "Range": 1, "Resize": 3, "Tile": 1}
"""Which operand of an operator decides how large its output is."""
_CONSTANTS = frozenset({"Constant", "Min"})
"""What makes a number that is known, or limited."""


def unbounded_tensors(graph: Graph) -> list[str]:
    """Return the outputs of nodes whose size a run-time tensor decides, and nothing limits.

    Args:
        graph: a graph with inferred shapes, whose constant parts were folded.
    """
    known = {dim for tensor in graph.inputs for dim in tensor.shape or () if isinstance(dim, str)}
    constant = {weight.name for weight in graph.weights}
    producers = {name: node for node in graph.nodes for name in node.outputs if name}
    found = []
    for node in graph.nodes:
        for name in filter(None, node.outputs):
            tensor = graph.tensors.get(name)
            if _is_new(tensor, known) and _is_unbounded(node, constant, producers):
                found.append(name)
            if tensor is not None and tensor.shape is not None:
                known.update(dim for dim in tensor.shape if isinstance(dim, str))
    return found


def unbounded_operands(graph: Graph) -> list[str]:
    """Return the tensors whose elements decide without limit how large others become, as the length
    of a Range does; see `unbounded_tensors`.
    """
    large = set(unbounded_tensors(graph))
    makers = (node for node in graph.nodes if not large.isdisjoint(node.outputs))
    return list(dict.fromkeys(node.inputs[DRIVING_INPUT[node.op]] for node in makers))


def _is_new(tensor: Tensor | None, known: set[str]) -> bool:
    """Return whether a shape has a dimension that is not one of those known so far."""
    if tensor is None or tensor.shape is None:
        return True
    return any(dim is None or (isinstance(dim, str) and dim not in known) for dim in tensor.shape)


def _is_unbounded(node: Node, constant: set[str], producers: dict[str, Node]) -> bool:
    position = DRIVING_INPUT.get(node.op)
    if position is None or node.domain not in ("", "ai.onnx") or len(node.inputs) <= position:
        return False
    driving = node.inputs[position]
    if not driving or driving in constant:
        return False
    producer = producers.get(driving)
    return producer is None or producer.op not in _CONSTANTS
