"""Faults that are planted in a healthy model: one function a kind.

Each takes a copy of the model and a generator of random numbers, changes one place, and returns
what is to be found; None where the model has no such place. Whether the outputs change is for the
caller to see, who tries another place where they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

WEIGHED = {"Conv", "Gemm", "MatMul", "ConvTranspose", "BatchNormalization", "LSTM", "GRU", "Gather"}


class Planted(NamedTuple):
    """Where a fault is, and by which words it may be called."""

    nodes: tuple[str, ...]
    """Each names it: those that read a changed weight."""
    causes: tuple[str, ...]
    party: str = "model"
    beside: tuple[str, ...] = ()
    """Nodes that may be named with them."""


def identity(node: onnx.NodeProto) -> str:
    """Return the name of a node in a report: its own, or that of its first output."""
    return node.name or next(name for name in node.output if name)


def weights_of(
    model: onnx.ModelProto, least: int
) -> Iterator[tuple[onnx.TensorProto, list[onnx.NodeProto]]]:
    """Yield weights of a minimum number of elements, with the nodes that read them."""
    for weight in model.graph.initializer:
        if weight.data_type == onnx.TensorProto.FLOAT and np.prod(weight.dims) >= least:
            readers = [node for node in model.graph.node if weight.name in node.input]
            if readers and any(node.op_type in WEIGHED for node in readers):
                yield weight, readers


def _constants(model: onnx.ModelProto) -> None:
    """Replace Constant nodes of a model by initializers."""
    other_nodes = []
    for node in model.graph.node:
        value = (
            {a.name: a for a in node.attribute}.get("value") if node.op_type == "Constant" else None
        )
        if value is None or value.t.data_type != onnx.TensorProto.FLOAT:
            other_nodes.append(node)
            continue
        weight = model.graph.initializer.add()
        weight.CopyFrom(value.t)
        weight.name = node.output[0]
    if len(other_nodes) != len(model.graph.node):
        del model.graph.node[:]
        model.graph.node.extend(other_nodes)


def replace(weight: onnx.TensorProto, array: np.ndarray) -> None:
    """Replace the elements of a weight."""
    weight.CopyFrom(numpy_helper.from_array(np.array(array, order="C"), weight.name))


def one_of(rng: np.random.Generator, candidates: list) -> object:
    """Return a random element of a list; None if it is empty."""
    return candidates[int(rng.integers(len(candidates)))] if candidates else None


def element(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Change one element of a weight; return the fault, or None without a weight."""
    drawn = one_of(rng, list(weights_of(model, 16)))
    if drawn is None:
        return None
    weight, readers = drawn
    array = numpy_helper.to_array(weight).copy()
    place = int(rng.integers(array.size))
    size = float(np.abs(array).max()) + float(array.std())
    array.flat[place] = -np.sign(array.flat[place] or 1) * size * rng.uniform(4, 20)
    replace(weight, array)
    return Planted(tuple(map(identity, readers)), ("weight",))


def scale_weight(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Scale a weight by 1.5; return the fault, or None without a weight."""
    drawn = one_of(rng, list(weights_of(model, 4)))
    if drawn is None:
        return None
    weight, readers = drawn
    replace(weight, numpy_helper.to_array(weight) * np.float32(1.5))
    return Planted(tuple(map(identity, readers)), ("weight",))


def transpose_weight(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Transpose a square weight; return the fault, or None without such a weight."""
    square = [
        (w, r) for w, r in weights_of(model, 9) if len(w.dims) == 2 and w.dims[0] == w.dims[1]
    ]
    drawn = one_of(rng, square)
    if drawn is None:
        return None
    weight, readers = drawn
    replace(weight, numpy_helper.to_array(weight).T)
    # In a Gemm, a different `transB` has the same effect as a transposed weight.
    causes = ("weight", "attribute") if readers[0].op_type == "Gemm" else ("weight",)
    return Planted(tuple(map(identity, readers)), causes)


def epsilon(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Enlarge an epsilon of a node or variance; return the fault, or None without one."""
    weights = {weight.name: weight for weight in model.graph.initializer}
    candidates: list[tuple[onnx.NodeProto, onnx.TensorProto | None]] = []
    for node in model.graph.node:
        if node.op_type in {"BatchNormalization", "LayerNormalization", "InstanceNormalization"}:
            candidates.append((node, None))
        for name in node.input if node.op_type == "Add" else ():
            weight = weights.get(name)
            if weight is None or weight.data_type != 1 or np.prod(weight.dims) != 1:
                continue
            if 0 < numpy_helper.to_array(weight).item() < 1e-3:
                candidates.append((node, weight))
    drawn = one_of(rng, candidates)
    if drawn is None:
        return None
    node, weight = drawn
    if weight is None:
        kept_attributes = [a for a in node.attribute if a.name != "epsilon"]
        del node.attribute[:]
        node.attribute.extend([*kept_attributes, onnx.helper.make_attribute("epsilon", 0.5)])
    else:
        replace(weight, np.full_like(numpy_helper.to_array(weight), 0.5))
        readers = [node for node in model.graph.node if weight.name in node.input]
        return Planted(tuple(map(identity, readers)), ("epsilon",))
    return Planted((identity(node),), ("epsilon",))


def attribute(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Change pads, transB, alpha or an axis; return the fault, or None without them."""
    candidates = []
    squares = {
        w.name for w in model.graph.initializer if len(w.dims) == 2 and w.dims[0] == w.dims[1]
    }
    for node in model.graph.node:
        attributes = {a.name: a for a in node.attribute}
        if node.op_type in {"Conv", "MaxPool", "AveragePool"} and "pads" in attributes:
            pads = list(attributes["pads"].ints)
            if len(pads) == 4 and pads[0] and pads[2]:
                moved = [pads[0] - 1, pads[1], pads[2] + 1, pads[3]]
                candidates.append((node, "pads", moved))
        if node.op_type == "Gemm" and node.input[1] in squares:
            candidates.append(
                (node, "transB", 1 - (attributes["transB"].i if "transB" in attributes else 0))
            )
        if node.op_type == "Gemm":
            candidates.append((node, "alpha", 0.6))
        if node.op_type == "LeakyRelu":
            candidates.append((node, "alpha", 0.6))
        if node.op_type == "HardSigmoid":
            candidates.append((node, "alpha", 0.35))
        if node.op_type == "Softmax" and "axis" in attributes and attributes["axis"].i == -1:
            candidates.append((node, "axis", -2))
    drawn = one_of(rng, candidates)
    if drawn is None:
        return None
    node, name, value = drawn
    kept_attributes = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept_attributes, onnx.helper.make_attribute(name, value)])
    return Planted((identity(node),), ("attribute",))


def swap_inputs(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Exchange the two inputs of a node; return the fault, or None without such a node."""
    candidates = [
        node
        for node in model.graph.node
        if node.op_type in {"Sub", "Div", "MatMul", "Concat", "Pow"}
        and len(node.input) == 2
        and node.input[0] != node.input[1]
    ]
    node = one_of(rng, candidates)
    if node is None:
        return None
    node.input[0], node.input[1] = node.input[1], node.input[0]
    return Planted((identity(node),), ("structure",))


def drop_bias(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Remove a bias; return the fault, or None without a bias."""
    weights = {weight.name for weight in model.graph.initializer}
    producers = {name: node for node in model.graph.node for name in node.output}
    outputs = {value.name for value in model.graph.output}
    candidates: list[tuple[onnx.NodeProto, str]] = []
    for node in model.graph.node:
        if node.op_type in {"Conv", "Gemm"} and len(node.input) == 3 and node.input[2]:
            candidates.append((node, ""))
        if node.op_type == "Add" and node.output[0] not in outputs:
            for first, second in ((0, 1), (1, 0)):
                before = producers.get(node.input[first])
                if (
                    before is not None
                    and before.op_type == "MatMul"
                    and node.input[second] in weights
                ):
                    candidates.append((node, node.input[first]))
    drawn = one_of(rng, candidates)
    if drawn is None:
        return None
    node, instead = drawn
    if not instead:
        del node.input[2]
        return Planted((identity(node),), ("structure",))
    # The Add no longer exists, so accept its neighbors: the node that computes its input, and its
    # readers.
    beside = [producers[instead]]
    for reader in model.graph.node:
        if node.output[0] in reader.input:
            beside.append(reader)
            reader.input[:] = [instead if name == node.output[0] else name for name in reader.input]
    model.graph.node.remove(node)
    return Planted(tuple(map(identity, beside)), ("structure",))


def quantization(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Change the scale or zero point of a Q/DQ pair; return the fault, or None."""
    quantized = [n for n in model.graph.node if n.op_type == "QuantizeLinear" and len(n.input) == 3]
    node = one_of(rng, quantized)
    if node is None:
        return None
    weights = {weight.name: weight for weight in model.graph.initializer}
    which = int(rng.integers(1, 3))
    weight = weights.get(node.input[which])
    if weight is None:
        return None
    array = numpy_helper.to_array(weight)
    if which == 1:
        changed = (array * np.float32(rng.choice([0.4, 2.7]))).astype(array.dtype)
    else:
        changed = (array.astype(np.int64) + int(rng.choice([-40, 40]))).astype(array.dtype)
    # In half of the cases, change both nodes of the pair, as a wrong calibration would.
    both = rng.random() < 0.5
    readers = [n for n in model.graph.node if weight.name in n.input]
    if both or len(readers) == 1:
        replace(weight, changed)
        return Planted(tuple(map(identity, readers)), ("quantization", "weight"))
    copy = model.graph.initializer.add()
    copy.CopyFrom(weight)
    copy.name = weight.name + "_copy"
    replace(copy, changed)
    node.input[which] = copy.name
    return Planted((identity(node),), ("quantization", "weight"))


_OTHERS = {
    "Relu": "Sigmoid", "Sigmoid": "Tanh", "Tanh": "Sigmoid", "Add": "Sub", "Mul": "Add",
    "Sub": "Add", "HardSwish": "Sigmoid", "MaxPool": "AveragePool",
}  # fmt: skip


def another(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Replace the operator of a node; return the fault, or None without such a node."""
    node = one_of(rng, [node for node in model.graph.node if node.op_type in _OTHERS])
    if node is None:
        return None
    node.op_type = _OTHERS[node.op_type]
    return Planted((identity(node),), ("structure", "attribute"))


def missing(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Remove an activation; return the fault, at its neighbors, or None without one."""
    ops = {"Relu", "Clip", "HardSwish", "Tanh", "Erf", "PRelu", "LeakyRelu"}
    outputs = {value.name for value in model.graph.output}
    nodes = [n for n in model.graph.node if n.op_type in ops and n.output[0] not in outputs]
    gone = one_of(rng, nodes)
    if gone is None:
        return None
    beside = [node for node in model.graph.node if gone.input[0] in node.output]
    for node in model.graph.node:
        if gone.output[0] in node.input:
            beside.append(node)
            node.input[:] = [gone.input[0] if n == gone.output[0] else n for n in node.input]
    model.graph.node.remove(gone)
    return Planted(tuple(map(identity, beside)), ("structure",))


def rewire_sum(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Connect a sum to an earlier tensor; return the fault, or None without such a sum."""
    weights = {weight.name for weight in model.graph.initializer}
    nodes = list(model.graph.node)
    adds = [i for i, n in enumerate(nodes) if n.op_type == "Add" and not weights & {*n.input}]
    at = one_of(rng, adds)
    if at is None:
        return None
    node = nodes[at]
    names = [n.output[0] for n in nodes[:at] if n.op_type in ("Add", "Mul")]
    other_name = one_of(rng, [name for name in names if name not in node.input])
    if other_name is None:
        return None
    node.input[int(rng.integers(2))] = other_name
    return Planted((identity(node),), ("structure",))


Plant = Callable[[onnx.ModelProto, np.random.Generator], Planted | None]
KINDS: dict[str, Plant] = {
    "element": element,
    "scaled": scale_weight,
    "transposed": transpose_weight,
    "epsilon": epsilon,
    "attribute": attribute,
    "swapped": swap_inputs,
    "dropped": drop_bias,
    "another operator": another,
    "missing": missing,
    "rewired": rewire_sum,
    "quantization": quantization,
}


def plant_fault(
    model: onnx.ModelProto,
    kind: str,
    rng: np.random.Generator,
    kinds: Mapping[str, Plant] = KINDS,
) -> tuple[onnx.ModelProto, Planted] | None:
    """Return a copy with a fault of a kind, and the fault; None if it does not fit."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    _constants(copy)
    plan = kinds[kind](copy, rng)
    del copy.graph.value_info[:]
    return None if plan is None else (copy, plan)


def rename_all(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy in which every node, weight and inner tensor has another name."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    tensor_names = {value.name for value in [*copy.graph.input, *copy.graph.output]}
    names: dict[str, str] = {"": ""}

    def other(name: str) -> str:
        """Return the new name of a tensor; inputs and outputs keep theirs."""
        if name in tensor_names:
            return name
        return names.setdefault(name, f"t.{len(names):04d}")

    for number, node in enumerate(copy.graph.node):
        if any(
            a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
            for a in node.attribute
        ):
            raise ValueError("a model with subgraphs keeps its names")
        node.name = f"op_{number}"
        node.input[:] = [other(name) for name in node.input]
        node.output[:] = [other(name) for name in node.output]
    for weight in copy.graph.initializer:
        weight.name = other(weight.name)
    del copy.graph.value_info[:]
    return copy


def remove_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy whose nodes have no names."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in copy.graph.node:
        node.name = ""
    return copy
