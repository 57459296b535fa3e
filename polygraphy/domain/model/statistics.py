"""Size and computational cost of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import ceil, prod

from attrs import frozen

from polygraphy.domain.model.description import Model
from polygraphy.domain.model.graph import Graph, Node, Tensor
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.shapes import Dim

Shapes = Mapping[str, tuple[int, ...]]


def multiply_accumulates(node: Node, shapes: Shapes) -> int | None:
    """Return the number of multiply-accumulate operations of a node in `COUNTED_OPS`, or None.
    The result is None if unknown.

    Args:
        node: the node.
        shapes: shapes of tensors by name.

    Returns:
        The number; None where shapes that decide it are missing.
    """
    try:
        return _COUNTS[node.op](node, shapes)
    except (KeyError, IndexError, ValueError):
        return None


def _convolution_macs(node: Node, shapes: Shapes) -> int:
    # Each element of the output sums over the kernel [out, in / group, *window] of its channel.
    """Return the multiply-accumulate operations of a convolution."""
    kernel = shapes[node.inputs[_KERNEL.get(node.op, 1)]]
    return prod(shapes[node.outputs[0]]) * prod(kernel[1:])


def _transposed_convolution_macs(node: Node, shapes: Shapes) -> int:
    # Each element of the input is spread over the kernel [in, out / group, *window].
    """Return the multiply-accumulate operations of a transposed convolution."""
    return prod(shapes[node.inputs[0]]) * prod(shapes[node.inputs[1]][1:])


def _matrix_product_macs(node: Node, shapes: Shapes) -> int:
    """Return the multiply-accumulate operations of a matrix product."""
    return prod(shapes[node.outputs[0]]) * shapes[node.inputs[0]][-1]


def _gemm_macs(node: Node, shapes: Shapes) -> int:
    """Return the multiply-accumulate operations of a Gemm."""
    rows, columns = shapes[node.inputs[0]]
    depth = rows if node.attribute("transA", 0) else columns
    return prod(shapes[node.outputs[0]]) * depth


def _einsum_macs(node: Node, shapes: Shapes) -> int:
    """Return the multiply-accumulate operations of an Einsum."""
    terms = str(node.attribute("equation", "")).replace(" ", "").partition("->")[0].split(",")
    if any("." in term for term in terms):
        raise ValueError("The dimensions of an ellipsis are not named.")
    sizes = {
        letter: size
        for term, name in zip(terms, node.inputs)
        for letter, size in zip(term, shapes[name])
    }
    return prod(sizes.values())


def _recurrent_macs(node: Node, shapes: Shapes) -> int:
    # Shapes: W [directions, gates * hidden, input], R [directions, gates * hidden, hidden], and X
    # [steps, batch, input] in either layout. W and R are applied at each step of each sequence.
    """Return the multiply-accumulate operations of a recurrent operator."""
    steps, batch, _ = shapes[node.inputs[0]]
    return steps * batch * (prod(shapes[node.inputs[1]]) + prod(shapes[node.inputs[2]]))


_KERNEL = {"QLinearConv": 3}
_COUNTS: dict[str, Callable[[Node, Shapes], int]] = {
    "Conv": _convolution_macs,
    "ConvInteger": _convolution_macs,
    "ConvTranspose": _transposed_convolution_macs,
    "Einsum": _einsum_macs,
    "FusedConv": _convolution_macs,
    "GRU": _recurrent_macs,
    "Gemm": _gemm_macs,
    "LSTM": _recurrent_macs,
    "MatMul": _matrix_product_macs,
    "MatMulInteger": _matrix_product_macs,
    "QLinearConv": _convolution_macs,
    "QLinearMatMul": _matrix_product_macs,
    "RNN": _recurrent_macs,
}
COUNTED_OPS = frozenset(_COUNTS)
"""The operators that are counted."""


@frozen
class ModelStatistics:
    """Sizes and costs of one inference.

    Attributes:
        parameters: number of elements of all weights.
        weight_bytes: size in bytes.
        nodes: number of nodes, of inner graphs, too.
        ops: the number of nodes of each operator, the most frequent first.
        macs: multiply-accumulate operations of convolutions, matrix products and recurrent layers;
            both branches of a choice count, and the body of a loop counts once.
        macs_unknown: such operators whose shapes are not known, and how many there are of each.
        activation_peak: the most bytes that tensors take which live at the same time when nodes run
            one after the other in the order of the file; weights are not among them.
        peak_node: the node at which that is.
        tensors_unknown: number of tensors of the main graph that are left out there, because their
            shape or data type is not known.
        dynamic_dims: the dimensions that were counted as 1, because they are only known at run
            time; unnamed ones are called ``?``.
    """

    parameters: int
    weight_bytes: int
    nodes: int
    ops: Mapping[str, int]
    macs: int
    macs_unknown: Mapping[str, int]
    activation_peak: int
    peak_node: str
    tensors_unknown: int
    dynamic_dims: tuple[str, ...]


def statistics_of(model: Model) -> ModelStatistics:
    """Return the statistics of a model that was read with its layers, attributes and inferred
    shapes.
    """
    graphs = list(model.graph.walk())
    ops: Counter[str] = Counter()
    bodies = [Graph(nodes=function.nodes) for function in model.functions]
    for graph in (*graphs, *bodies):
        for node in graph.nodes:
            ops[f"{node.domain}.{node.op}" if node.domain else node.op] += 1
    macs, unknown = _macs(graphs)
    peak, peak_node, missing = _activation_peak(model.graph)
    inner = (graph for body in bodies for graph in body.walk())
    weights = [weight for graph in (*graphs, *inner) for weight in graph.all_weights]
    return ModelStatistics(
        parameters=sum(prod(weight.shape) for weight in weights),
        weight_bytes=sum(weight.nbytes for weight in weights),
        nodes=sum(ops.values()),
        ops=dict(sorted(ops.items(), key=lambda item: (-item[1], item[0]))),
        macs=macs,
        macs_unknown=dict(unknown),
        activation_peak=peak,
        peak_node=peak_node,
        tensors_unknown=missing,
        dynamic_dims=_dynamic_dims(graphs),
    )


def _macs(graphs: list[Graph]) -> tuple[int, Counter[str]]:
    """Return multiply-accumulate operations of graphs, and unknown nodes by operator."""
    total, unknown = 0, Counter[str]()
    known_values: dict[str, tuple[int, ...]] = {}
    for graph in graphs:
        known_values.update(_concrete_shapes(graph))
        for node in graph.nodes:
            if node.op in COUNTED_OPS:
                count = multiply_accumulates(node, known_values)
                if count is None:
                    unknown[node.op] += 1
                else:
                    total += count
    return total, unknown


def _concrete_shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Return the shapes of tensors and weights, with 1 for dynamic dimensions."""
    shapes = {
        name: _sizes(tensor.shape)
        for name, tensor in graph.tensors.items()
        if tensor.shape is not None
    }
    shapes.update({weight.name: weight.shape for weight in graph.all_weights})
    return shapes


def _is_static(dim: Dim) -> bool:
    """Return whether a dimension is a number."""
    return isinstance(dim, int) and dim >= 0


def _sizes(shape: Sequence[Dim]) -> tuple[int, ...]:
    """Return a shape with 1 for dynamic dimensions."""
    return tuple(dim if isinstance(dim, int) and dim >= 0 else 1 for dim in shape)


def _dynamic_dims(graphs: list[Graph]) -> tuple[str, ...]:
    """Return the names of the dynamic dimensions; ``?`` for those without a name."""
    names: dict[str, None] = {}
    for graph in graphs:
        for tensor in graph.tensors.values():
            for dim in tensor.shape or ():
                if not _is_static(dim):
                    names[dim if isinstance(dim, str) else "?"] = None
    return tuple(names)


def _activation_peak(graph: Graph) -> tuple[int, str, int]:
    """Return the peak size of live tensors, the node there, and how many have an unknown size."""
    weights = {weight.name for weight in graph.all_weights}
    last_use = _last_uses(graph)
    sizes: dict[str, int | None] = {tensor.name: _size(tensor) for tensor in graph.inputs}
    alive = sum(size or 0 for size in sizes.values())
    peak, peak_node = alive, "the inputs"
    dying: dict[int, list[str]] = {}
    for name, step in last_use.items():
        dying.setdefault(step, []).append(name)
    for step, node in enumerate(graph.nodes):
        for name in node.outputs:
            if name and name not in weights and name not in sizes:
                size = sizes[name] = _size(graph.tensors.get(name))
                alive += size or 0
                if name not in last_use:  # No node reads it, so it is freed after its node.
                    dying.setdefault(step, []).append(name)
        if alive > peak:
            peak, peak_node = alive, node.name or f"{node.op} (node {step})"
        for name in dying.get(step, ()):
            alive -= sizes.get(name) or 0
    return peak, peak_node, sum(size is None for size in sizes.values())


def _last_uses(graph: Graph) -> dict[str, int]:
    """Return, by tensor, the position of the last node that reads it; outputs never expire."""
    last: dict[str, int] = {}
    for step, node in enumerate(graph.nodes):
        for name in node.reads:
            last[name] = step
    last.update({tensor.name: len(graph.nodes) for tensor in graph.outputs})
    return last


def _size(tensor: Tensor | None) -> int | None:
    """Return the size of a tensor in bytes; None if unknown."""
    if tensor is None or tensor.shape is None or tensor.dtype is None:
        return None
    entry = _ENTRIES.get(tensor.dtype)
    if entry is None or not entry.itemsize:
        return None
    return ceil(prod(_sizes(tensor.shape)) * entry.itemsize)


_ENTRIES = {entry.name: entry for entry in DataType.__members__.values()}
