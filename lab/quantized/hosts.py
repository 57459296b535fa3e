"""Networks that are quantized, drawn by a seed, and models of packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = Any
Feeds = list[dict[str, Array]]


class Host(NamedTuple):
    """A model in floating point, with data to calibrate with and data to judge by."""

    name: str
    model: onnx.ModelProto
    calibration: Feeds
    samples: Feeds


class Network:
    """A graph that grows node by node."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Start an empty network with a random generator."""
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Array] = {}
        self.counts: dict[str, int] = {}

    def weight(self, array: Array, name: str) -> str:
        """Add a weight, and return its name."""
        self.weights[name] = np.asarray(array)
        return name

    def node(self, op: str, *reads: str, outputs: int = 1, **options: Any) -> str:
        """Add a node, and return the name of its first output."""
        number = self.counts[op] = self.counts.get(op, 0) + 1
        name = f"{op.lower()}{number}"
        makes = [f"{name}_out"] + [f"{name}_out{at}" for at in range(1, outputs)]
        self.nodes.append(helper.make_node(op, reads, makes, name, **options))
        return makes[0]

    def conv(
        self, x: str, channels: int, to: int, size: int = 3, group: int = 1, stride: int = 1
    ) -> str:
        """Add a convolution with random weights, and return the name of its output."""
        fan = channels // group * size * size
        weight = self.rng.normal(size=(to, channels // group, size, size)) * np.sqrt(2 / fan)
        bias = self.rng.normal(size=to) * 0.1
        at = self.counts.get("Conv", 0) + 1
        reads = (
            x,
            self.weight(weight.astype(np.float32), f"conv{at}.weight"),
            self.weight(bias.astype(np.float32), f"conv{at}.bias"),
        )
        pad = size // 2
        return self.node(
            "Conv",
            *reads,
            kernel_shape=[size, size],
            pads=[pad] * 4,
            group=group,
            strides=[stride, stride],
        )

    def linear(self, x: str, size: int, to: int, scale: float = 1.0) -> str:
        """Add a MatMul and a bias with random weights, and return the name of the sum."""
        weight = self.rng.normal(size=(size, to)) * scale * np.sqrt(1.5 / size)
        at = self.counts.get("MatMul", 0) + 1
        product = self.node(
            "MatMul", x, self.weight(weight.astype(np.float32), f"linear{at}.weight")
        )
        bias = (self.rng.normal(size=to) * 0.1).astype(np.float32)
        return self.node("Add", product, self.weight(bias, f"linear{at}.bias"))

    def gemm(self, x: str, size: int, to: int) -> str:
        """Add a Gemm with random weights, and return the name of its output."""
        weight = (self.rng.normal(size=(to, size)) * np.sqrt(1.5 / size)).astype(np.float32)
        bias = (self.rng.normal(size=to) * 0.1).astype(np.float32)
        at = self.counts.get("Gemm", 0) + 1
        names = self.weight(weight, f"gemm{at}.weight"), self.weight(bias, f"gemm{at}.bias")
        return self.node("Gemm", x, *names, transB=1)

    def model(
        self, inputs: dict[str, Sequence[Any]], outputs: dict[str, Sequence[Any]]
    ) -> onnx.ModelProto:
        """Return the model with named inputs and outputs of given shapes."""
        renamed = dict(outputs)
        graph = helper.make_graph(
            self.nodes,
            "network",
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in inputs.items()
            ],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in renamed.items()
            ],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
        model.ir_version = 9
        onnx.checker.check_model(model, full_check=True)
        return onnx.shape_inference.infer_shapes(model)


def _unlike(net: Network, rng: np.random.Generator, first: str, then: str, factor: float) -> None:
    """Enlarge one channel between two layers, without an effect on the output."""
    weight, behind = net.weights[f"{first}.weight"], net.weights[f"{then}.weight"]
    channel = int(rng.integers(weight.shape[0]))
    weight[channel] *= factor
    net.weights[f"{first}.bias"][channel] *= factor
    if behind.shape[1] == 1 and behind.ndim == 4:
        behind[channel] /= factor
    else:
        behind[:, channel] /= factor


def _images(rng: np.random.Generator, count: int, batch: int = 4, size: int = 12) -> Feeds:
    """Return batches of random images."""
    return [
        {
            "x": (
                rng.normal(size=(batch, 3, size, size)) + rng.normal(size=(1, 3, 1, 1)) * 0.3
            ).astype(np.float32)
        }
        for _ in range(count)
    ]


def cnn(seed: int) -> Host:
    """Return a host with residual convolutions, and some channels of a different size."""
    rng = np.random.default_rng([seed, 1])
    net = Network(rng)
    width = int(rng.choice([8, 16]))
    x = net.node("Relu", net.conv("x", 3, width))
    for _ in range(2):
        inner = net.node("Relu", net.conv(x, width, width))
        x = net.node("Relu", net.node("Add", net.conv(inner, width, width), x))
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    y = net.gemm(x, width, 10)
    _unlike(net, rng, "conv2", "conv3", float(rng.choice([8, 20, 60])))
    if rng.random() < 0.5:
        _unlike(net, rng, "conv4", "conv5", float(rng.choice([8, 20])))
    return Host(
        "cnn", net.model({"x": [4, 3, 12, 12]}, {y: [4, 10]}), _images(rng, 8), _images(rng, 6)
    )


def depthwise(seed: int) -> Host:
    """Return a host with depthwise and pointwise convolutions and Clip."""
    rng = np.random.default_rng([seed, 2])
    net = Network(rng)
    zero, six = net.weight(np.float32(0), "zero"), net.weight(np.float32(6), "six")
    width = 12
    x = net.node("Clip", net.conv("x", 3, width), zero, six)
    for _ in range(2):
        x = net.node("Clip", net.conv(x, width, width, group=width), zero, six)
        x = net.node("Clip", net.conv(x, width, width, 1), zero, six)
    y = net.gemm(net.node("Flatten", net.node("GlobalAveragePool", x)), width, 10)
    for layer in (2, 4):
        weight = net.weights[f"conv{layer}.weight"]
        spread = 10 ** rng.uniform(-1.5, 0, len(weight)).astype(np.float32)
        weight *= spread[:, None, None, None]
        net.weights[f"conv{layer}.bias"] *= spread
        net.weights[f"conv{layer + 1}.weight"] /= spread[None, :, None, None]
    return Host(
        "depthwise",
        net.model({"x": [4, 3, 12, 12]}, {y: [4, 10]}),
        _images(rng, 8),
        _images(rng, 6),
    )


def _rows(rng: np.random.Generator, count: int, *shape: int) -> Feeds:
    """Return random inputs of a shape."""
    return [{"x": rng.normal(size=shape).astype(np.float32)} for _ in range(count)]


def mlp(seed: int) -> Host:
    """Return a host with layers of MatMul, Add and an activation, and one outlier."""
    rng = np.random.default_rng([seed, 3])
    net = Network(rng)
    x, size = "x", 32
    for to in (32, 32, 32):
        x, size = net.node("Relu", net.linear(x, size, to)), to
    y = net.linear(x, size, 10)
    factor = float(rng.choice([10, 30, 80]))
    channel = int(rng.integers(32))
    net.weights["linear2.weight"][:, channel] *= factor
    net.weights["linear2.bias"][channel] *= factor
    net.weights["linear3.weight"][channel] /= factor
    return Host(
        "mlp",
        net.model({"x": [16, 32]}, {y: [16, 10]}),
        _rows(rng, 8, 16, 32),
        _rows(rng, 6, 16, 32),
    )


def encoder(seed: int) -> Host:
    """Return a host with a transformer layer and outliers in its norms."""
    rng = np.random.default_rng([seed, 4])
    net = Network(rng)
    size, heads, length = 32, 4, 8

    def norm(x: str, number: int) -> str:
        """Add a LayerNormalization with random weights, and return the name of its output."""
        gain = (1 + rng.normal(size=size) * 0.1).astype(np.float32)
        gain[int(rng.integers(size))] *= float(rng.choice([1, 10, 30]))
        names = (
            net.weight(gain, f"norm{number}.gain"),
            net.weight((rng.normal(size=size) * 0.1).astype(np.float32), f"norm{number}.shift"),
        )
        return net.node("LayerNormalization", x, *names, axis=-1)

    split = net.weight(np.array([2, length, heads, size // heads]), "split")
    join = net.weight(np.array([2, length, size]), "join")
    root = net.weight(np.float32(np.sqrt(size // heads)), "root")
    x = norm("x", 1)
    parts = []
    for permutation in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        part = net.node("Reshape", net.linear(x, size, size), split)
        parts.append(net.node("Transpose", part, perm=permutation))
    scores = net.node("Div", net.node("MatMul", parts[0], parts[1]), root)
    mixed = net.node("MatMul", net.node("Softmax", scores, axis=-1), parts[2])
    mixed = net.node("Reshape", net.node("Transpose", mixed, perm=[0, 2, 1, 3]), join)
    x = net.node("Add", "x", net.linear(mixed, size, size))
    inner = net.node("Gelu", net.linear(norm(x, 2), size, 2 * size))
    y = net.node("Add", x, net.linear(inner, 2 * size, size))
    return Host(
        "encoder",
        net.model({"x": [2, length, size]}, {y: [2, length, size]}),
        _rows(rng, 8, 2, length, size),
        _rows(rng, 6, 2, length, size),
    )


def detector(seed: int) -> Host:
    """Return a host whose output joins boxes in pixels with scores from 0 to 1."""
    rng = np.random.default_rng([seed, 5])
    net = Network(rng)
    x = net.node("Relu", net.conv("x", 3, 16))
    x = net.node("Relu", net.conv(x, 16, 16, stride=2))
    boxes = net.node("Mul", net.conv(x, 16, 4, 1), net.weight(np.float32(160), "pixels"))
    scores = net.node("Sigmoid", net.conv(x, 16, 6, 1))
    y = net.node("Concat", boxes, scores, axis=1)
    return Host(
        "detector",
        net.model({"x": [4, 3, 12, 12]}, {y: [4, 10, 6, 6]}),
        _images(rng, 8),
        _images(rng, 6),
    )


def recurrent(seed: int) -> Host:
    """Return a host with an LSTM between linear layers, for dynamic quantization."""
    rng = np.random.default_rng([seed, 6])
    net = Network(rng)
    size, hidden, length = 16, 16, 10
    x = net.node("Tanh", net.linear("x", size, size))
    reads = [
        net.weight((rng.normal(size=shape) * 0.3).astype(np.float32), name)
        for name, shape in (
            ("lstm.w", (1, 4 * hidden, size)),
            ("lstm.r", (1, 4 * hidden, hidden)),
            ("lstm.b", (1, 8 * hidden)),
        )
    ]
    x = net.node("LSTM", x, *reads, hidden_size=hidden)
    x = net.node("Squeeze", x, net.weight(np.array([1]), "axis"))
    y = net.linear(x, hidden, 10)
    return Host(
        "recurrent",
        net.model({"x": [length, 4, size]}, {y: [length, 4, 10]}),
        _rows(rng, 6, length, 4, size),
        _rows(rng, 6, length, 4, size),
    )


HOSTS: dict[str, Callable[[int], Host]] = {
    build.__name__: build for build in (cnn, depthwise, mlp, encoder, detector, recurrent)
}


def package_model(path: Path, seed: int, sizes: dict[str, int] | None = None) -> Host:
    """Return a host with a model of a package, and random data of its shapes."""
    rng = np.random.default_rng([seed, 7])
    model = onnx.load(str(path))

    def feed() -> dict[str, Array]:
        """Return random data for each input of the model."""
        feed = {}
        weight_names = {weight.name for weight in model.graph.initializer}
        for value in model.graph.input:
            if value.name in weight_names:
                continue
            kind = value.type.tensor_type
            shape = [(sizes or {}).get(d.dim_param, d.dim_value or 1) for d in kind.shape.dim]
            if kind.elem_type == TensorProto.FLOAT:
                feed[value.name] = rng.normal(size=shape).astype(np.float32)
            else:
                dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
                feed[value.name] = rng.integers(0, 100, shape).astype(dtype)
        return feed

    return Host(path.stem, model, [feed() for _ in range(6)], [feed() for _ in range(4)])
