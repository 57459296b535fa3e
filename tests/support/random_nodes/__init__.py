"""Random nodes of the operators of the ONNX standard, at any of their versions.

`random_node(op, opset, seed)` is the same for the same arguments.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.support.random_nodes import arithmetic, shapes, windows

__all__ = ["OPERATORS", "node_model", "random_node", "versions"]

OPERATORS: dict[str, Any] = {
    "Abs": arithmetic.unary(),
    "Acos": arithmetic.unary(-1, 1),
    "Acosh": arithmetic.unary(1, 4),
    "Add": arithmetic.binary,
    "AffineGrid": windows.affine,
    "And": arithmetic.logic,
    "ArgMax": arithmetic.arg,
    "ArgMin": arithmetic.arg,
    "Asin": arithmetic.unary(-1, 1),
    "Asinh": arithmetic.unary(),
    "Atan": arithmetic.unary(),
    "Atanh": arithmetic.unary(-0.9, 0.9),
    "Attention": windows.attention,
    "AveragePool": windows.avgpool,
    "BatchNormalization": windows.bn,
    "BitShift": arithmetic.bitshift,
    "BlackmanWindow": arithmetic.win,
    "Cast": shapes.cast,
    "Ceil": arithmetic.unary(),
    "Celu": arithmetic.unary(alpha=(0.5, 2)),
    "CenterCropPad": shapes.ccp,
    "Clip": arithmetic.clip,
    "Col2Im": windows.col2im,
    "Compress": shapes.compress,
    "Concat": shapes.concat,
    "Conv": windows.conv,
    "ConvInteger": windows.convint,
    "ConvTranspose": windows.convt,
    "Cos": arithmetic.unary(),
    "Cosh": arithmetic.unary(),
    "CumProd": arithmetic.cumsum,
    "CumSum": arithmetic.cumsum,
    "DFT": arithmetic.dft,
    "DeformConv": windows.deform,
    "DepthToSpace": shapes.d2s,
    "DequantizeLinear": arithmetic.dequant,
    "Det": arithmetic.det,
    "Div": arithmetic.div,
    "Dropout": shapes.dropout,
    "DynamicQuantizeLinear": arithmetic.dynq,
    "Einsum": arithmetic.einsum,
    "Elu": arithmetic.unary(alpha=(0.5, 2)),
    "Equal": arithmetic.equal,
    "Erf": arithmetic.unary(),
    "Exp": arithmetic.unary(),
    "Expand": shapes.expand,
    "EyeLike": shapes.eyelike,
    "Flatten": shapes.flatten,
    "Floor": arithmetic.unary(),
    "GRU": windows.rnnlike("GRU"),
    "Gather": shapes.gather,
    "GatherElements": shapes.gatherel,
    "GatherND": shapes.gathernd,
    "Gelu": arithmetic.gelu,
    "Gemm": arithmetic.gemm,
    "GlobalAveragePool": windows.globalpool,
    "GlobalLpPool": windows.globallp,
    "GlobalMaxPool": windows.globalpool,
    "Greater": arithmetic.compare,
    "GreaterOrEqual": arithmetic.compare,
    "GridSample": windows.gridsample,
    "GroupNormalization": windows.gnorm,
    "HammingWindow": arithmetic.win,
    "HannWindow": arithmetic.win,
    "HardSigmoid": arithmetic.hardsig,
    "HardSwish": arithmetic.hardswish,
    "Hardmax": windows.softmaxlike,
    "Identity": arithmetic.unary(),
    "InstanceNormalization": windows.inorm,
    "IsInf": arithmetic.isinf,
    "IsNaN": arithmetic.unary(),
    "LRN": windows.lrn,
    "LSTM": windows.rnnlike("LSTM"),
    "LayerNormalization": windows.lnorm,
    "LeakyRelu": arithmetic.unary(alpha=(0.2, 0.5)),
    "Less": arithmetic.compare,
    "LessOrEqual": arithmetic.compare,
    "Log": arithmetic.unary(0.01, 4),
    "LogSoftmax": windows.softmaxlike,
    "LpNormalization": windows.lpnorm,
    "LpPool": windows.lppool,
    "MatMul": arithmetic.matmul,
    "MatMulInteger": arithmetic.mmint,
    "Max": arithmetic.variadic,
    "MaxPool": windows.maxpool,
    "MaxRoiPool": windows.maxroipool,
    "Mean": arithmetic.variadic,
    "MeanVarianceNormalization": windows.mvn,
    "MelWeightMatrix": arithmetic.melw,
    "Min": arithmetic.variadic,
    "Mish": arithmetic.swish,
    "Mod": arithmetic.mod,
    "Mul": arithmetic.binary,
    "Neg": arithmetic.unary(),
    "NegativeLogLikelihoodLoss": arithmetic.nll,
    "NonMaxSuppression": shapes.nms,
    "NonZero": arithmetic.whole_numbers(np.int32),
    "Not": arithmetic.whole_numbers(bool),
    "OneHot": shapes.onehot,
    "Or": arithmetic.logic,
    "PRelu": arithmetic.prelu,
    "Pad": shapes.pad,
    "Pow": arithmetic.power,
    "QLinearConv": windows.qlinconv,
    "QLinearMatMul": arithmetic.qlinmm,
    "QuantizeLinear": arithmetic.quant,
    "RMSNormalization": windows.rmsnorm,
    "RNN": windows.rnnlike("RNN"),
    "Range": shapes.rangeop,
    "Reciprocal": arithmetic.unary(0.2, 4),
    "ReduceL1": arithmetic.reduce_,
    "ReduceL2": arithmetic.reduce_,
    "ReduceLogSum": lambda rng, opset: arithmetic.reduce_(rng, opset, 18, "log"),
    "ReduceLogSumExp": lambda rng, opset: arithmetic.reduce_(rng, opset, 18, "log"),
    "ReduceMax": arithmetic.reduce_,
    "ReduceMean": arithmetic.reduce_,
    "ReduceMin": arithmetic.reduce_,
    "ReduceProd": arithmetic.reduce_,
    "ReduceSum": arithmetic.reducesum,
    "ReduceSumSquare": arithmetic.reduce_,
    "Relu": arithmetic.unary(),
    "Reshape": shapes.reshape,
    "Resize": windows.resize,
    "ReverseSequence": shapes.revseq,
    "RoiAlign": windows.roialign,
    "RotaryEmbedding": windows.rotary,
    "Round": arithmetic.gen_round,
    "STFT": arithmetic.stft,
    "Scatter": shapes.scatter9,
    "ScatterElements": shapes.scatterel,
    "ScatterND": shapes.scatternd,
    "Selu": arithmetic.unary(alpha=(0.5, 2), gamma=(1.1,)),
    "Shape": shapes.shp,
    "Shrink": arithmetic.shrink,
    "Sigmoid": arithmetic.unary(),
    "Sign": arithmetic.unary(),
    "Sin": arithmetic.unary(),
    "Sinh": arithmetic.unary(),
    "Size": arithmetic.hardswish,
    "Slice": shapes.slice_,
    "Softmax": windows.softmaxlike,
    "SoftmaxCrossEntropyLoss": arithmetic.nll,
    "Softplus": arithmetic.unary(),
    "Softsign": arithmetic.unary(),
    "SpaceToDepth": shapes.s2d,
    "Split": shapes.split,
    "Sqrt": arithmetic.unary(0.01, 4),
    "Squeeze": shapes.squeeze,
    "Sub": arithmetic.binary,
    "Sum": arithmetic.variadic,
    "Swish": arithmetic.swish,
    "Tan": arithmetic.unary(),
    "Tanh": arithmetic.unary(),
    "ThresholdedRelu": arithmetic.unary(alpha=(0.2, 1.5)),
    "Tile": shapes.tile,
    "TopK": shapes.topk,
    "Transpose": shapes.transpose,
    "Trilu": shapes.trilu,
    "Unique": shapes.unique,
    "Unsqueeze": shapes.unsqueeze,
    "Upsample": windows.upsample,
    "Where": shapes.where,
    "Xor": arithmetic.logic,
}


@cache
def _versions() -> dict[str, list[int]]:
    """Return the versions of all operators by name."""
    found: dict[str, list[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and not schema.deprecated:
            found.setdefault(schema.name, []).append(schema.since_version)
    return found


def versions(op: str) -> list[int]:
    """Return the versions of an operator that the installed onnx package knows."""
    return sorted(_versions().get(op, []))


def random_node(op: str, opset: int, seed: int) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Return a model with one random node, and its inputs by name."""
    rng = np.random.default_rng([zlib.crc32(op.encode()), opset, seed])
    inputs, attributes, outputs = OPERATORS[op](rng, opset)
    return node_model(op, opset, inputs, attributes, outputs)


def node_model(
    op: str, opset: int, inputs: list[Any], attributes: dict[str, Any], outputs: int = 1
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Return a model with one node, and its inputs by name.

    An input that is None is omitted, as are attributes that this version does not have.
    """
    names = [f"x{i}" if value is not None else "" for i, value in enumerate(inputs)]
    feed = {name: np.asarray(value) for name, value in zip(names, inputs) if name}
    known = onnx.defs.get_schema(op, opset, "").attributes
    given = {name: value for name, value in attributes.items() if name in known}
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, name=f"the_{op}", **given)
    values = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in feed.items()
    ]
    graph = helper.make_graph(
        [node], "node", values, [helper.make_empty_tensor_value_info(name) for name in results]
    )
    return (
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8),
        feed,
    )
