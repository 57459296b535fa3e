"""Models, and data, that break the ONNX specification in one node: no backend is at fault."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

from .hosts import Net

INTEGER, BOOLEAN = np.int64, np.bool_


def _slope(net: Net, t: str) -> str:
    """Add a PRelu whose slope is too long, and return the name of its output."""
    wide = net.shapes[t][-1] + 1
    return net.same("PRelu", t, net.constant(np.full(wide, 0.2)))


def _addend(net: Net, t: str) -> str:
    """Add a tensor of a wrong size to another, and return the name of the sum."""
    return net.same("Add", t, net.constant(np.ones(net.shapes[t][-1] + 2)))


def _index(net: Net, t: str) -> str:
    """Add a Gather whose index is too large, and return the name of its output."""
    axis = int(net.rng.integers(len(net.shapes[t])))
    size = net.shapes[t][axis]
    indices = np.arange(size)
    indices[int(net.rng.integers(size))] = size + int(net.rng.integers(9))
    return net.same("Gather", t, net.constant(indices, INTEGER), axis=axis)


def _elements(net: Net, t: str) -> str:
    """Add a GatherElements whose index is too large, and return its output's name."""
    shape = net.shapes[t]
    indices = np.zeros(shape)
    indices.flat[-1] = shape[-1]
    return net.same("GatherElements", t, net.constant(indices, INTEGER), axis=len(shape) - 1)


def _sizes(net: Net, t: str) -> str:
    """Add a Reshape to more elements, and return the name of its output."""
    shape = [*net.shapes[t]]
    shape[-1] += 1
    return net.same("Reshape", t, net.constant(shape, INTEGER))


def _order(net: Net, t: str) -> str:
    """Add a Transpose that names an axis twice, and return the name of its output."""
    rank = len(net.shapes[t])
    return net.same("Transpose", t, perm=[*range(rank - 1), 0])


def _axis(net: Net, t: str) -> str:
    """Add a Softmax over a missing axis, and return the name of its output."""
    op = str(net.rng.choice(["Softmax", "LogSoftmax", "Hardmax"]))
    return net.same(op, t, axis=len(net.shapes[t]) + int(net.rng.integers(3)))


def _spread(net: Net, t: str) -> str:
    """Add an Expand to a size that does not fit, and return the name of its output."""
    return net.same("Expand", t, net.constant([*net.shapes[t][:-1], 7919], INTEGER))


def _repeats(net: Net, t: str) -> str:
    """Add a Tile with a count too few, and return the name of its output."""
    return net.same("Tile", t, net.constant([1] * (len(net.shapes[t]) - 1), INTEGER))


def _edges(net: Net, t: str) -> str:
    """Add a Pad with a number too few, and return the name of its output."""
    return net.same("Pad", t, net.constant([0] * (2 * len(net.shapes[t]) - 1), INTEGER))


def _bound(net: Net, t: str) -> str:
    """Add a Clip whose minimum is not a scalar, and return the name of its output."""
    return net.same("Clip", t, net.constant(np.full(3, -1.0)))


def _parts(net: Net, t: str) -> str:
    """Add a Split whose sizes are too large, and return the name of its first output."""
    size = net.shapes[t][-1]
    sizes = net.constant([size, 1], INTEGER)
    first, _ = net.node("Split", t, sizes, outputs=2, axis=len(net.shapes[t]) - 1)
    return net.shaped(first, net.shapes[t])


def _channels(net: Net, t: str) -> str:
    """Add a BatchNormalization without its channel size, and return its output's name."""
    shape = net.shapes[t]
    weights = [net.constant(np.ones((1, shape[1]))) for _ in range(4)]
    return net.same("BatchNormalization", t, *weights)


def _step(net: Net, t: str) -> str:
    """Add a Slice with step 0, and return the name of its output."""
    numbers = [net.constant([n], INTEGER) for n in (0, net.shapes[t][-1], -1, 0)]
    return net.same("Slice", t, *numbers)


def _kind(net: Net, t: str) -> str:
    """Multiply a tensor by a weight of another type, and return the product's name."""
    return net.same("Mul", t, net.constant(1.5, np.float64))


def _terms(net: Net, t: str) -> str:
    """Add an Einsum for fewer axes, and return the name of its output."""
    letters = "abcd"[: len(net.shapes[t]) - 1]
    return net.same("Einsum", t, equation=f"{letters}->{letters}")


INVALID: dict[str, Callable[[Net, str], str]] = {
    "slope": _slope, "broadcast": _addend, "index": _index, "elements": _elements,
    "reshape": _sizes, "perm": _order, "axis": _axis, "expand": _spread, "repeats": _repeats,
    "pads": _edges, "bound": _bound, "split": _parts, "channels": _channels, "step": _step,
    "types": _kind, "einsum": _terms,
}  # fmt: skip
"""What adds a node to a network that is against the specification."""


def embed_invalid(kind: str) -> Callable[[Net, str], str]:
    """Return a function that adds an invalid node of a kind, which must be found."""

    def build(net: Net, t: str) -> str:
        """Add the invalid node after a tensor, and return the name of its output."""
        with net.culprit():
            return INVALID[kind](net, t)

    return build


def declare_type(model: onnx.ModelProto, rng: np.random.Generator) -> str:
    """Declare a wrong data type for the output of a node; return the name of the node."""
    nodes = [n for n in model.graph.node if n.op_type in ("Add", "Mul", "MatMul", "Conv", "Gemm")]
    ends = {value.name for value in model.graph.output}
    node = [n for n in nodes if n.output[0] not in ends][int(rng.integers(2))]
    kind = onnx.TensorProto.FLOAT16 if rng.random() < 0.5 else onnx.TensorProto.INT64
    model.graph.value_info.append(helper.make_tensor_value_info(node.output[0], kind, None))
    return node.name or node.output[0]


def add_lookup(
    model: onnx.ModelProto, rng: np.random.Generator
) -> tuple[str, dict[str, np.ndarray]]:
    """Add a lookup in a table to a model; return its node, and data with an invalid index."""
    graph = model.graph
    first = graph.input[0]
    shape = [dim.dim_value for dim in first.type.tensor_type.shape.dim]
    rows = int(rng.integers(3, 9))
    table = rng.standard_normal((rows, shape[-1])).astype(np.float32)
    graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
    graph.input.append(helper.make_tensor_value_info("rows", onnx.TensorProto.INT64, [shape[-2]]))
    for node in graph.node:
        node.input[:] = ["looked_up" if name == first.name else name for name in node.input]
    graph.node.insert(0, helper.make_node("Add", [first.name, "row"], ["looked_up"], "lookup/add"))
    graph.node.insert(0, helper.make_node("Gather", ["table", "rows"], ["row"], "lookup"))
    indices = rng.integers(0, rows, shape[-2])
    indices[-1] = rows + int(rng.integers(5))
    return "lookup", {"rows": indices.astype(np.int64)}
