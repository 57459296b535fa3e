"""Which operators of the standard are computed here, at which opsets, instead of by the reference
evaluator of the onnx package, which has them wrong or not at all in some of its versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from polygraphy.adapters.onnx_common import (
    controlflow,
    convolution,
    elementwise,
    indexing,
    normalization,
    quantization,
    recurrent,
    resizing,
)
from polygraphy.adapters.onnx_common import convolution as pooling

_ANY = 1 << 30
_LEGACY: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "And": np.logical_and,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
    "Mul": np.multiply,
    "Or": np.logical_or,
    "Pow": np.power,
    "Sub": np.subtract,
    "Xor": np.logical_xor,
}
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Mean", "Prod", "Sum", "SumSquare")

OPERATORS: Mapping[str, tuple[tuple[int, int, Callable[..., Any]], ...]] = {
    **{op: ((1, 6, elementwise.legacy(function)),) for op, function in _LEGACY.items()},
    **{f"Reduce{kind}": ((1, _ANY, elementwise.reduce(f"Reduce{kind}")),) for kind in _REDUCTIONS},
    "AveragePool": ((1, _ANY, pooling.average_pool),),
    "BatchNormalization": ((1, _ANY, normalization.batch_normalization),),
    **({"Cast": ((6, _ANY, quantization.cast),)} if quantization.TRUNCATES else {}),
    "Clip": ((1, 10, elementwise.clip),),
    "Conv": ((1, _ANY, convolution.conv),),
    "ConvInteger": ((10, _ANY, quantization.conv_integer),),
    "ConvTranspose": ((1, _ANY, convolution.conv_transpose),),
    "CumSum": ((11, _ANY, elementwise.cum_sum),),
    "DequantizeLinear": ((10, 18, quantization.dequantize),),
    "Det": ((11, _ANY, elementwise.det),),
    "Div": ((1, 6, elementwise.legacy(elementwise.div)), (7, _ANY, elementwise.div)),
    "Dropout": ((1, 6, indexing.dropout),),
    "Erf": ((9, _ANY, elementwise.erf),),
    "GRU": ((1, _ANY, recurrent.gru),),
    "GatherElements": ((11, _ANY, indexing.gather_elements),),
    "Gelu": ((20, _ANY, elementwise.gelu),),
    "Gemm": ((1, _ANY, elementwise.gemm),),
    "GlobalAveragePool": ((1, _ANY, pooling.global_average_pool),),
    "GlobalLpPool": ((1, _ANY, pooling.global_lp_pool),),
    "GlobalMaxPool": ((1, _ANY, pooling.global_max_pool),),
    "GridSample": ((16, _ANY, resizing.grid_sample),),
    "GroupNormalization": ((18, _ANY, normalization.group_normalization),),
    "Hardmax": ((1, _ANY, normalization.hardmax),),
    "InstanceNormalization": ((1, _ANY, normalization.instance_normalization),),
    "LRN": ((1, _ANY, normalization.lrn),),
    "LSTM": ((1, _ANY, recurrent.lstm),),
    "LayerNormalization": ((17, _ANY, normalization.layer_normalization),),
    "LogSoftmax": ((1, _ANY, normalization.log_softmax),),
    "Loop": ((1, _ANY, controlflow.loop),),
    "LpNormalization": ((1, _ANY, normalization.lp_normalization),),
    "LpPool": ((1, _ANY, pooling.lp_pool),),
    "MaxPool": ((1, _ANY, pooling.max_pool),),
    "MaxRoiPool": ((1, _ANY, pooling.max_roi_pool),),
    "Mean": ((1, _ANY, elementwise.mean),),
    "MeanVarianceNormalization": ((9, _ANY, normalization.mean_variance_normalization),),
    "NonMaxSuppression": ((10, _ANY, indexing.non_max_suppression),),
    "Optional": ((15, _ANY, indexing.optional),),
    "OptionalHasElement": ((15, _ANY, indexing.has_element),),
    "PRelu": ((1, 6, elementwise.prelu),),
    "Pad": ((1, _ANY, indexing.pad),),
    "QLinearConv": ((10, _ANY, quantization.qlinear_conv),),
    "QLinearMatMul": ((10, _ANY, quantization.qlinear_matmul),),
    "QuantizeLinear": ((10, 18, quantization.quantize),),
    "RNN": ((1, _ANY, recurrent.rnn),),
    "Reshape": ((1, 4, indexing.reshape),),
    "Resize": ((10, 10, resizing.resize_10), (11, _ANY, resizing.resize)),
    "Scan": ((8, 8, controlflow.scan_8), (9, _ANY, controlflow.scan)),
    "Scatter": ((9, _ANY, indexing.scatter),),
    "ScatterElements": ((11, _ANY, indexing.scatter),),
    "ScatterND": ((11, _ANY, indexing.scatter_nd),),
    "Slice": ((1, _ANY, indexing.slices),),
    "Softmax": ((1, _ANY, normalization.softmax),),
    "Split": ((1, 1, indexing.split),),
    "Squeeze": ((1, 12, indexing.squeeze),),
    "Sum": ((1, _ANY, elementwise.total),),
    "TopK": ((1, _ANY, indexing.top_k),),
    "Unique": ((11, _ANY, indexing.unique),),
    "Unsqueeze": ((1, 12, indexing.unsqueeze),),
    "Upsample": ((1, _ANY, resizing.upsample),),
}
"""By operator: the first and the last opset, and what computes it. A function takes the inputs, the
attributes by name, `opset` (the version of the operator) and `outputs` (how many there are)."""

IMPLIED: Mapping[tuple[str, int], Mapping[str, Any]] = {
    ("RoiAlign", 10): {"coordinate_transformation_mode": "output_half_pixel"},
}
"""What a version of an operator means where a later one has an attribute for it."""


_RANDOM = "draws random numbers, and no two backends draw the same"
DEPARTING: Mapping[str, tuple[int, int, str]] = {
    **dict.fromkeys(
        (
            "Bernoulli",
            "Multinomial",
            "RandomNormal",
            "RandomNormalLike",
            "RandomUniform",
            "RandomUniformLike",
        ),
        (1, _ANY, _RANDOM),
    ),
    "Dropout": (1, 6, "is computed as in inference, also where is_test is not set"),
}
"""Operators whose results are not those of other backends: the first and the last opset, and why.
They are reported when a model is loaded."""


def implementation(op: str, opset: int) -> Callable[..., Any] | None:
    """Return what computes an operator of the standard, or None where the onnx package does."""
    for first, last, function in OPERATORS.get(op, ()):
        if first <= opset <= last:
            return function
    return None
