"""Networks that faults are embedded in: a CNN, a transformer encoder and a U-Net, drawn by a seed.

Widths, depths, names and the style of naming vary; weights keep the size of what passes through
them, so that rounding stays small and a fault anywhere reaches the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Embed = Callable[["Net", str], str]
STYLES = ("plain", "exporter", "unnamed")


class Net:
    """Collects the nodes and weights of a model; remembers which nodes are the fault's own."""

    def __init__(self, seed: int, style: str = "plain", opset: int = 13) -> None:
        """Start an empty network, with names in the style of an exporter."""
        self.rng = np.random.default_rng(seed)
        self.style = style
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.core: list[onnx.NodeProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._scope = ""
        self._marking = False

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Name the nodes added in the context below a scope, as exporters do."""
        outer, self._scope = self._scope, f"{self._scope}/{name}"
        yield
        self._scope = outer

    @contextmanager
    def culprit(self) -> Iterator[None]:
        """Record the nodes added in the context as those to find."""
        self._marking = True
        yield
        self._marking = False

    def input(self, name: str, shape: Sequence[int], kind: int = TensorProto.FLOAT) -> str:
        """Add an input of the network, and return its name."""
        self.inputs.append(helper.make_tensor_value_info(name, kind, list(shape)))
        self.shapes[name] = tuple(shape)
        return name

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """Add a weight with a value, and return its name."""
        array = np.asarray(value, dtype)
        name = (
            f"onnx::const_{len(self.weights)}"
            if self.style == "exporter"
            else f"w{len(self.weights)}"
        )
        self.weights.append(numpy_helper.from_array(array, name))
        self.shapes[name] = array.shape
        return name

    def weight(self, *shape: int, fan_in: int | None = None, gain: float = 1.0) -> str:
        """Add a weight (out, in, ...) that keeps the size of the data; return its name."""
        fan = int(np.prod(shape[1:])) if fan_in is None else fan_in
        return self.constant(self.rng.standard_normal(shape) * gain / np.sqrt(fan))

    def node(
        self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any
    ) -> Any:
        """Add a node, and return the name of its output, or of each of several."""
        number = len(self.nodes)
        if self.style == "exporter":
            tail = "_output_{}"
            name = f"{self._scope}/{op}_{number}"
        else:
            tail = "_out{}"
            name = f"{op.lower()}{number}"
        output_names = [name + tail.format(position) for position in range(outputs)]
        node = helper.make_node(
            op,
            inputs,
            output_names,
            name="" if self.style == "unnamed" else name,
            domain=domain,
            **attributes,
        )
        self.nodes.append(node)
        if self._marking:
            self.core.append(node)
        return output_names[0] if outputs == 1 else output_names

    def shaped(self, tensor: str, shape: Sequence[int]) -> str:
        """Record the shape of a tensor, and return its name."""
        self.shapes[tensor] = tuple(shape)
        return tensor

    def reshape(self, tensor: str, shape: Sequence[int]) -> str:
        """Add a Reshape to a fixed shape, and return the name of its output."""
        return self.shaped(self.node("Reshape", tensor, self.constant(shape, np.int64)), shape)

    def conv(self, tensor: str, width: int, kernel: int = 3, gain: float = 1.2) -> str:
        """Add a Conv [1, C, H, W] -> [1, width, H, W], and return the name of its output."""
        batch, channels, height, length = self.shapes[tensor]
        output = self.node(
            "Conv",
            tensor,
            self.weight(width, channels, kernel, kernel, gain=gain),
            self.constant(self.rng.standard_normal(width) * 0.1),
            kernel_shape=[kernel, kernel],
            pads=[kernel // 2] * 4,
        )
        return self.shaped(output, (batch, width, height, length))

    def same(self, op: str, tensor: str, *other_tensors: str, **attributes: Any) -> str:
        """Add a node that keeps the shape of its first input; return the name of its output."""
        return self.shaped(self.node(op, tensor, *other_tensors, **attributes), self.shapes[tensor])

    def squeeze(self, tensor: str, *shape: int) -> str:
        """Project a tensor to a small shape, and return the name of the result."""
        own_shape = self.shapes[tensor]
        if len(own_shape) == 4:
            pooled = self.node("GlobalAveragePool", tensor)
            channels = own_shape[1]
        else:
            pooled = self.reduce("ReduceMean", tensor, [1])
            channels = own_shape[2]
        flat = self.reshape(pooled, (1, channels))
        size = int(np.prod(shape))
        gain = 3.0 if len(own_shape) == 4 else 2.0
        small = self.node(
            "Gemm",
            flat,
            self.weight(channels, size, fan_in=channels, gain=gain),
            self.constant(self.rng.standard_normal(size) * 0.7),
        )
        return self.reshape(small, shape)

    def excite(self, trunk: str, small: str, *shape: int) -> str:
        """Add a small tensor to every position of the trunk; return the name of the sum."""
        own_shape = self.shapes[trunk]
        width = own_shape[1] if len(own_shape) == 4 else own_shape[2]
        size = int(np.prod(shape))
        flat = self.reshape(small, (1, size))
        row = self.node("MatMul", flat, self.weight(size, width, fan_in=size))
        spread = self.reshape(row, (1, width, 1, 1) if len(own_shape) == 4 else (1, 1, width))
        return self.shaped(self.node("Add", trunk, spread), own_shape)

    def reduce(self, op: str, tensor: str, axes: Sequence[int], keepdims: int = 1) -> str:
        """Add a reduction over axes, and return the name of its output.

        Axes are an input from opset 18 on (13 for ReduceSum).
        """
        if self.opset >= (13 if op == "ReduceSum" else 18):
            return str(self.node(op, tensor, self.constant(axes, np.int64), keepdims=keepdims))
        return str(self.node(op, tensor, axes=list(axes), keepdims=keepdims))

    def region(self) -> str:
        """Return the name of the region that Resize reads; empty from opset 13 on."""
        return "" if self.opset >= 13 else self.constant([])

    def image(self, tensor: str) -> str:
        """Reshape a tensor to [1, C, H, W], and return the name of the result."""
        shape = self.shapes[tensor]
        if len(shape) == 4:
            return tensor
        return self.reshape(tensor, (1, 1, *shape[1:]))

    def model(self, *outputs: str) -> onnx.ModelProto:
        """Return the finished model, in a format that ONNX Runtime 1.15 reads."""
        results = [
            (
                helper.make_tensor_value_info(name, TensorProto.FLOAT, list(self.shapes[name]))
                if name in self.shapes
                else onnx.ValueInfoProto(name=name)
            )
            for name in outputs
        ]
        graph = helper.make_graph(self.nodes, "net", self.inputs, results, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        return model

    def identity(self, node: onnx.NodeProto) -> str:
        """Return the name of a node in a report: its own, or that of its first output."""
        return node.name or node.output[0]


def cnn(net: Net, embed: Embed, at: float) -> str:
    """Add residual blocks and a classifier, and return the name of the output."""
    side = int(net.rng.choice([10, 12, 16]))
    width = int(net.rng.choice([6, 8, 12]))
    blocks = int(net.rng.integers(3, 8))
    trunk = net.conv(net.input("image", (1, 3, side, side)), width)
    place = min(int(at * blocks), blocks - 1)
    for block in range(blocks):
        with net.scope(f"layer{block}"):
            inner = net.conv(trunk, width)
            inner = net.same("BatchNormalization", inner, *_statistics(net, width))
            inner = net.same("Relu", inner)
            inner = net.conv(inner, width)
            trunk = net.same("Add", trunk, inner)
            trunk = net.same("BatchNormalization", trunk, *_statistics(net, width))
            if net.rng.random() < 0.5:
                trunk = net.same("LeakyRelu", trunk, alpha=0.3)
            if block == place:
                trunk = embed(net, trunk)
    pooled = net.reshape(net.node("GlobalAveragePool", trunk), (1, width))
    classes = int(net.rng.integers(5, 12))
    output = net.node(
        "Gemm",
        pooled,
        net.weight(width, classes, fan_in=width, gain=2),
        net.weight(classes, fan_in=4),
    )
    return net.shaped(output, (1, classes))


def resnet50(net: Net, embed: Embed, at: float) -> str:
    """Add the 53 convolutions of ResNet-50, 1/16 as wide; return the name of the output."""

    def norm(tensor: str) -> str:
        """Add a BatchNormalization, and return the name of its output."""
        return net.same("BatchNormalization", tensor, *_statistics(net, net.shapes[tensor][1]))

    trunk = net.same("Relu", norm(net.conv(net.input("image", (1, 3, 24, 24)), 8, kernel=7)))
    trunk = _pool(net, trunk)
    place, block = min(int(at * 16), 15), 0
    for stage, count in enumerate((3, 4, 6, 3)):
        for _ in range(count):
            with net.scope(f"layer{stage + 1}.{block}"):
                width = 4 * 2**stage
                inner = net.same("Relu", norm(net.conv(trunk, width, kernel=1)))
                inner = net.same("Relu", norm(net.conv(inner, width)))
                inner = norm(net.conv(inner, 4 * width, kernel=1))
                shortcut = trunk
                if net.shapes[trunk][1] != 4 * width:
                    shortcut = norm(net.conv(trunk, 4 * width, kernel=1, gain=1.0))
                trunk = net.same("Mul", net.same("Add", inner, shortcut), net.constant(0.7))
                trunk = net.same("Relu", trunk)
                trunk = embed(net, trunk) if block == place else trunk
                block += 1
        if stage in (1, 2):
            trunk = _pool(net, trunk)
    pooled = net.reshape(net.node("GlobalAveragePool", trunk), (1, 128))
    output = net.node("Gemm", pooled, net.weight(128, 20, fan_in=128), net.weight(20, fan_in=4))
    return net.shaped(output, (1, 20))


def _statistics(net: Net, width: int) -> list[str]:
    """Add the four weights of a BatchNormalization, and return their names."""
    return [
        net.constant(net.rng.uniform(0.6, 1.1, width)),
        net.constant(net.rng.standard_normal(width) * 0.2),
        net.constant(net.rng.standard_normal(width) * 0.2),
        net.constant(net.rng.uniform(0.8, 1.6, width)),
    ]


def encoder(net: Net, embed: Embed, at: float) -> str:
    """Add transformer layers with a decomposed LayerNormalization; return the output's name."""
    length, heads = int(net.rng.choice([6, 8, 10])), int(net.rng.choice([2, 4]))
    trunk = net.input("hidden_states", (1, length, heads * int(net.rng.choice([6, 8]))))
    encoded = _layers(net, trunk, heads, int(net.rng.integers(2, 5)), embed, at)
    return dense(net, encoded, int(net.rng.integers(3, 9)))


def bert(net: Net, embed: Embed, at: float) -> str:
    """Add twelve narrow layers over embedded tokens, as in BERT; return the output's name."""
    words = net.input("input_ids", (1, 12), TensorProto.INT64)
    trunk = net.node("Gather", net.constant(net.rng.standard_normal((50, 48))), words)
    trunk = net.same("Add", net.shaped(trunk, (1, 12, 48)), net.weight(1, 12, 48, fan_in=4))
    return dense(net, _layers(net, layer_norm(net, trunk), 4, 12, embed, at), 48)


def _layers(net: Net, trunk: str, heads: int, layers: int, embed: Embed, at: float) -> str:
    """Add encoder layers, with the pattern in one of them, and return the output's name."""
    width = net.shapes[trunk][-1]
    place = min(int(at * layers), layers - 1)
    for layer in range(layers):
        with net.scope(f"encoder/layer.{layer}"):
            trunk = layer_norm(net, net.same("Add", trunk, _attention(net, trunk, heads)))
            if layer == place:
                trunk = embed(net, trunk)
            inner = dense(net, trunk, 2 * width)
            inner = net.same("Mul", inner, net.same("Sigmoid", inner))
            trunk = layer_norm(net, net.same("Add", trunk, dense(net, inner, width)))
    return trunk


def dense(net: Net, tensor: str, width: int) -> str:
    """Add a linear layer [1, S, D] -> [1, S, width], and return the name of its output."""
    batch, length, depth = net.shapes[tensor]
    output = net.node("MatMul", tensor, net.weight(depth, width, fan_in=depth))
    output = net.node("Add", output, net.constant(net.rng.standard_normal(width) * 0.1))
    return net.shaped(output, (batch, length, width))


def layer_norm(net: Net, tensor: str, epsilon: float = 1e-5) -> str:
    """Add a norm of nine nodes over the last axis, and return the name of its output."""
    width = net.shapes[tensor][-1]
    centered = net.same("Sub", tensor, net.reduce("ReduceMean", tensor, [-1]))
    squared = net.node("Pow", centered, net.constant(2.0))
    variance = net.node("Add", net.reduce("ReduceMean", squared, [-1]), net.constant(epsilon))
    output = net.same("Div", centered, net.node("Sqrt", variance))
    output = net.same("Mul", output, net.constant(net.rng.uniform(0.7, 1.3, width)))
    return net.same("Add", output, net.constant(net.rng.standard_normal(width) * 0.1))


def _attention(net: Net, tensor: str, heads: int) -> str:
    """Add self-attention, and return the name of its output."""
    batch, length, width = net.shapes[tensor]
    head_size = width // heads

    def split(perm: list[int]) -> str:
        """Add a projection divided into heads, and return the name of its output."""
        output = net.reshape(dense(net, tensor, width), (batch, length, heads, head_size))
        return str(net.node("Transpose", output, perm=perm))

    scores = net.node("MatMul", split([0, 2, 1, 3]), split([0, 2, 3, 1]))
    scores = net.node("Div", scores, net.constant(np.sqrt(head_size)))
    mixed = net.node("MatMul", net.node("Softmax", scores, axis=-1), split([0, 2, 1, 3]))
    mixed = net.node("Transpose", mixed, perm=[0, 2, 1, 3])
    return dense(net, net.reshape(mixed, (batch, length, width)), width)


def unet(net: Net, embed: Embed, at: float) -> str:
    """Add two levels down and two up, with skip connections; return the output's name."""
    side, width = int(net.rng.choice([12, 16])), int(net.rng.choice([4, 6, 8]))
    places = ["down0", "down1", "bottom", "up1", "up0"]
    place = places[min(int(at * len(places)), len(places) - 1)]
    channels = int(net.rng.choice([1, 3]))
    trunk = net.input("x", (1, channels, side, side))
    skips = []
    for level in range(2):
        with net.scope(f"down.{level}"):
            trunk = _double(net, trunk, width * (level + 1))
            trunk = embed(net, trunk) if place == f"down{level}" else trunk
            skips.append(trunk)
            trunk = _pool(net, trunk)
    with net.scope("mid"):
        trunk = _double(net, trunk, width * 3)
        trunk = embed(net, trunk) if place == "bottom" else trunk
    for level in (1, 0):
        with net.scope(f"up.{level}"):
            trunk = _double_size(net, trunk)
            batch, depth, height, length = net.shapes[trunk]
            skip = skips[level]
            joined = net.node("Concat", trunk, skip, axis=1)
            net.shaped(joined, (batch, depth + net.shapes[skip][1], height, length))
            trunk = _double(net, joined, width * (level + 1))
            trunk = embed(net, trunk) if place == f"up{level}" else trunk
    return net.conv(trunk, 2, kernel=1)


def _double(net: Net, tensor: str, width: int) -> str:
    """Add two convolutions with activations, and return the name of their output."""
    output = net.same("LeakyRelu", net.conv(tensor, width), alpha=0.2)
    return net.same("Tanh", net.conv(output, width, gain=1.5))


def _pool(net: Net, tensor: str) -> str:
    """Add a MaxPool that halves height and width, and return the name of its output."""
    batch, width, height, length = net.shapes[tensor]
    output = net.node("MaxPool", tensor, kernel_shape=[2, 2], strides=[2, 2])
    return net.shaped(output, (batch, width, height // 2, length // 2))


def _double_size(net: Net, tensor: str) -> str:
    """Add a Resize that doubles height and width, and return the name of its output."""
    batch, width, height, length = net.shapes[tensor]
    scales = net.constant([1, 1, 2, 2])
    output = net.node("Resize", tensor, net.region(), scales, mode="nearest")
    return net.shaped(output, (batch, width, height * 2, length * 2))


HOSTS: dict[str, Callable[[Net, Embed, float], str]] = {
    "cnn": cnn,
    "encoder": encoder,
    "unet": unet,
}


def quantized_network(net: Net, embed: Embed, at: float) -> str:
    """Add convolutions and products between Q/DQ pairs; return the output's name."""
    width, blocks = int(net.rng.choice([6, 8])), int(net.rng.integers(3, 6))
    place = min(int(at * blocks), blocks - 1)
    trunk = _pair(net, net.input("image", (1, 3, 12, 12)), 0.03)
    trunk = _pair(net, net.same("Relu", _quantized_conv(net, trunk, width)), 0.02, 0)
    for block in range(blocks):
        with net.scope(f"block{block}"):
            inner = _pair(net, net.same("Relu", _quantized_conv(net, trunk, width)), 0.025, 0)
            trunk = _pair(net, net.same("Add", trunk, _quantized_conv(net, inner, width)), 0.04)
            if block == place:
                trunk = embed(net, trunk)
    pooled = net.reshape(net.node("GlobalAveragePool", trunk), (1, width))
    output = net.node(
        "Gemm", pooled, net.weight(width, 6, fan_in=width, gain=2), net.weight(6, fan_in=4)
    )
    return net.shaped(output, (1, 6))


def _quantized_conv(net: Net, tensor: str, width: int) -> str:
    """Add a convolution with 8-bit weights, and return the name of its output."""
    batch, channels, height, length = net.shapes[tensor]
    values = np.clip(np.rint(net.rng.standard_normal((width, channels, 3, 3)) * 40), -127, 127)
    scale = net.constant(1.2 / 40 / np.sqrt(channels * 9))
    weight = net.node(
        "DequantizeLinear", net.constant(values, np.int8), scale, net.constant(0, np.int8)
    )
    bias = net.constant(net.rng.standard_normal(width) * 0.1)
    output = net.node("Conv", tensor, weight, bias, kernel_shape=[3, 3], pads=[1] * 4)
    return net.shaped(output, (batch, width, height, length))


def _pair(net: Net, tensor: str, scale: float, zero: int = 128) -> str:
    """Add a Q/DQ pair after a tensor, and return the name of its output."""
    numbers = (net.constant(scale * net.rng.uniform(0.9, 1.1)), net.constant(zero, np.uint8))
    return net.same("DequantizeLinear", net.same("QuantizeLinear", tensor, *numbers), *numbers)


PLANTED = {**HOSTS, "resnet50": resnet50, "bert": bert}
"""Where faults are planted, too."""
