"""Crossed wires: two tensors of the same shape that change places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx

from .planting import Plant, Planted, identity, one_of

Place = tuple[onnx.NodeProto, int]
_STRUCTURE = ("structure", "weight", "attribute")


def _shapes(model: onnx.ModelProto) -> Mapping[str, tuple[int, ...]]:
    """Return the known shapes of float tensors; empty for a model that cannot be inferred."""
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except onnx.shape_inference.InferenceError:
        return {}
    shapes = {
        weight.name: tuple(weight.dims) for weight in graph.initializer if weight.data_type == 1
    }
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        sizes = tuple(dim.dim_value for dim in kind.shape.dim)
        if kind.elem_type == onnx.TensorProto.FLOAT and sizes and all(sizes):
            shapes[value.name] = sizes
    return shapes


def _places(model: onnx.ModelProto, names: set[str]) -> Iterator[Place]:
    """Yield each node and input position that reads one of the names."""
    for node in model.graph.node:
        for at, name in enumerate(node.input):
            if name in names:
                yield node, at


def _exchange(place: Place, other_place: Place) -> Planted:
    """Exchange the tensors that two places read, and return the fault."""
    (first, at), (second, to) = place, other_place
    first.input[at], second.input[to] = second.input[to], first.input[at]
    nodes = dict.fromkeys((identity(first), identity(second)))
    return Planted(tuple(nodes), _STRUCTURE)


def _pair(rng: np.random.Generator, places: list[Place], shapes: Mapping[str, object]) -> object:
    """Return two random places that read different tensors of one shape, or None."""
    pairs = [
        (first, place)
        for number, first in enumerate(places)
        for place in places[:number]
        if shapes[first[0].input[first[1]]] == shapes[place[0].input[place[1]]]
        and first[0].input[first[1]] != place[0].input[place[1]]
    ]
    return one_of(rng, pairs)


def _in_order(model: onnx.ModelProto) -> bool:
    """Sort the nodes of a model; return False if there is a cycle."""
    waiting, known_names = list(model.graph.node), {""}
    known_names |= {value.name for value in (*model.graph.input, *model.graph.initializer)}
    order: list[onnx.NodeProto] = []
    while waiting:
        ready = [node for node in waiting if known_names.issuperset(node.input)]
        if not ready:
            return False
        for node in ready:
            known_names.update(node.output)
        order += ready
        waiting = [node for node in waiting if not any(node is ready_node for ready_node in ready)]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in order]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    return True


def tensors(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Exchange the tensors that two nodes read; return the fault, or None without a pair."""
    shapes = _shapes(model)
    names = {name for node in model.graph.node for name in node.output} & {*shapes}
    drawn = _pair(rng, list(_places(model, names)), shapes)
    if drawn is None:
        return None
    (first, at), (second, to) = drawn  # type: ignore[misc]
    if first is second:
        return None
    plan = _exchange((first, at), (second, to))
    return plan if _in_order(model) else None


def weights(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Exchange the weights that two nodes read; return the fault, or None without a pair."""
    shapes = _shapes(model)
    names = {weight.name for weight in model.graph.initializer if np.prod(weight.dims) > 3}
    places = [(node, at) for node, at in _places(model, names & {*shapes})]
    drawn = _pair(rng, places, shapes)
    if drawn is None:
        return None
    (first, at), (second, to) = drawn  # type: ignore[misc]
    if first is second:
        return None
    return _exchange((first, at), (second, to))


def operands(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Exchange two inputs of a node, such as scale and bias; return the fault, or None."""
    shapes = _shapes(model)
    candidates = [
        (node, first, second)
        for node in model.graph.node
        if node.op_type not in ("Add", "Mul", "Max", "Min", "Sum", "Mean", "Concat")
        for first in range(len(node.input))
        for second in range(first)
        if shapes.get(node.input[first]) == shapes.get(node.input[second], ())
        and node.input[first] != node.input[second]
    ]
    drawn = one_of(rng, candidates)
    if drawn is None:
        return None
    node, first, second = drawn  # type: ignore[misc]
    return _exchange((node, first), (node, second))


def ends(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Exchange two outputs of a node for their readers; return the fault, or None."""
    shapes = _shapes(model)
    candidates = [
        (node, first, second)
        for node in model.graph.node
        for first in node.output
        for second in node.output
        if first < second and shapes.get(first) == shapes.get(second, ())
    ]
    drawn = one_of(rng, candidates)
    if drawn is None:
        return None
    node, first, second = drawn  # type: ignore[misc]
    names = {first: second, second: first}
    readers = [reader for reader in model.graph.node if {first, second} & {*reader.input}]
    for reader in readers:
        reader.input[:] = [names.get(name, name) for name in reader.input]
    return Planted((identity(node), *map(identity, readers)), _STRUCTURE)


def parts(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Reorder the inputs of a Concat; return the fault, or None without a Concat."""
    node = one_of(rng, [n for n in model.graph.node if n.op_type == "Concat" and len(n.input) > 1])
    if node is None:
        return None
    names = [*node.input]  # type: ignore[attr-defined]
    node.input[:] = [names[at] for at in rng.permutation(len(names))]  # type: ignore[attr-defined]
    return Planted((identity(node),), _STRUCTURE)  # type: ignore[arg-type]


def branches(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Exchange the branches of a Where; return the fault, or None without a Where."""
    node = one_of(rng, [n for n in model.graph.node if n.op_type == "Where"])
    if node is None:
        return None
    return _exchange((node, 1), (node, 2))  # type: ignore[arg-type]


WIRED: dict[str, Plant] = {
    "wires: tensors": tensors,
    "wires: weights": weights,
    "wires: operands": operands,
    "wires: ends": ends,
    "wires: parts": parts,
    "wires: branches": branches,
}
