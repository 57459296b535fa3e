"""Wrong parameters in quantized models, one function for each kind.

Each takes a host and a model that was quantized from it, and changes the model (and the host, if
its weights have to fit); it returns the tensor at which a parameter is wrong, or None if the model
has no place for this fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

from .hosts import Host

Array = Any


class Fault(NamedTuple):
    """What is wrong: the tensors of which one is to be named, and the words for the cause."""

    tensors: tuple[str, ...]
    causes: tuple[str, ...]


class _Graph:
    def __init__(self, model: onnx.ModelProto) -> None:
        """Wrap the graph of a model."""
        self.model, self.graph = model, model.graph

    def array(self, name: str) -> Array:
        """Return the value of a weight."""
        return numpy_helper.to_array(next(w for w in self.graph.initializer if w.name == name))

    def has(self, name: str) -> bool:
        """Return whether a name is a weight."""
        return any(w.name == name for w in self.graph.initializer)

    def set(self, name: str, array: Array) -> None:
        """Set the value of a weight, or add the weight."""
        for weight in self.graph.initializer:
            if weight.name == name:
                weight.CopyFrom(numpy_helper.from_array(np.asarray(array), name))
                return
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))

    def zero(self, node: onnx.NodeProto) -> Array:
        """Return the zero point of a node."""
        return self.array(node.input[2]).reshape(())

    def nodes(self, op: str) -> Iterator[onnx.NodeProto]:
        """Return the nodes of an operator."""
        return (node for node in self.graph.node if node.op_type == op)

    def activations(self) -> list[tuple[onnx.NodeProto, list[onnx.NodeProto]]]:
        """Return the Q/DQ pairs whose parameters no other pair reads."""
        candidates = []
        for node in self.nodes("QuantizeLinear"):
            readers = [
                node_behind
                for node_behind in self.nodes("DequantizeLinear")
                if node_behind.input[0] == node.output[0]
            ]
            is_weight = self.has(node.input[0])
            uses = sum(node.input[1] in reader.input for reader in self.graph.node)
            is_one = all(self.has(name) and self.array(name).size == 1 for name in node.input[1:])
            is_one = is_one and len(node.input) > 2
            if readers and is_one and not is_weight and uses == 1 + len(readers):
                candidates.append((node, readers))
        return candidates

    def weights(self, kind: str) -> list[onnx.NodeProto]:
        """Return the DequantizeLinear nodes that read a quantized bias or weight."""
        return [
            node
            for node in self.nodes("DequantizeLinear")
            if self.has(node.input[0])
            and self.array(node.input[0]).dtype.name
            in (("int32",) if kind == "bias" else ("int8", "uint8"))
            and self.array(node.input[0]).size > 8
        ]


def _names(name: str) -> tuple[str, ...]:
    """Return the names of a tensor; one includes the name of a Relu that was removed."""
    return (name,)


def _choose(rng: np.random.Generator, items: list[Any]) -> Any:
    """Return a random item, or None without items."""
    return items[int(rng.integers(len(items)))] if items else None


def clipped(host: Host, model: onnx.ModelProto, rng: np.random.Generator) -> Fault | None:
    """Shrink the range of an activation to a tenth; return the fault, or None."""
    graph = _Graph(model)
    pair = _choose(rng, graph.activations())
    if pair is None:
        return None
    name = pair[0].input[1]
    graph.set(name, (graph.array(name) * rng.uniform(0.05, 0.25)).astype(np.float32))
    return Fault(_names(pair[0].input[0]), ("clipped range",))


def wide(host: Host, model: onnx.ModelProto, rng: np.random.Generator) -> Fault | None:
    """Enlarge a range tenfold or more; return the fault, or None without a pair."""
    graph = _Graph(model)
    pair = _choose(rng, graph.activations())
    if pair is None:
        return None
    name = pair[0].input[1]
    graph.set(name, (graph.array(name) * rng.uniform(10, 40)).astype(np.float32))
    return Fault(_names(pair[0].input[0]), ("wide range",))


def zero_point(host: Host, model: onnx.ModelProto, rng: np.random.Generator) -> Fault | None:
    """Shift a zero point by a quarter of the codes; return the fault, or None."""
    graph = _Graph(model)
    pairs = [p for p in graph.activations() if graph.zero(p[0]).dtype.name in ("uint8", "int8")]
    pair = _choose(rng, pairs)
    if pair is None:
        return None
    zero = graph.zero(pair[0])
    info = np.iinfo(zero.dtype)
    middle = (int(info.max) + int(info.min) + 1) // 2
    step = int(rng.integers(40, 90))
    moved = int(zero) + (step if int(zero) < middle else -step)
    name = f"{pair[0].input[2]}_moved"
    graph.set(name, np.array(moved, zero.dtype))
    for node in (pair[0], *pair[1]):
        node.input[2] = name
    return Fault(_names(pair[0].input[0]), ("zero point",))


def signedness(host: Host, model: onnx.ModelProto, rng: np.random.Generator) -> Fault | None:
    """Store signed values without a sign; return the fault, or None without such values."""
    graph = _Graph(model)
    pairs = [
        p
        for p in graph.activations()
        if (graph.zero(p[0]).dtype.name, int(graph.zero(p[0]))) in (("int8", 0), ("uint8", 128))
        or 118
        <= int(graph.zero(p[0])) + (128 if graph.zero(p[0]).dtype.name == "int8" else 0)
        <= 138
    ]
    pair = _choose(rng, pairs)
    if pair is None:
        return None
    zero = graph.zero(pair[0])
    name = f"{pair[0].input[2]}_unsigned"
    graph.set(name, np.array(np.iinfo(zero.dtype).min, zero.dtype))
    for node in (pair[0], *pair[1]):
        node.input[2] = name
    return Fault(_names(pair[0].input[0]), ("signedness",))


def pair_mismatch(host: Host, model: onnx.ModelProto, rng: np.random.Generator) -> Fault | None:
    """Change the scale of a DequantizeLinear alone; return the fault, or None."""
    graph = _Graph(model)
    pair = _choose(rng, graph.activations())
    if pair is None:
        return None
    name = f"{pair[0].input[1]}_other"
    graph.set(name, (graph.array(pair[0].input[1]) * rng.uniform(1.5, 3)).astype(np.float32))
    for node in pair[1]:
        node.input[1] = name
    return Fault(_names(pair[0].input[0]), ("pair mismatch",))


def missing_pair(host: Host, model: onnx.ModelProto, rng: np.random.Generator) -> Fault | None:
    """Remove the pair after a Relu for some readers; return the fault, or None."""
    graph = _Graph(model)
    names_left = {node.name for node in model.graph.node}
    gone = [node for node in host.model.graph.node if node.op_type in ("Relu", "Clip")]
    removed = {node.output[0] for node in gone if node.name not in names_left}
    pair = _choose(
        rng, [activation for activation in graph.activations() if activation[0].input[0] in removed]
    )
    if pair is None:
        return None
    names = {reader.output[0] for reader in pair[1]}
    reads = [
        (node, at)
        for node in graph.graph.node
        for at, name in enumerate(node.input)
        if name in names
    ]
    source = pair[0].input[0]
    if len(reads) > 1 and rng.random() < 0.5:
        node, at = _choose(rng, reads)
        node.input[at] = source
        return Fault((source,), ("missing pair",))
    for node, at in reads:
        node.input[at] = source
    for node in (pair[0], *pair[1]):
        graph.graph.node.remove(node)
    return Fault((source,), ("missing pair",))


def scale_order(host: Host, model: onnx.ModelProto, rng: np.random.Generator) -> Fault | None:
    """Permute the scales of the channels of a weight; return the fault, or None."""
    graph = _Graph(model)
    nodes = [node for node in graph.weights("weight") if graph.array(node.input[1]).size > 4]
    node = _choose(rng, nodes)
    if node is None:
        return None
    scale = graph.array(node.input[1])
    graph.set(
        f"{node.input[1]}_order",
        scale[rng.permutation(scale.size)] if rng.random() < 0.5 else np.roll(scale, 1),
    )
    node.input[1] = f"{node.input[1]}_order"
    return Fault(_weight_names(node), ("scale order",))


def weight_scale(host: Host, model: onnx.ModelProto, rng: np.random.Generator) -> Fault | None:
    """Change the scale of a weight by a factor; return the fault, or None."""
    graph = _Graph(model)
    node = _choose(rng, graph.weights("weight"))
    if node is None:
        return None
    scale = graph.array(node.input[1])
    graph.set(f"{node.input[1]}_wrong", (scale * rng.choice([0.25, 0.5, 3])).astype(scale.dtype))
    node.input[1] = f"{node.input[1]}_wrong"
    return Fault(_weight_names(node), ("weight scale", "scale"))


def bias_scale(host: Host, model: onnx.ModelProto, rng: np.random.Generator) -> Fault | None:
    """Quantize a bias with the scale of a different input; return the fault, or None."""
    graph = _Graph(model)
    nodes = [n for n in graph.weights("bias") if np.abs(graph.array(n.input[0])).max() > 20]
    node = _choose(rng, nodes)
    if node is None:
        return None
    codes = graph.array(node.input[0])
    graph.set(node.input[0], np.rint(codes * rng.choice([4.0, 8.0, -3.0])).astype(np.int32))
    return Fault(_weight_names(node), ("bias scale",))


def shrink_channels(host: Host, rng: np.random.Generator) -> str:
    """Shrink the weights of some channels of a Conv, and return the name of the node."""
    weights = {weight.name: weight for weight in host.model.graph.initializer}
    convs = [n for n in host.model.graph.node if n.op_type == "Conv" and len(n.input) > 2]
    node = convs[int(rng.integers(len(convs) - 1))]
    weight, bias = (numpy_helper.to_array(weights[name]).copy() for name in node.input[1:3])
    channels = rng.permutation(len(weight))[: max(2, len(weight) // 3)]
    weight[channels] *= 1e-9
    bias[channels] = rng.choice([-1, 1], len(channels)) * rng.uniform(0.5, 1.5, len(channels))
    for name, array in zip(node.input[1:3], (weight, bias)):
        weights[name].CopyFrom(numpy_helper.from_array(array.astype(np.float32), name))
    return node.name


def clip_biases(host: Host, model: onnx.ModelProto, layer: str) -> Fault:
    """Quantize a Conv with scales that clip its biases, and return the fault."""
    graph = _Graph(model)
    weights = {
        weight.name: numpy_helper.to_array(weight) for weight in host.model.graph.initializer
    }
    twin = next(n for n in host.model.graph.node if n.name == layer)
    node = next(n for n in graph.nodes("Conv") if n.name == layer)
    makers = {node.output[0]: node for node in graph.nodes("DequantizeLinear")}
    reads, weight, bias = (makers[name] for name in node.input[:3])
    exact, float_bias = weights[twin.input[1]], weights[twin.input[2]]
    largest = np.abs(exact).reshape(len(exact), -1).max(1)
    scale = (largest / 127).astype(np.float32)
    shape = (-1,) + (1,) * (exact.ndim - 1)
    graph.set(weight.input[1], scale)
    graph.set(weight.input[0], np.rint(exact / scale.reshape(shape)).astype(np.int8))
    scale = (scale * graph.array(reads.input[1]).reshape(())).astype(np.float32)
    codes = np.clip(np.rint(float_bias / scale.astype(np.float64)), -(2**31 - 1), 2**31 - 1)
    graph.set(bias.input[1], scale)
    graph.set(bias.input[0], codes.astype(np.int32))
    return Fault(_weight_names(bias), ("clipped bias",))


def _blocks(graph: _Graph, rng: np.random.Generator) -> onnx.NodeProto | None:
    """Return a random MatMulNBits node, or None."""
    chosen: onnx.NodeProto | None = _choose(rng, list(graph.nodes("MatMulNBits")))
    return chosen


def _bits(node: onnx.NodeProto) -> int:
    """Return the number of bits of a MatMulNBits node."""
    return next((attribute.i for attribute in node.attribute if attribute.name == "bits"), 4)


def nibble_order(host: Host, model: onnx.ModelProto, rng: np.random.Generator) -> Fault | None:
    """Exchange the halves of each byte of a 4-bit weight; return the fault, or None."""
    graph = _Graph(model)
    node = _blocks(graph, rng)
    if node is None or _bits(node) != 4:
        return None
    packed = graph.array(node.input[1])
    graph.set(node.input[1], (packed >> 4) | (packed << 4))
    return Fault((node.output[0],), ("nibble order",))


def block_zero_point(host: Host, model: onnx.ModelProto, rng: np.random.Generator) -> Fault | None:
    """Remove or change the zero points of blocks; return the fault, or None."""
    graph = _Graph(model)
    node = _blocks(graph, rng)
    if node is None:
        return None
    bits = _bits(node)
    if len(node.input) > 3 and node.input[3] and rng.random() < 0.5:
        del node.input[3:]
        return Fault((node.output[0],), ("block zero point",))
    options = {attribute.name: attribute.i for attribute in node.attribute}
    count = -(-options["K"] // options["block_size"])
    per_byte = 8 // bits
    off = 2 ** (bits - 1) + int(rng.choice([-1, 1])) * max(1, 2 ** (bits - 3))
    codes = np.full(
        (options["N"], -(-count // per_byte)),
        sum(off << (at * bits) for at in range(per_byte)),
        np.uint8,
    )
    if len(node.input) > 3:
        shape = graph.array(node.input[3]).shape if node.input[3] else ()
        del node.input[3:]
        codes = codes.reshape(shape) if int(np.prod(shape)) == codes.size else codes
    node.input.append(f"{node.input[1]}_zero")
    graph.set(node.input[3], codes.reshape(-1))
    return Fault((node.output[0],), ("block zero point",))


def block_scales(host: Host, model: onnx.ModelProto, rng: np.random.Generator) -> Fault | None:
    """Permute the scales of the blocks; return the fault, or None without blocks."""
    graph = _Graph(model)
    node = _blocks(graph, rng)
    if node is None:
        return None
    scale = graph.array(node.input[2])
    graph.set(node.input[2], rng.permutation(scale.reshape(-1)).reshape(scale.shape))
    return Fault((node.output[0],), ("scale order",))


def integer_weight(host: Host, model: onnx.ModelProto, rng: np.random.Generator) -> Fault | None:
    """Change the weight scale of a dynamically quantized model; return the fault, or None."""
    graph = _Graph(model)
    nodes = [n for op in ("MatMulInteger", "ConvInteger") for n in graph.nodes(op)]
    node = _choose(rng, nodes)
    if node is None:
        return None
    stem = node.input[1].removesuffix("_quantized")
    if not graph.has(f"{stem}_scale"):
        return None
    scale = graph.array(f"{stem}_scale")
    graph.set(f"{stem}_scale", (scale * rng.choice([0.3, 3])).astype(np.float32))
    names = (stem, stem.removesuffix("_Transposed"))
    return Fault(names, ("weight scale", "scale"))


def operator_scale(host: Host, model: onnx.ModelProto, rng: np.random.Generator) -> Fault | None:
    """Change the output scale of an operator such as QLinearConv; return the fault, or None."""
    graph = _Graph(model)
    places = {"QLinearConv": 6, "QLinearMatMul": 6, "QGemm": 7}
    node = _choose(rng, [node for kind in places for node in graph.nodes(kind)])
    if node is None or not graph.has(node.input[places[node.op_type]]):
        return None
    name, is_wide = node.input[places[node.op_type]], bool(rng.integers(2))
    factor = rng.uniform(3, 30) if is_wide else rng.uniform(0.05, 0.25)
    graph.set(name, (graph.array(name) * factor).astype(np.float32))
    stem = node.output[0].removesuffix("_quantized")
    behind = [
        node_behind
        for node_behind in host.model.graph.node
        if node_behind.op_type in ("Relu", "Clip")
    ]
    names = (stem, *(activation.output[0] for activation in behind if stem in activation.input))
    return Fault(names, ("wide range" if is_wide else "clipped range",))


def _weight_names(node: onnx.NodeProto) -> tuple[str, ...]:
    """Return the names of the dequantized and of the original weight of a node."""
    return node.output[0], node.input[0].removesuffix("_quantized")


KINDS: dict[str, Callable[[Host, onnx.ModelProto, np.random.Generator], Fault | None]] = {
    plant.__name__: plant
    for plant in (
        clipped,
        wide,
        zero_point,
        signedness,
        pair_mismatch,
        missing_pair,
        scale_order,
        weight_scale,
        bias_scale,
        nibble_order,
        block_zero_point,
        block_scales,
        integer_weight,
        operator_scale,
    )
}


def changed_data(host: Host, rng: np.random.Generator) -> list[dict[str, Array]]:
    """Return calibration data that are much smaller than the real data."""
    factor = rng.uniform(0.05, 0.2)
    return [
        {
            name: (array * factor).astype(array.dtype) if array.dtype.kind == "f" else array
            for name, array in feed.items()
        }
        for feed in host.calibration
    ]
