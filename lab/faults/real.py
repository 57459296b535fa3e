"""Bugs of released packages, each as a pattern that is embedded in a host.

A pattern takes the tensor that arrives, makes of it what shows the bug, and hands on a tensor of
the same shape; the nodes within ``net.culprit()`` are those to be found. Versions are those of
`environments.VERSIONS` in which the numbers are wrong: from the first to the last, both included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from . import openvino
from .hosts import HOSTS, Net
from .kernels import FIRST, LAST, ROWS, Row, chain

TYPES = {
    "fp16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
}


class Fault(NamedTuple):
    """A bug: where it is wrong, who is to blame, and what makes it go away."""

    name: str
    build: Callable[[Net, str], str]
    first: str
    last: str
    cause: str = "rewrite"
    rewrites: tuple[str, ...] = ()
    """Each is a right answer; empty: no pass is to be named."""
    party: str = "onnxrt"
    opset: int = 13
    hosts: tuple[str, ...] = tuple(HOSTS)
    causes: tuple[str, ...] = ()
    """Also right."""


def _cast_bool(net: Net, t: str) -> str:
    """Add the casts from int32 to bool, and return the name of the output."""
    with net.culprit():
        integers = net.node("Cast", t, to=TensorProto.INT32)
        output = net.node("Cast", integers, to=TensorProto.BOOL)
    output = net.shaped(net.node("Cast", output, to=TensorProto.FLOAT), net.shapes[t])
    return net.same("Add", output, t)


def _narrow(kind: str, scale: float) -> Callable[[Net, str], str]:
    """Return a function that adds a cast to a narrower float and back."""

    def build(net: Net, t: str) -> str:
        """Add the cast to the narrow type and back, and return the name of the output."""
        scaled = net.same("Mul", t, net.constant(scale))
        with net.culprit():
            low = net.node("Cast", scaled, to=TYPES[kind])
            back = net.shaped(net.node("Cast", low, to=TensorProto.FLOAT), net.shapes[t])
        back = net.same("Clip", back, net.constant(-3 * scale), net.constant(3 * scale))
        return net.same("Add", net.same("Mul", back, net.constant(1 / scale)), t)

    return build


def _int32_trip(net: Net, t: str) -> str:
    """Add the casts from int64 to int32 and back, and return the name of the output."""
    long = net.node("Cast", net.same("Mul", t, net.constant(4.0)), to=TensorProto.INT64)
    long = net.node("Mul", long, net.constant(2**33, np.int64))
    long = net.node("Add", long, net.constant(5, np.int64))
    with net.culprit():
        short = net.node("Cast", long, to=TensorProto.INT32)
        back = net.node("Cast", short, to=TensorProto.INT64)
    output = net.shaped(net.node("Cast", back, to=TensorProto.FLOAT), net.shapes[t])
    return net.same("Add", net.same("Mul", output, net.constant(1e-10)), t)


def _uint8_trip(net: Net, t: str) -> str:
    """Add the casts from int32 to uint8 and back, and return the name of the output."""
    integers = net.node("Cast", net.same("Mul", t, net.constant(200.0)), to=TensorProto.INT32)
    with net.culprit():
        byte = net.node("Cast", integers, to=TensorProto.UINT8)
        back = net.node("Cast", byte, to=TensorProto.INT32)
    output = net.shaped(net.node("Cast", back, to=TensorProto.FLOAT), net.shapes[t])
    return net.same("Add", net.same("Mul", output, net.constant(0.01)), t)


def _pad(net: Net, t: str) -> str:
    """Add a Pad by one on each edge of an image, and return the name of its output."""
    pads = net.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    return str(net.node("Pad", t, pads, net.constant(0.0)))


def _pad_average(net: Net, t: str) -> str:
    """Add a Pad before an AveragePool, and return the name of the output."""
    image = net.image(t)
    _, channels, height, width = net.shapes[image]
    with net.culprit():
        padded = _pad(net, image)
        output = net.node(
            "AveragePool", padded, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=0
        )
    # The result is larger by two in each direction, so crop it.
    output = net.node(
        "Slice",
        output,
        net.constant([1, 1], np.int64),
        net.constant([1 + height, 1 + width], np.int64),
        net.constant([2, 3], np.int64),
    )
    output = net.node(
        "Slice",
        net.node("Pad", output, net.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64)),
        net.constant([0, 0], np.int64),
        net.constant([height, width], np.int64),
        net.constant([2, 3], np.int64),
    )
    output = net.shaped(output, (1, channels, height, width))
    return net.same("Add", t, net.reshape(output, net.shapes[t]))


def _pad_average_inner(net: Net, t: str) -> str:
    """Add a Pad before an AveragePool without cutting edges; return the output's name."""
    image = net.image(t)
    with net.culprit():
        padded = _pad(net, image)
        output = net.node(
            "AveragePool",
            padded,
            kernel_shape=[3, 3],
            pads=[1] * 4,
            strides=[2, 2],
            count_include_pad=0,
        )
    pooled = net.reduce("ReduceMean", output, [2, 3])
    pooled = net.same("Mul", net.shaped(pooled, (1, net.shapes[image][1], 1, 1)), net.constant(2.0))
    return net.same(
        "Add", t, pooled if net.shapes[t] == net.shapes[image] else net.reshape(pooled, (1, 1, 1))
    )


def _pad_max(stride: int) -> Callable[[Net, str], str]:
    """Return a function that adds a Pad before a MaxPool with a stride."""

    def build(net: Net, t: str) -> str:
        """Add a Pad before a MaxPool, and return the name of the output."""
        image = net.image(t)
        channels = net.shapes[image][1]
        low = net.same("Sub", image, net.constant(1.5))  # Mostly negative numbers.
        with net.culprit():
            output = net.node(
                "MaxPool", _pad(net, low), kernel_shape=[3, 3], strides=[stride, stride]
            )
        if stride == 1:
            output = net.shaped(output, net.shapes[image])
            return net.same("Add", t, net.reshape(output, net.shapes[t]))
        pooled = net.shaped(net.reduce("ReduceMean", output, [2, 3]), (1, channels, 1, 1))
        if net.shapes[t] != net.shapes[image]:
            pooled = net.reshape(pooled, (1, 1, 1))
        return net.same("Add", t, pooled)

    return build


def _idle_transpose_matmul(net: Net, t: str) -> str:
    """Add an idle Transpose before a MatMul, and return the name of the output."""
    side = int(net.rng.choice([3, 4, 6]))
    small = net.squeeze(t, side, side)
    with net.culprit():
        same = net.node("Transpose", small, perm=[0, 1])
        output = net.node("MatMul", same, net.weight(side, side))
        output = net.node("Add", output, net.constant(net.rng.standard_normal(side)))
    return net.excite(t, output, side, side)


def _idle_transpose_gemm(net: Net, t: str) -> str:
    """Add an idle Transpose before a Gemm, and return the name of the output."""
    side = int(net.rng.choice([3, 4, 6]))
    small = net.squeeze(t, side, side)
    with net.culprit():
        same = net.node("Transpose", small, perm=[0, 1])
        output = net.node(
            "Gemm", same, net.weight(side, side), net.constant(net.rng.standard_normal(side))
        )
    return net.excite(t, output, side, side)


def _tiny_division(net: Net, t: str) -> str:
    """Add a division by 1e-40 whose inverse overflows, and return the output's name."""
    tiny = net.same("Add", net.same("Mul", t, net.constant(0.0)), net.constant(1e-40))
    with net.culprit():
        inverse = net.node("Div", net.constant(1.0), tiny)
        output = net.same("Mul", net.shaped(inverse, net.shapes[t]), tiny)
    return net.same("Add", t, net.same("Min", output, net.constant(2.0)))


def _odd_norm(kind: str) -> Callable[[Net, str], str]:
    """Return a function that adds a decomposed norm over unusual axes, or of mean - x."""

    def build(net: Net, t: str) -> str:
        """Add a norm over unusual axes, and return the name of the output."""
        a, b = int(net.rng.choice([2, 3])), 4
        small = net.squeeze(t, a, b, b)
        first, second = {
            "middle": ([1], [1]),
            "mixed": ([-1], [1]),
            "turned": ([-1], [-1]),
            "rms": ([], [1]),
        }[kind]
        with net.culprit():
            centered = small
            if first:
                pair = (small, net.reduce("ReduceMean", small, first))
                centered = net.node("Sub", *(pair[::-1] if kind == "turned" else pair))
            squared = net.node("Pow", centered, net.constant(2.0))
            variance = net.reduce("ReduceMean", squared, second)
            root = net.node("Sqrt", net.node("Add", variance, net.constant(1e-5)))
            output = net.node("Div", centered, root)
            output = net.node("Mul", output, net.constant(net.rng.uniform(0.5, 1.5, b)))
            if first:
                output = net.node("Add", output, net.constant(net.rng.standard_normal(b)))
        return net.excite(t, output, a, b, b)

    return build


def _quantized_twice(scale: float, zero: int) -> Callable[[Net, str], str]:
    """Return a function that adds two Q/DQ pairs with different scales."""

    def build(net: Net, t: str) -> str:
        """Add the two Q/DQ pairs, and return the name of the output."""
        output = net.same("Clip", t, net.constant(-3.0), net.constant(3.0))

        def pair(tensor: str, by: float, around: int) -> str:
            """Add a Q/DQ pair, and return the name of its output."""
            numbers = (net.constant(by), net.constant(around, np.uint8))
            return str(
                net.node("DequantizeLinear", net.node("QuantizeLinear", tensor, *numbers), *numbers)
            )

        with net.culprit():
            rounded = pair(pair(output, 0.02, 128), scale, zero)
        return net.same("Add", t, net.shaped(rounded, net.shapes[t]))

    return build


def _average_ends(net: Net, t: str) -> str:
    """Add an AveragePool that counts pads at the ends, and return the output's name."""
    image = net.image(t)
    with net.culprit():
        output = net.node(
            "AveragePool", image, kernel_shape=[2, 2], pads=[0, 0, 1, 1], count_include_pad=1
        )
    output = net.shaped(output, net.shapes[image])
    return net.same("Add", t, net.reshape(output, net.shapes[t]))


def _average_ceil(net: Net, t: str) -> str:
    """Add an AveragePool with a rounded-up size, and return the name of the output."""
    values = net.squeeze(t, 1, 1, 9)
    with net.culprit():
        output = net.node(
            "AveragePool",
            values,
            kernel_shape=[7],
            strides=[3],
            pads=[3, 3],
            ceil_mode=1,
            count_include_pad=1,
        )
    size = 4
    return net.excite(t, output, 1, 1, size)


def _not_numbers(op: str) -> Callable[[Net, str], str]:
    """Return a function that adds an operator which passes NaN on."""

    def build(net: Net, t: str) -> str:
        """Add an operator that reads NaN, and return the name of the output."""
        root = net.same("Sqrt", net.same("Sub", t, net.constant(-0.5)))
        with net.culprit():
            output = net.same(op, root)
        bad = net.node("IsNaN", output)
        output = net.node("Where", bad, net.constant(0.25), output)
        return net.same("Add", t, net.shaped(output, net.shapes[t]))

    return build


def _rounded_sum(net: Net, t: str) -> str:
    """Add a quantized sum with ties, and return the name of the output."""

    def numbers(tensor: str, scale: float) -> tuple[str, tuple[str, str]]:
        """Add a QuantizeLinear; return the names of its output, and of scale and zero point."""
        pair = (net.constant(scale), net.constant(128, np.uint8))
        return str(net.node("QuantizeLinear", tensor, *pair)), pair

    # A quarter of the sums lies halfway between two steps.
    a, of_a = numbers(t, 0.03)
    b, of_b = numbers(net.same("Tanh", t), 0.02)
    with net.culprit():
        output = net.node(
            "Add", net.node("DequantizeLinear", a, *of_a), net.node("DequantizeLinear", b, *of_b)
        )
        c, of_c = numbers(output, 0.04)
        output = net.node("DequantizeLinear", c, *of_c)
    return net.same("Add", t, net.shaped(output, net.shapes[t]))


def _unrounded_cos(net: Net, t: str) -> str:
    """Add a Cos of 6.28 to 6.30, which fp16 rounds to 1; return the output's name."""
    near = net.same(
        "Add", net.same("Mul", net.same("Tanh", t), net.constant(0.012)), net.constant(6.288)
    )
    half = net.node("Cast", near, to=TensorProto.FLOAT16)
    lifted = net.node("Unsqueeze", half, net.constant([0], np.int64))
    with net.culprit():
        output = net.node("Cos", lifted)
        output = net.node("Squeeze", output, net.constant([0], np.int64))
        output = net.node("Floor", output)
    output = net.shaped(net.node("Cast", output, to=TensorProto.FLOAT), net.shapes[t])
    return net.same("Add", t, output)


def _pool(op: str, shape: tuple[int, ...], **attributes: object) -> Callable[[Net, str], str]:
    """Return a function that adds a pooling node, and averages its output."""

    def build(net: Net, t: str) -> str:
        """Add the pooling operator, and return the name of the output."""
        small = net.squeeze(t, *shape)
        with net.culprit():
            output = net.node(op, small, **attributes)
        axes = list(range(2, len(shape)))
        pooled = net.reduce("ReduceMean", net.same("Tanh", net.shaped(output, ())), axes)
        return net.excite(t, pooled, *shape[:2])

    return build


def _gemm_idle_transpose(net: Net, t: str) -> str:
    """Add an idle Transpose after a Gemm, and return the name of the output."""
    side = int(net.rng.choice([3, 4, 6]))
    small = net.squeeze(t, side, side)
    with net.culprit():
        output = net.node("Gemm", small, net.weight(side, side), alpha=1.5)
        output = net.node("Transpose", output, perm=[0, 1])
    return net.excite(t, output, side, side)


def _pad_average_counted(net: Net, t: str) -> str:
    """Add a Pad before an AveragePool without pads, and return the output's name."""
    image = net.image(t)
    with net.culprit():
        output = net.node("AveragePool", _pad(net, image), kernel_shape=[3, 3])
    output = net.shaped(output, net.shapes[image])
    return net.same("Add", t, net.reshape(output, net.shapes[t]))


def _cast_that_stays(net: Net, t: str) -> str:
    """Add an idle cast of an inverse, whose rewrite is invalid; return the output's name."""
    high = net.same("Add", net.same("Abs", t), net.constant(1.0))
    output = net.same("Add", high, net.constant(0.5))
    with net.culprit():
        same = net.same("Cast", high, to=TensorProto.FLOAT)
        inverse = net.shaped(net.node("Div", net.constant(1.0), output), net.shapes[t])
        scaled = net.same("Mul", inverse, same)
    return net.same("Add", t, scaled)


def _broadcasting_scale(net: Net, t: str) -> str:
    """Add an RMS norm whose scale broadcasts, and return the name of the output."""
    small = net.squeeze(t, 1, 1)
    with net.culprit():
        squared = net.node("Pow", small, net.constant(2.0))
        variance = net.reduce("ReduceMean", squared, [-1])
        root = net.node("Sqrt", net.node("Add", variance, net.constant(1e-5)))
        output = net.node("Mul", net.node("Div", small, root), net.constant([0.5, 1.5]))
    return net.excite(t, output, 1, 2)


def _double_clip(net: Net, t: str) -> str:
    """Add a Relu and a Clip in float64, and return the name of the output."""
    double = net.node("Cast", t, to=TensorProto.DOUBLE)
    bounds = (net.constant(-1.0, np.float64), net.constant(1.0, np.float64))
    with net.culprit():
        output = net.node("Clip", net.node("Relu", double), *bounds)
    return net.same(
        "Add", t, net.shaped(net.node("Cast", output, to=TensorProto.FLOAT), net.shapes[t])
    )


def _all_or_nothing(net: Net, t: str) -> str:
    """Add a ReduceL1 without axes that does nothing, and return the output's name."""
    with net.culprit():
        output = net.node("ReduceL1", t, noop_with_empty_axes=1)
    return net.same("Add", t, net.same("Tanh", net.shaped(output, net.shapes[t])))


def _sample(net: Net, t: str) -> str:
    """Add a bicubic GridSample, and return the name of the output."""
    picture, grid = net.squeeze(t, 1, 2, 4, 5), net.squeeze(t, 1, 3, 4, 2)
    with net.culprit():
        output = net.node(
            "GridSample", picture, grid, mode="bicubic", padding_mode="border", align_corners=0
        )
    return net.excite(t, output, 1, 2, 3, 4)


_MAX_SAME = _pool(
    "MaxPool", (1, 2, 9, 5), kernel_shape=[1, 3], strides=[3, 2], auto_pad="SAME_UPPER"
)

_PATTERNS = (
    Fault("cast to INT32 to BOOL", _cast_bool, FIRST, "1.25.1"),
    Fault("cast to FLOAT16 and back, tiny", _narrow("fp16", 1e-8), FIRST, "1.16.3"),
    Fault("cast to FLOAT16 and back, huge", _narrow("fp16", 40000.0), FIRST, "1.16.3"),
    Fault("cast to BFLOAT16 and back", _narrow("bf16", 1.0), FIRST, "1.16.3"),
    Fault("cast INT64 to INT32 and back", _int32_trip, FIRST, "1.16.3"),
    Fault("cast INT32 to UINT8 and back", _uint8_trip, FIRST, "1.16.3"),
    Fault("Pad before AveragePool", _pad_average, "1.19.2", "1.20.1", rewrites=("Pad_Fusion",)),
    Fault(
        "Pad before AveragePool, stride 2",
        _pad_average_inner,
        "1.19.2",
        "1.20.1",
        rewrites=("Pad_Fusion",),
    ),
    Fault("Pad before MaxPool", _pad_max(1), "1.20.1", "1.31.1", rewrites=("Pad_Fusion",)),
    Fault(
        "Pad before MaxPool, opset 18",
        _pad_max(1),
        "1.20.1",
        "1.31.1",
        rewrites=("Pad_Fusion",),
        opset=18,
    ),
    Fault(
        "Pad before MaxPool, stride 2", _pad_max(2), "1.20.1", "1.31.1", rewrites=("Pad_Fusion",)
    ),
    Fault(
        "idle Transpose, MatMul, Add",
        _idle_transpose_matmul,
        FIRST,
        "1.29.0",
        rewrites=("GemmTransposeFusion",),
    ),
    Fault(
        "idle Transpose, Gemm",
        _idle_transpose_gemm,
        FIRST,
        "1.29.0",
        rewrites=("GemmTransposeFusion",),
    ),
    Fault("1 / x * x of tiny values", _tiny_division, FIRST, LAST, rewrites=("DivMulFusion",)),
    Fault(
        "layer norm over the middle",
        _odd_norm("middle"),
        FIRST,
        FIRST,
        rewrites=("LayerNormFusion", "SimplifiedLayerNormFusion"),
    ),
    Fault(
        "layer norm, mean and variance over others",
        _odd_norm("mixed"),
        FIRST,
        FIRST,
        rewrites=("LayerNormFusion", "SimplifiedLayerNormFusion"),
    ),
    Fault(
        "layer norm of the mean minus x",
        _odd_norm("turned"),
        FIRST,
        LAST,
        rewrites=("LayerNormFusion", "SimplifiedLayerNormFusion"),
    ),
    Fault(
        "RMS norm over the middle",
        _odd_norm("rms"),
        FIRST,
        FIRST,
        rewrites=("SimplifiedLayerNormFusion",),
    ),
    Fault(
        "quantized twice, scale",
        _quantized_twice(0.05, 128),
        FIRST,
        LAST,
        rewrites=("DoubleQDQPairsRemover",),
    ),
    Fault(
        "quantized twice, zero point",
        _quantized_twice(0.02, 100),
        FIRST,
        LAST,
        rewrites=("DoubleQDQPairsRemover",),
    ),
    Fault(
        "sum of quantized, rounded otherwise",
        _rounded_sum,
        FIRST,
        LAST,
        rewrites=("QDQSelectorActionTransformer",),
        causes=("rounding",),
    ),
    Fault("Cos in FLOAT16, not rounded", _unrounded_cos, FIRST, LAST, causes=("rounding",)),
    Fault(
        "AveragePool, pads at the ends", _average_ends, "1.21.1", "1.24.4", cause="kernel", opset=19
    ),
    Fault("AveragePool, ceil_mode", _average_ceil, FIRST, "1.28.0", cause="kernel"),
    Fault("Erf of NaN", _not_numbers("Erf"), FIRST, "1.26.0", cause="kernel"),
    Fault(
        "AveragePool, SAME_UPPER",
        _pool(
            "AveragePool",
            (1, 2, 5, 8),
            kernel_shape=[2, 2],
            strides=[1, 2],
            auto_pad="SAME_UPPER",
            count_include_pad=1,
        ),
        "1.21.1",
        "1.24.4",
        cause="kernel",
        opset=19,
    ),
    Fault(
        "AveragePool, ceil_mode, no pads",
        _pool(
            "AveragePool",
            (1, 2, 9),
            kernel_shape=[2],
            strides=[2],
            ceil_mode=1,
            count_include_pad=1,
        ),
        FIRST,
        "1.28.0",
        cause="kernel",
    ),
    Fault("MaxPool, SAME_UPPER", _MAX_SAME, FIRST, "1.29.0", cause="kernel"),
    Fault("MaxPool, SAME_UPPER, refused", _MAX_SAME, "1.30.0", LAST, cause="refusal"),
    Fault(
        "MaxPool, ceil_mode, window beyond the end",
        _pool("MaxPool", (1, 2, 6, 8), kernel_shape=[2, 1], strides=[3, 2], ceil_mode=1),
        FIRST,
        "1.20.1",
        cause="kernel",
    ),
    Fault(
        "LpPool, SAME_UPPER",
        _pool(
            "LpPool",
            (1, 2, 9, 5, 6),
            kernel_shape=[1, 2, 2],
            strides=[3, 1, 3],
            p=2,
            auto_pad="SAME_UPPER",
        ),
        FIRST,
        LAST,
        cause="kernel",
        opset=18,
    ),
    Fault("ReduceL1 over no axes", _all_or_nothing, FIRST, "1.16.3", cause="kernel", opset=18),
    Fault("GridSample, bicubic", _sample, FIRST, "1.16.3", cause="kernel", opset=16),
    Fault(
        "Gemm, idle Transpose",
        _gemm_idle_transpose,
        FIRST,
        "1.29.0",
        rewrites=("GemmTransposeFusion",),
    ),
    Fault(
        "Pad before AveragePool, without pads",
        _pad_average_counted,
        "1.20.1",
        "1.20.1",
        rewrites=("Pad_Fusion",),
    ),
    Fault(
        "cast that changes nothing",
        _cast_that_stays,
        FIRST,
        LAST,
        cause="refusal",
        rewrites=("CastElimination", "DivMulFusion"),
    ),
    Fault(
        "RMS norm with a broadcasting scale",
        _broadcasting_scale,
        FIRST,
        LAST,
        cause="refusal",
        rewrites=("SimplifiedLayerNormFusion",),
    ),
    Fault(
        "Relu, Clip of doubles",
        _double_clip,
        FIRST,
        LAST,
        cause="refusal",
        rewrites=("FuseReluClip", "ReluClipFusion", "FuseReluClipRule"),
    ),
)


def _row_fault(row: Row, party: str = "onnxrt") -> Fault:
    """Return the fault of a row of the table of kernels."""
    ends = (row.first, row.last)
    return Fault(row.name, chain(row), *ends, row.cause, row.rewrites, party, row.opset)


_OF_OPENVINO = (
    *(_row_fault(row, "openvino") for row in openvino.ROWS),
    Fault(
        "Relu of NaN",
        _not_numbers("Relu"),
        openvino.FIRST,
        openvino.LAST,
        "kernel",
        party="openvino",
    ),
    Fault(
        "cast to FLOAT16 and back, tiny",
        _narrow("fp16", 1e-8),
        openvino.FIRST,
        openvino.LAST,
        party="openvino",
        causes=("kernel",),
    ),
)
FAULTS = (*_PATTERNS, *map(_row_fault, ROWS), *_OF_OPENVINO)
