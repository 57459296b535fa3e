"""Networks of real size with random weights: ResNet-50 and an encoder as in BERT."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["encoder", "resnet50"]

Array = npt.NDArray[np.float32]


class _Graph:
    """Collects nodes and weights; every method returns the name of a tensor."""

    def __init__(self, seed: int) -> None:
        """Start an empty graph with a seed."""
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(seed)

    def draw(self, *shape: int, scale: float) -> Array:
        """Return a random array of a shape and scale."""
        drawn: Array = self._random.standard_normal(shape, dtype=np.float32) * np.float32(scale)
        return drawn

    def weight(self, array: npt.NDArray[np.generic]) -> str:
        """Add a weight, and return its name."""
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        """Add a node, and return the name of its output."""
        output = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def model(
        self, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]
    ) -> onnx.ModelProto:
        """Return the model of the graph."""
        graph = helper.make_graph(self.nodes, "network", inputs, outputs, self.weights)
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def resnet50(batch: int | str = "batch") -> onnx.ModelProto:
    """Return ResNet-50: x [batch, 3, 224, 224] -> y [batch, 1000], 25 million parameters."""
    graph = _Graph(seed=50)

    def convolved(x: str, channels: int, filters: int, kernel: int, stride: int) -> str:
        """Add a convolution and a norm, and return the name of the output."""
        weight = graph.draw(
            filters, channels, kernel, kernel, scale=(2 / (channels * kernel**2)) ** 0.5
        )
        y = graph.add(
            "Conv",
            x,
            graph.weight(weight),
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
        )
        ones = np.ones(filters, np.float32)
        scale = graph.weight(ones * np.float32(0.7))
        shift = graph.weight(graph.draw(filters, scale=0.1))
        mean = graph.weight(graph.draw(filters, scale=0.1))
        return graph.add("BatchNormalization", y, scale, shift, mean, graph.weight(ones))

    def block(x: str, channels: int, width: int, stride: int) -> str:
        """Add a residual block, and return the name of its output."""
        y = graph.add("Relu", convolved(x, channels, width, 1, 1))
        y = graph.add("Relu", convolved(y, width, width, 3, stride))
        y = convolved(y, width, 4 * width, 1, 1)
        if channels != 4 * width:
            x = convolved(x, channels, 4 * width, 1, stride)
        return graph.add("Relu", graph.add("Add", x, y))

    x = graph.add("Relu", convolved("x", 3, 64, 7, 2))
    x = graph.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for width, depth, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(depth):
            x = block(x, channels, width, stride if index == 0 else 1)
            channels = 4 * width
    x = graph.add("Flatten", graph.add("GlobalAveragePool", x))
    classes = graph.weight(graph.draw(channels, 1000, scale=channels**-0.5))
    bias = graph.weight(graph.draw(1000, scale=0.1))
    graph.nodes.append(helper.make_node("Gemm", [x, classes, bias], ["y"], name="y"))
    return graph.model(
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 224, 224])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 1000])],
    )


def encoder(
    layers: int = 4, width: int = 256, heads: int = 4, vocabulary: int = 1000
) -> onnx.ModelProto:
    """Return an encoder: tokens int64 [batch, length] -> y float32 [batch, length, width].

    BERT-base has 12 layers of 768, 12 heads and 30522 tokens: 108 million parameters.
    """
    graph = _Graph(seed=12)
    size = width // heads

    def normalized(x: str) -> str:
        """Add a LayerNormalization, and return the name of its output."""
        ones = graph.weight(np.ones(width, np.float32))
        zeros = graph.weight(np.zeros(width, np.float32))
        return graph.add("LayerNormalization", x, ones, zeros, axis=-1, epsilon=1e-5)

    def dense(x: str, wide: int, narrow: int) -> str:
        """Add a linear layer, and return the name of its output."""
        y = graph.add("MatMul", x, graph.weight(graph.draw(wide, narrow, scale=wide**-0.5)))
        return graph.add("Add", y, graph.weight(graph.draw(narrow, scale=0.02)))

    def split(x: str, order: list[int]) -> str:
        """Split a tensor into heads, and return the name of the result."""
        shape = graph.weight(np.array([0, 0, heads, size], np.int64))
        return graph.add("Transpose", graph.add("Reshape", x, shape), perm=order)

    def attention(x: str) -> str:
        """Add self-attention, and return the name of its output."""
        query = split(dense(x, width, width), [0, 2, 1, 3])
        key = split(dense(x, width, width), [0, 2, 3, 1])
        value = split(dense(x, width, width), [0, 2, 1, 3])
        scale = graph.weight(np.array(size**-0.5, np.float32))
        scores = graph.add("Softmax", graph.add("Mul", graph.add("MatMul", query, key), scale))
        mixed = graph.add("Transpose", graph.add("MatMul", scores, value), perm=[0, 2, 1, 3])
        shape = graph.weight(np.array([0, 0, width], np.int64))
        return dense(graph.add("Reshape", mixed, shape), width, width)

    def activated(x: str) -> str:
        """Add a Gelu of single operators, and return the name of its output."""
        half = graph.weight(np.array(2**-0.5, np.float32))
        one = graph.weight(np.array(1, np.float32))
        bell = graph.add("Add", graph.add("Erf", graph.add("Mul", x, half)), one)
        return graph.add("Mul", graph.add("Mul", x, bell), half)

    x = graph.add("Gather", graph.weight(graph.draw(vocabulary, width, scale=1)), "tokens")
    for _ in range(layers):
        x = normalized(graph.add("Add", x, attention(x)))
        wide = activated(dense(x, width, 4 * width))
        x = normalized(graph.add("Add", x, dense(wide, 4 * width, width)))
    graph.nodes.append(helper.make_node("Identity", [x], ["y"], name="y"))
    return graph.model(
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", "length"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "length", width])],
    )
