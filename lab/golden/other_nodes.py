"""More nodes to plant faults in: rarer operators, of other domains and of newer operator sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .nodes import IMAGE, ROWS, Draw, Row, _arrays, _normal


def _angles(rng: Draw) -> dict[str, Any]:
    """Return random cosines and sines by name."""
    angle = rng.uniform(0, 3, (8, 4)).astype(np.float32)
    return {"c": np.cos(angle), "s": np.sin(angle)}


def _codes(*shape: int) -> Callable[[Draw], dict[str, Any]]:
    """Return a function that draws integer weights of a shape, scales and zero points."""

    def draw(rng: Draw) -> dict[str, Any]:
        """Return random quantized weights, scales and zero points by name."""
        scale, zero = np.float32(0.02 * rng.uniform(0.7, 1.5)), np.uint8(rng.integers(100, 150))
        return {
            "as": scale,
            "az": zero,
            "s": scale,
            "z": zero,
            "w": rng.integers(-60, 60, shape).astype(np.int8),
            "ws": np.float32(0.01 * rng.uniform(0.7, 1.5)),
            "wz": np.int8(0),
            "ys": np.float32(0.05 * rng.uniform(0.7, 1.5)),
            "yz": np.uint8(rng.integers(100, 150)),
        }

    return draw


def _vectors(rng: Draw) -> dict[str, Any]:
    """Return the random attributes of a support vector machine."""
    return {
        "": {
            "support_vectors": _normal(rng, 24).tolist(),
            "coefficients": _normal(rng, 4).tolist(),
            "rho": [float(rng.normal())],
            "n_supports": 4,
            "kernel_params": [0.5, 0.1, 2.0],
        }
    }


OTHER_ROWS: tuple[Row, ...] = (
    Row(
        "Split",
        ("h", "k"),
        (4, 9),
        made=("o1", "o2", "o3"),
        numbers={"k": ([2, 3, 4], [3, 3, 3], [4, 2, 3], [1, 5, 3])},
        fixed={"axis": 1},
        turns=((0, 2),),
    ),
    Row("Split", ("h",), (4, 9), made=("o1", "o2"), attributes={"axis": (0,)}, turns=((0, 1),)),
    Row(
        "ReverseSequence",
        (
            "h",
            "k",
        ),
        (
            4,
            3,
            2,
        ),
        numbers={"k": ([4, 2, 3], [1, 4, 2])},
        attributes={"time_axis": (0,), "batch_axis": (1,)},
    ),
    Row(
        "Compress",
        (
            "h",
            "k",
        ),
        weights=lambda rng: {"k": np.array([1, 0, 1, 1, 0, 1], bool)},
        attributes={"axis": (1,)},
    ),
    Row("GatherND", ("h", "k"), numbers={"k": ([[0], [2]], [[1], [2]], [[3], [0]])}),
    Row(
        "CenterCropPad",
        (
            "h",
            "k",
        ),
        (
            4,
            8,
        ),
        opset=18,
        numbers={"k": ([4, 6], [2, 8], [6, 8])},
    ),
    Row("LpPool", ("h",), IMAGE, attributes={"p": (2, 1), "kernel_shape": ([2, 2], [3, 3])}),
    Row("GlobalLpPool", ("h",), IMAGE, attributes={"p": (2, 1)}),
    Row("MeanVarianceNormalization", ("h",), IMAGE, attributes={"axes": ([0, 2, 3], [2, 3])}),
    Row(
        "RMSNormalization",
        (
            "h",
            "s",
        ),
        opset=23,
        weights=_arrays(s=(6,)),
        attributes={"epsilon": (1e-5, 0.3)},
    ),
    Row(
        "RotaryEmbedding",
        (
            "h",
            "c",
            "s",
            "p",
        ),
        (
            1,
            2,
            4,
            8,
        ),
        opset=23,
        weights=_angles,
        numbers={"p": ([[0, 1, 2, 3]], [[1, 2, 3, 4]], [[3, 2, 1, 0]])},
        attributes={"interleaved": (0, 1)},
    ),
    Row(
        "Attention",
        ("h", "e", "e"),
        (1, 2, 4, 8),
        opset=23,
        attributes={"is_causal": (0, 1), "scale": (None, 0.5), "softcap": (0.0, 1.5)},
    ),
    Row(
        "Attention",
        (
            "h",
            "k",
            "v",
        ),
        (
            1,
            4,
            5,
            8,
        ),
        opset=23,
        weights=_arrays(k=(1, 2, 6, 8), v=(1, 2, 6, 8)),
    ),
    Row(
        "HammingWindow",
        ("k",),
        made=("mid",),
        numbers={"k": (6, 5, 8)},
        attributes={"periodic": (1, 0)},
    ),
    Row("Range", ("a", "z", "t"), numbers={"a": (0, 1), "z": (6, 5), "t": (1, 2)}),
    Row("ConstantOfShape", ("k",), numbers={"k": ([2, 3], [3, 2], [2, 2])}),
    Row("Hardmax", ("h",), attributes={"axis": (1, 0)}),
    Row("Softplus", ("h",), ops=("Softsign", "Tanh")),
    Row("Swish", ("h",), opset=24, attributes={"alpha": (1.0, 1.7)}),
    Row("Mish", ("h",), ops=("Softplus",)),
    Row(
        "ReduceLogSumExp",
        (
            "h",
            "k",
        ),
        (
            2,
            3,
            4,
        ),
        numbers={"k": ([1], [2])},
        opset=18,
        attributes={"keepdims": (1, 0)},
        ops=("ReduceMax", "ReduceSumSquare"),
    ),
    Row(
        "ReduceProd",
        (
            "h",
            "k",
        ),
        (
            2,
            3,
            4,
        ),
        numbers={"k": ([1], [2])},
        opset=18,
        ops=("ReduceSum",),
    ),
    Row("MatMulInteger", ("q", "w", "z", "wz"), weights=_codes(6, 5)),
    Row(
        "ConvInteger",
        ("q", "w", "z", "wz"),
        IMAGE,
        weights=_codes(5, 4, 3, 3),
        attributes={"pads": ([1, 1, 1, 1], [0, 0, 0, 0])},
    ),
    Row("QLinearMatMul", ("q", "s", "z", "w", "ws", "wz", "ys", "yz"), weights=_codes(6, 5)),
    Row(
        "QLinearConv",
        ("q", "s", "z", "w", "ws", "wz", "ys", "yz"),
        IMAGE,
        weights=_codes(5, 4, 3, 3),
        attributes={"strides": ([1, 1], [2, 2])},
    ),
    Row("DynamicQuantizeLinear", ("h",), made=("q", "qs", "qz"), behind="Identity"),
    Row(
        "SVMRegressor",
        ("h",),
        domain="ai.onnx.ml",
        weights=_vectors,
        attributes={"kernel_type": ("RBF", "LINEAR", "POLY")},
    ),
    Row(
        "ArrayFeatureExtractor",
        (
            "h",
            "k",
        ),
        domain="ai.onnx.ml",
        numbers={"k": ([1, 3], [2, 3], [3, 1])},
    ),
    Row(
        "Imputer",
        ("h",),
        domain="ai.onnx.ml",
        attributes={"imputed_value_floats": ([0.5], [0.1])},
        fixed={"replaced_value_float": 0.0},
    ),
    Row("Gelu", ("h",), domain="com.microsoft", ops=("QuickGelu", "FastGelu")),
    Row("QuickGelu", ("h",), domain="com.microsoft", attributes={"alpha": (1.702, 1.0)}),
    Row(
        "FusedMatMul",
        ("h", "w"),
        (6, 6),
        domain="com.microsoft",
        weights=_arrays(w=(6, 6)),
        attributes={"alpha": (1.0, 0.5), "transA": (0, 1), "transB": (0, 1)},
    ),
    Row("BiasGelu", ("h", "w"), domain="com.microsoft", weights=_arrays(w=(6,))),
    Row(
        "SkipLayerNormalization",
        (
            "h",
            "e",
            "s",
            "b",
            "c",
        ),
        (
            1,
            4,
            6,
        ),
        domain="com.microsoft",
        weights=_arrays(s=(6,), b=(6,), c=(6,)),
        attributes={"epsilon": (1e-5, 0.3)},
        optional=("c",),
    ),
    Row(
        "FusedConv",
        (
            "h",
            "w",
            "b",
        ),
        IMAGE,
        domain="com.microsoft",
        weights=_arrays(w=(5, 4, 3, 3), b=(5,)),
        fixed={"kernel_shape": [3, 3]},
        attributes={"activation": ("Relu", "Tanh", "Sigmoid")},
        optional=("b",),
    ),
    Row(
        "Upsample",
        (
            "h",
            "s",
        ),
        IMAGE,
        opset=9,
        weights=lambda rng: {"s": np.array([1, 1, 2, 2], np.float32)},
        attributes={"mode": ("nearest", "linear")},
    ),
    Row(
        "Conv",
        (
            "h",
            "w",
            "b",
        ),
        (
            1,
            4,
            12,
        ),
        weights=_arrays(w=(4, 2, 3), b=(4,)),
        fixed={
            "kernel_shape": [3],
            "group": 2,
        },
        attributes={
            "pads": ([1, 1], [2, 0], [0, 0]),
            "dilations": (None, [2]),
        },
        optional=("b",),
    ),
    Row(
        "Conv",
        ("h", "w"),
        IMAGE,
        weights=_arrays(w=(5, 4, 3, 3)),
        fixed={"kernel_shape": [3, 3]},
        attributes={"auto_pad": ("SAME_UPPER", "SAME_LOWER", "VALID"), "strides": ([2, 2],)},
    ),
    Row(
        "Clip",
        (
            "h",
            "lo",
            "hi",
        ),
        ROWS,
        opset=13,
        weights=lambda rng: {
            "lo": np.float32(-0.2),
            "hi": np.float32(0.3),
        },
        swaps=((1, 2),),
    ),
    Row(
        "Concat",
        ("h", "w", "e"),
        weights=_arrays(w=(4, 6)),
        attributes={"axis": (1, 0)},
        swaps=((0, 1), (1, 2)),
    ),
    Row(
        "Resize",
        ("h", "", "", "k"),
        IMAGE,
        numbers={"k": ([1, 4, 12, 12], [1, 4, 16, 8])},
        attributes={"mode": ("nearest", "linear"), "nearest_mode": ("floor", "ceil")},
    ),
)
"""One row for each operator, or for a way in which it is used."""
