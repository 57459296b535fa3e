"""Faults that `faults` does not plant: nodes that are too many, and parts that changed places."""

from __future__ import annotations

import numpy as np
import onnx
from faults.planting import Plant, Planted, identity, one_of
from onnx import helper, numpy_helper


def _types(model: onnx.ModelProto) -> dict[str, tuple[int, list[int]]]:
    """Return data type and shape of each tensor with a fixed shape, by name."""
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {}
    for value in (*inferred.graph.value_info, *inferred.graph.input):
        kind = value.type.tensor_type
        dims = [dim.dim_value for dim in kind.shape.dim]
        if dims and all(dims):
            types[value.name] = (kind.elem_type, dims)
    return types


def _readers(model: onnx.ModelProto, name: str) -> list[onnx.NodeProto]:
    """Return the nodes that read a tensor."""
    return [node for node in model.graph.node if name in node.input]


def _behind(
    model: onnx.ModelProto, node: onnx.NodeProto, op: str, *more: str, **attributes: object
) -> Planted:
    """Insert a node after another, and return the fault, at the new node or next to it."""
    readers = _readers(model, node.output[0])
    name = f"{node.output[0]}/inserted"
    for reader in readers:
        reader.input[:] = [
            name if operand == node.output[0] else operand for operand in reader.input
        ]
    read = [node.output[0], *more]
    inserted = helper.make_node(op, read, [name], f"{identity(node)}/extra", **attributes)
    at = next(i for i, candidate in enumerate(model.graph.node) if candidate.output == node.output)
    model.graph.node.insert(at + 1, inserted)
    beside = tuple(identity(neighbor) for neighbor in (node, *readers))
    return Planted((inserted.name,), ("structure",), beside=beside)


def _inner(model: onnx.ModelProto, least: int = 1) -> list[onnx.NodeProto]:
    """Return inner nodes that compute floats of a fixed shape."""
    types, outputs = _types(model), {value.name for value in model.graph.output}
    return [
        node
        for node in model.graph.node
        if len(node.output) == 1
        and node.op_type != "Constant"
        and node.output[0] not in outputs
        and types.get(node.output[0], (0, []))[0] == onnx.TensorProto.FLOAT
        and len(types[node.output[0]][1]) >= least
    ]


def columns(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Insert a Gather that exchanges two columns; return the fault, or None."""
    types = _types(model)
    nodes = [n for n in _inner(model, 2) if types[n.output[0]][1][-1] > 3]
    node = one_of(rng, nodes)
    if node is None:
        return None
    order = np.arange(types[node.output[0]][1][-1])
    first, second = rng.choice(order.size, 2, replace=False)
    order[[first, second]] = order[[second, first]]
    weight = numpy_helper.from_array(order, f"{node.output[0]}/order")
    model.graph.initializer.append(weight)
    return _behind(model, node, "Gather", weight.name, axis=-1)


def extra(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Insert an extra activation or product; return the fault, or None."""
    node = one_of(rng, _inner(model))
    if node is None:
        return None
    op = str(rng.choice(["Tanh", "Relu", "Neg", "Mul"]))
    if op != "Mul":
        return _behind(model, node, op)
    number = numpy_helper.from_array(np.float32(rng.choice([0.9, 1.05, 2.0])), "a number")
    model.graph.initializer.append(number)
    return _behind(model, node, "Mul", number.name)


def bounds(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Shift the start of a Slice or Split by one; return the fault, or None."""
    weights = {weight.name: weight for weight in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            weights[node.output[0]] = node.attribute[0].t
    places = [
        (node, at)
        for node in model.graph.node
        for at in ((1, 2) if node.op_type == "Slice" else (1,) if node.op_type == "Gather" else ())
        if at < len(node.input)
        and node.input[at] in weights
        and np.prod(weights[node.input[at]].dims) == 1
    ]
    drawn = one_of(rng, places)
    if drawn is None:
        return None
    node, at = drawn
    array = numpy_helper.to_array(weights[node.input[at]])
    moved = array + (1 if rng.random() < 0.5 or not array.reshape(-1)[0] else -1)
    name = f"{node.input[at]}/moved"
    model.graph.initializer.append(numpy_helper.from_array(moved.astype(array.dtype), name))
    node.input[at] = name
    return Planted((identity(node),), ("weight", "attribute", "structure"))


def exchange_weights(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Exchange the weights of two nodes; return the fault, or None without a pair."""
    weights = {w.name: tuple(w.dims) for w in model.graph.initializer if np.prod(w.dims) > 8}
    pairs = [
        (first, second)
        for i, first in enumerate(model.graph.node)
        for second in list(model.graph.node)[i + 1 :]
        if first.op_type == second.op_type
        and first.op_type in ("Conv", "MatMul", "Gemm")
        and first.input[1] in weights
        and first.input[1] != second.input[1]
        and weights[first.input[1]] == weights.get(second.input[1])
    ]
    drawn = one_of(rng, pairs)
    if drawn is None:
        return None
    first, second = drawn
    nodes = [first, second]
    if first.input[0] == second.input[0]:
        # If both read the same input, exchanged readers have the same effect.
        nodes += [*_readers(model, first.output[0]), *_readers(model, second.output[0])]
    first.input[1], second.input[1] = second.input[1], first.input[1]
    return Planted(tuple(map(identity, nodes)), ("weight", "structure"))


def skip_node(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Connect the readers of a node to its input; return the fault, or None."""
    types = _types(model)
    nodes = [
        node
        for node in _inner(model, 2)
        if node.op_type in ("Conv", "MatMul", "Gemm", "Add", "Mul", "LayerNormalization", "Softmax")
        and types.get(node.input[0]) == types[node.output[0]]
    ]
    node = one_of(rng, nodes)
    if node is None:
        return None
    readers = _readers(model, node.output[0])
    before = [maker for maker in model.graph.node if node.input[0] in maker.output]
    for reader in readers:
        reader.input[:] = [node.input[0] if n == node.output[0] else n for n in reader.input]
    model.graph.node.remove(node)
    return Planted(tuple(map(identity, (*before, *readers))), ("structure",))


def concat_order(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Reorder the inputs of a Concat; return the fault, or None without a Concat."""
    types = _types(model)
    nodes = [
        node
        for node in model.graph.node
        if node.op_type == "Concat"
        and len({*node.input}) == len(node.input) > 1
        and types.get(node.output[0], (0, []))[0] == onnx.TensorProto.FLOAT
    ]
    node = one_of(rng, nodes)
    if node is None:
        return None
    at = int(rng.integers(len(node.input) - 1))
    read = list(node.input)
    read[at], read[at + 1] = read[at + 1], read[at]
    node.input[:] = read
    return Planted((identity(node),), ("structure",))


def cast(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Cast a tensor to integers and back; return the fault, or None."""
    node = one_of(rng, _inner(model, 2))
    if node is None:
        return None
    planted = _behind(model, node, "Round")
    inserted = next(node for node in model.graph.node if node.name == planted.nodes[0])
    inserted.op_type = str(rng.choice(["Round", "Floor"]))
    return planted


def wrong_pads(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Move the padding of a convolution or pool to the other side; return the fault, or None."""
    places = [
        (node, attribute)
        for node in model.graph.node
        for attribute in node.attribute
        if attribute.name == "pads" and any(attribute.ints)
    ]
    drawn = one_of(rng, places)
    if drawn is None:
        return None
    node, attribute = drawn
    pads = list(attribute.ints)
    rank = len(pads) // 2
    at = int(rng.choice([i for i, pad in enumerate(pads) if pad]))
    pads[at], pads[(at + rank) % (2 * rank)] = pads[at] - 1, pads[(at + rank) % (2 * rank)] + 1
    attribute.ints[:] = pads
    return Planted((identity(node),), ("attribute",))


KINDS: dict[str, Plant] = {
    "concat order": concat_order,
    "cast": cast,
    "pads": wrong_pads,
    "columns": columns,
    "extra node": extra,
    "bounds": bounds,
    "exchanged": exchange_weights,
    "skipped": skip_node,
}
