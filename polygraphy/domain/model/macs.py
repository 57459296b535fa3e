"""How many multiply-accumulate operations an operator takes, by its shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from polygraphy.domain.model.description import Node

Shapes = Mapping[str, tuple[int, ...]]


def multiply_accumulates(node: Node, shapes: Shapes) -> int | None:
    """Return how many multiply-accumulate operations a node of `COUNTED_OPS` takes.

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


def _convolution(node: Node, shapes: Shapes) -> int:
    # Each element of the output sums over the kernel [out, in / group, *window] of its channel.
    kernel = shapes[node.inputs[_KERNEL.get(node.op, 1)]]
    return prod(shapes[node.outputs[0]]) * prod(kernel[1:])


def _transposed_convolution(node: Node, shapes: Shapes) -> int:
    # Each element of the input is spread over the kernel [in, out / group, *window].
    return prod(shapes[node.inputs[0]]) * prod(shapes[node.inputs[1]][1:])


def _matrix_product(node: Node, shapes: Shapes) -> int:
    return prod(shapes[node.outputs[0]]) * shapes[node.inputs[0]][-1]


def _gemm(node: Node, shapes: Shapes) -> int:
    rows, columns = shapes[node.inputs[0]]
    depth = rows if node.attribute("transA", 0) else columns
    return prod(shapes[node.outputs[0]]) * depth


def _einsum(node: Node, shapes: Shapes) -> int:
    terms = str(node.attribute("equation", "")).replace(" ", "").partition("->")[0].split(",")
    if any("." in term for term in terms):
        raise ValueError("The dimensions of an ellipsis are not named.")
    sizes = {
        letter: size
        for term, name in zip(terms, node.inputs)
        for letter, size in zip(term, shapes[name])
    }
    return prod(sizes.values())


def _recurrent(node: Node, shapes: Shapes) -> int:
    # W is [directions, gates * hidden, input], R is [directions, gates * hidden, hidden]; both are
    # applied at each step of each sequence: X is [steps, batch, input] in either layout.
    steps, batch, _ = shapes[node.inputs[0]]
    return steps * batch * (prod(shapes[node.inputs[1]]) + prod(shapes[node.inputs[2]]))


_KERNEL = {"QLinearConv": 3}
_COUNTS: dict[str, Callable[[Node, Shapes], int]] = {
    "Conv": _convolution,
    "ConvInteger": _convolution,
    "ConvTranspose": _transposed_convolution,
    "Einsum": _einsum,
    "FusedConv": _convolution,
    "GRU": _recurrent,
    "Gemm": _gemm,
    "LSTM": _recurrent,
    "MatMul": _matrix_product,
    "MatMulInteger": _matrix_product,
    "QLinearConv": _convolution,
    "QLinearMatMul": _matrix_product,
    "RNN": _recurrent,
}
COUNTED_OPS = frozenset(_COUNTS)
"""The operators that are counted."""
