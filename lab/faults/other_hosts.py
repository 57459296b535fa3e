"""More networks that faults are planted in: mobile, recurrent, generating, detecting, streaming."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from .hosts import Embed, Net, dense


def mobile(net: Net, embed: Embed, at: float) -> str:
    """Add inverted residuals with depthwise convolutions; return the name of the output."""
    trunk = net.conv(net.input("image", (1, 3, 14, 14)), 8)
    for block in range(4):
        with net.scope(f"block{block}"):
            wide = net.same("HardSwish", net.conv(trunk, 16, kernel=1))
            weight = net.weight(16, 1, 3, 3, fan_in=9, gain=1.3)
            bias = net.constant(net.rng.standard_normal(16) * 0.1)
            output = net.same(
                "Conv", wide, weight, bias, kernel_shape=[3, 3], pads=[1] * 4, group=16
            )
            output = net.same("Clip", output, net.constant(-2.0), net.constant(3.0))
            small = net.shaped(net.node("GlobalAveragePool", output), (1, 16, 1, 1))
            small = net.conv(net.same("Relu", net.conv(small, 8, kernel=1)), 16, kernel=1)
            output = net.same("Mul", output, net.same("HardSigmoid", small, alpha=0.2, beta=0.5))
            trunk = net.same("Add", trunk, net.conv(output, 8, kernel=1))
            trunk = embed(net, trunk) if block == int(at * 4) else trunk
    pooled = net.node(
        "AveragePool", trunk, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, count_include_pad=0
    )
    flat = net.node("Flatten", pooled, axis=1)
    bias = net.constant(net.rng.standard_normal(10) * 0.1)
    return net.shaped(net.node("Gemm", flat, net.weight(10, 392, gain=2), bias, transB=1), (1, 10))


def recurrent(net: Net, embed: Embed, at: float) -> str:
    """Add an LSTM, a GRU and attention over their steps; return the name of the output."""
    width = 12
    trunk = net.input("steps", (6, 2, 8))
    for op, gates, hidden in (("LSTM", 4, 8), ("GRU", 3, width)):
        output = net.node(
            op,
            trunk,
            net.weight(1, gates * width, hidden, fan_in=hidden),
            net.weight(1, gates * width, width, fan_in=width),
            net.constant(net.rng.standard_normal((1, 2 * gates * width)) * 0.1),
            hidden_size=width,
            outputs=2,
            **({"linear_before_reset": 1} if op == "GRU" else {}),
        )
        squeezed = net.node("Squeeze", output[0], net.constant([1], np.int64))
        trunk = net.shaped(squeezed, (6, 2, width))
    trunk = net.shaped(net.node("Transpose", embed(net, trunk), perm=[1, 0, 2]), (2, 6, width))
    scores = net.same("Tanh", net.same("MatMul", trunk, net.weight(width, width, fan_in=width)))
    mixed = net.same("Mul", net.same("Softmax", scores, axis=1), trunk)
    total = net.node("ReduceSum", mixed, net.constant([1], np.int64), keepdims=0)
    joined = net.node("Concat", total, net.node("ReduceMax", trunk, axes=[1], keepdims=0), axis=1)
    bias = net.constant(net.rng.standard_normal(5) * 0.1)
    weight = net.weight(2 * width, 5, fan_in=2 * width, gain=2)
    return net.shaped(net.node("Gemm", joined, weight, bias, beta=0.7), (2, 5))


def generator(net: Net, embed: Embed, at: float) -> str:
    """Add transposed convolutions with instance normalization; return the output's name."""
    weight = net.weight(16, 128, fan_in=16, gain=1.5)
    trunk = net.reshape(net.node("Gemm", net.input("noise", (1, 16)), weight), (1, 8, 4, 4))
    for level in range(2):
        side = net.shapes[trunk][2]
        output = net.node(
            "ConvTranspose",
            trunk,
            net.weight(8, 8, 4, 4, fan_in=32),
            net.constant(net.rng.standard_normal(8) * 0.1),
            kernel_shape=[4, 4],
            strides=[2, 2],
            pads=[1] * 4,
        )
        trunk = net.shaped(output, (1, 8, 2 * side, 2 * side))
        scale = net.constant(net.rng.uniform(0.7, 1.3, 8))
        bias = net.constant(net.rng.standard_normal(8) * 0.2)
        trunk = net.same("InstanceNormalization", trunk, scale, bias, epsilon=1e-4)
        trunk = net.same("PRelu", trunk, net.constant(net.rng.uniform(0.1, 0.4, (8, 1, 1))))
        trunk = embed(net, trunk) if level == int(at * 2) else trunk
    pads = net.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    padded = net.node("Pad", trunk, pads, mode="reflect")
    bias = net.constant(net.rng.standard_normal(3) * 0.1)
    output = net.node("Conv", padded, net.weight(3, 8, 3, 3), bias, kernel_shape=[3, 3])
    scales = net.constant([1, 1, 2, 2])
    output = net.node(
        "Resize",
        output,
        net.region(),
        scales,
        mode="linear",
        coordinate_transformation_mode="half_pixel",
    )
    return net.same("Sigmoid", net.shaped(output, (1, 3, 32, 32)))


def gpt(net: Net, embed: Embed, at: float) -> str:
    """Add three causal layers with tied embeddings; return the name of the last scores."""
    width = 24
    words = net.input("input_ids", (1, 10), TensorProto.INT64)
    table = net.constant(net.rng.standard_normal((50, width)))
    trunk = net.shaped(net.node("Gather", table, words), (1, 10, width))
    trunk = net.same("Add", trunk, net.constant(net.rng.standard_normal((10, width)) * 0.3))
    mask = net.constant(np.triu(np.full((10, 10), -1e4), 1))
    for layer in range(3):
        with net.scope(f"h.{layer}"):
            three = dense(net, _norm(net, trunk), 3 * width)
            sizes = net.constant([width] * 3, np.int64)
            query, key, output = net.node("Split", three, sizes, axis=-1, outputs=3)
            scores = net.node("MatMul", query, net.node("Transpose", key, perm=[0, 2, 1]))
            scores = net.node("Mul", scores, net.constant(width**-0.5))
            shares = net.node("Softmax", net.node("Add", scores, mask), axis=-1)
            mixed = net.shaped(net.node("MatMul", shares, output), (1, 10, width))
            trunk = net.same("Add", trunk, dense(net, mixed, width))
            inner = dense(net, _norm(net, trunk), 2 * width)
            curve = net.same("Erf", net.same("Div", inner, net.constant(np.sqrt(2))))
            curve = net.same("Mul", inner, net.same("Add", curve, net.constant(1.0)))
            inner = net.same("Mul", curve, net.constant(0.5))
            trunk = net.same("Add", trunk, dense(net, inner, width))
            trunk = embed(net, trunk) if layer == int(at * 3) else trunk
    bounds = [net.constant([bound], np.int64) for bound in (9, 10, 1)]
    last = net.node("Slice", trunk, *bounds)
    return net.shaped(
        net.node("MatMul", last, net.node("Transpose", table, perm=[1, 0])), (1, 1, 50)
    )


def _norm(net: Net, tensor: str) -> str:
    """Add a LayerNormalization, and return the name of its output."""
    width = net.shapes[tensor][-1]
    scale = net.constant(net.rng.uniform(0.7, 1.3, width))
    bias = net.constant(net.rng.standard_normal(width) * 0.1)
    return net.same("LayerNormalization", tensor, scale, bias, axis=-1, epsilon=1e-5)


def detector(net: Net, embed: Embed, at: float) -> str:
    """Add a two-level pyramid with NonMaxSuppression and TopK; return the output's name."""
    trunk = net.same("LeakyRelu", net.conv(net.input("image", (1, 3, 16, 16)), 8), alpha=0.1)
    weight = net.weight(8, 1, 3, 3, fan_in=9, gain=1.4)
    down = net.node(
        "Conv", trunk, weight, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2], group=8
    )
    down = embed(net, net.same("Relu", net.conv(net.shaped(down, (1, 8, 8, 8)), 8, kernel=1)))
    split = net.node("Split", down, net.constant([4, 4], np.int64), axis=1, outputs=2)
    mixed = net.shaped(net.node("Concat", split[1], split[0], axis=1), (1, 8, 8, 8))
    up = net.node(
        "ConvTranspose",
        mixed,
        net.weight(8, 4, 2, 2, fan_in=8),
        kernel_shape=[2, 2],
        strides=[2, 2],
        group=2,
    )
    scales = net.constant([1, 1, 2, 2])
    near = net.node(
        "Resize",
        mixed,
        net.region(),
        scales,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
    )
    level = net.shaped(net.node("Concat", up, near, trunk, axis=1), (1, 24, 16, 16))
    level = net.same("Clip", net.conv(level, 8), net.constant(-1.5), net.constant(2.5))
    output = net.reshape(net.conv(level, 6, kernel=1), (1, 6, 256))
    output = net.shaped(net.node("Transpose", output, perm=[0, 2, 1]), (1, 256, 6))
    sizes = net.constant([2, 2, 2], np.int64)
    middle, extent, logits = net.node("Split", output, sizes, axis=-1, outputs=3)
    grid = np.stack(np.meshgrid(np.arange(16), np.arange(16)), -1).reshape(1, 256, 2)
    middle = net.node("Add", net.node("Sigmoid", middle), net.constant(grid))
    half = net.node("Mul", net.node("Exp", net.node("Tanh", extent)), net.constant(0.9))
    low, high = net.node("Sub", middle, half), net.node("Add", middle, half)
    boxes = net.shaped(net.node("Concat", low, high, axis=-1), (1, 256, 4))
    shares = net.node("Softmax", logits, axis=-1)
    scores = net.shaped(net.node("Transpose", shares, perm=[0, 2, 1]), (1, 2, 256))
    chosen = net.node(
        "NonMaxSuppression",
        boxes,
        scores,
        net.constant([6], np.int64),
        net.constant([0.4]),
        net.constant([0.3]),
    )
    best = net.node("ReduceMax", scores, axes=[1], keepdims=0)
    _, places = net.node("TopK", best, net.constant([5], np.int64), axis=1, outputs=2)
    flat = net.node("Reshape", places, net.constant([5], np.int64))
    chosen_boxes = net.shaped(net.node("Gather", boxes, flat, axis=1), (1, 5, 4))
    number = net.node("Cast", net.node("ReduceMax", chosen, keepdims=0), to=TensorProto.FLOAT)
    mean = net.node("ReduceMean", boxes, axes=[1], keepdims=1)
    return net.same("Add", chosen_boxes, net.node("Mul", mean, net.node("Tanh", number)))


def streaming(net: Net, embed: Embed, at: float) -> str:
    """Add masked attention over a cache, then a bidirectional GRU; return the output's name."""
    width, heads, steps = 16, 2, 8
    trunk = net.input("frames", (1, steps, width))
    mask = net.input("mask", (1, steps), TensorProto.INT64)
    shown = net.node("Cast", net.node("Clip", mask, net.constant(0, np.int64)), to=TensorProto.BOOL)
    shown = net.node("Not", net.node("Unsqueeze", shown, net.constant([1, 2], np.int64)))
    trunk = embed(net, trunk)
    parts = []
    for _ in range(3):
        output = net.reshape(
            dense(net, _norm(net, trunk), width), (1, steps, heads, width // heads)
        )
        parts.append(net.node("Transpose", output, perm=[0, 2, 1, 3]))
    query, key, value = parts
    cache = net.constant(net.rng.standard_normal((1, heads, steps, width // heads)) * 0.2)
    where = np.array([[[0, head, step] for step in range(4)] for head in range(heads)])
    bounds = [net.constant([bound], np.int64) for bound in (0, 4, 2)]
    fresh = net.node("Slice", value, *bounds)
    updates = net.node("Squeeze", fresh, net.constant([0], np.int64))
    value = net.node("ScatterND", cache, net.constant(where, np.int64), updates)
    scores = net.node("Einsum", query, key, equation="bhqd,bhkd->bhqk")
    scores = net.node("Div", scores, net.constant(np.sqrt(width // heads)))
    scores = net.node("Where", shown, net.constant(-1e9), scores)
    mixed = net.node("MatMul", net.node("Softmax", scores, axis=-1), value)
    mixed = net.reshape(net.node("Transpose", mixed, perm=[0, 2, 1, 3]), (1, steps, width))
    trunk = net.same("Add", trunk, dense(net, mixed, width))
    trunk = net.shaped(net.node("Transpose", trunk, perm=[1, 0, 2]), (steps, 1, width))
    output = net.node(
        "GRU",
        trunk,
        net.weight(2, 24, width, fan_in=width),
        net.weight(2, 24, 8, fan_in=8),
        net.constant(net.rng.standard_normal((2, 48)) * 0.1),
        hidden_size=8,
        direction="bidirectional",
        linear_before_reset=1,
        outputs=2,
    )
    turned = net.node("Transpose", output[0], perm=[2, 0, 1, 3])
    joined = net.reshape(turned, (1, steps, width))
    square = net.node("ReduceL2", joined, axes=[-1], keepdims=1)
    joined = net.node("Div", joined, net.node("Add", square, net.constant(1e-3)))
    joined = net.shaped(joined, (1, steps, width))
    total = net.node("CumSum", joined, net.constant(1, np.int64))
    return net.same("Tanh", dense(net, net.shaped(total, (1, steps, width)), 6))


OTHERS = {
    "mobile": mobile,
    "recurrent": recurrent,
    "generator": generator,
    "gpt": gpt,
    "detector": detector,
    "streaming": streaming,
}
"""Written for opset 17."""
