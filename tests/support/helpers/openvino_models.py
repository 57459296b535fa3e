"""What the tests of `adapters/openvino/test_compiled.py` and others share."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from polygraphy.adapters.openvino.compiled import (
    layers_of,
)
from polygraphy.backend.openvino import (
    compiled_model_from_onnx,
)
from tests.support import models

X = np.random.RandomState(0).standard_normal((2, 3, 8, 8)).astype(np.float32)


W = np.random.RandomState(1).standard_normal((4, 3, 3, 3)).astype(np.float32)


def conv_relu() -> onnx.ModelProto:
    """Return y = Relu(c), c = Conv(x, w), and z = Neg(x); x is float32 [n, 3, 8, 8]."""
    return models.make(
        "conv_relu",
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["y"]),
            helper.make_node("Neg", ["x"], ["z"]),
        ],
        [models.value("x", ["n", 3, 8, 8])],
        [models.value("y", ["n", 4, 8, 8]), models.value("z", ["n", 3, 8, 8])],
        weights={"w": W},
    )


def computes_in_bfloat16() -> bool:
    """Return whether OpenVINO computes a convolution in bfloat16 on this CPU."""
    compiled = compiled_model_from_onnx(conv_relu(), precision_hint="bf16")
    return any(each.is_lowered for each in layers_of(compiled))
