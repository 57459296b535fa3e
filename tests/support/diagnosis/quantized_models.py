"""What the tests of `acceptance/test_diagnose.py` and others share."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.utils
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def network(
    middle: list[onnx.NodeProto], weights: dict[str, Any], *, opset: int = 13
) -> onnx.ModelProto:
    """Return a small network whose middle nodes compute `after` from `before`, float32 [2, 8]."""
    rng = np.random.default_rng(5)
    own = {
        "w1": rng.normal(size=(8, 8)).astype(np.float32),
        "b1": rng.normal(size=8).astype(np.float32),
        "w2": rng.normal(size=(8, 4)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["product"], "first"),
        helper.make_node("Add", ["product", "b1"], ["sum"], "bias"),
        helper.make_node("Tanh", ["sum"], ["before"], "tanh"),
        *middle,
        helper.make_node("MatMul", ["after", "w2"], ["scores"], "last"),
        helper.make_node("Relu", ["scores"], ["y"], "relu"),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", FLOAT, [2, 8])],
        [helper.make_tensor_value_info("y", FLOAT, [2, 4])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in {**own, **weights}.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model


def quantized_twice() -> onnx.ModelProto:
    """Return a model with two Q/DQ pairs of different scales; ONNX Runtime drops one."""
    weights = {
        "fine": np.float32(0.02),
        "coarse": np.float32(0.05),
        "zero": np.uint8(128),
    }
    middle = [
        helper.make_node("QuantizeLinear", ["before", "fine", "zero"], ["q1"], "quantize1"),
        helper.make_node("DequantizeLinear", ["q1", "fine", "zero"], ["d1"], "dequantize1"),
        helper.make_node("QuantizeLinear", ["d1", "coarse", "zero"], ["q2"], "quantize2"),
        helper.make_node("DequantizeLinear", ["q2", "coarse", "zero"], ["after"], "dequantize2"),
    ]
    return network(middle, weights)
