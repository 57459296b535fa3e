"""A small model with the traits of models that other people ship: their weights are Constant nodes, a
dimension is named '?' twice, a reflecting Pad takes no length below 2, an LSTM and an If are in it,
integers are indices, and the operator set is an old one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["DATA", "shipped"]

DATA = ("--input-shapes", "audio:2x64", "ids:2x5", "--val-range", "[-1,1]", "ids:[0,15]")
"""The options about data that make sense for it."""

_HIDDEN, _CHANNELS, _WORDS, _CLASSES = 8, 6, 256, 4


class _Nodes:
    """Collects nodes; every weight is a Constant node in front of its reader."""

    def __init__(self) -> None:
        """Start without nodes."""
        self.listed: list[onnx.NodeProto] = []
        self._random = np.random.default_rng(0)

    def constant(self, name: str, value: Any) -> str:
        """Add a constant, and return its name."""
        tensor = numpy_helper.from_array(np.asarray(value), name)
        self.listed.append(
            helper.make_node("Constant", [], [name], name=f"make_{name}", value=tensor)
        )
        return name

    def weight(self, name: str, *shape: int) -> str:
        """Add a random weight, and return its name."""
        values = self._random.standard_normal(shape, dtype=np.float32) / np.sqrt(shape[-1])
        return self.constant(name, values.astype(np.float32))

    def add(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        self.listed.append(
            helper.make_node(op, inputs, [output], name=f"{op}_{output}", **attributes)
        )
        return output


def shipped() -> onnx.ModelProto:
    """Return a model that classifies audio with text.

    ``audio`` float32 (?, ?), ``ids`` int64 (batch, words) -> ``probabilities`` and ``state``.
    """
    nodes = _Nodes()
    _sound(nodes)
    _words(nodes)
    nodes.add("Add", ["heard", "read"], "both")
    _branches(nodes)
    nodes.add("Softmax", ["logits"], "probabilities", axis=1)
    inputs = [
        helper.make_tensor_value_info("audio", TensorProto.FLOAT, ["?", "?"]),
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "words"]),
    ]
    outputs = [
        helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", _CLASSES]),
        helper.make_tensor_value_info("state", TensorProto.FLOAT, [1, "batch", _HIDDEN]),
    ]
    graph = helper.make_graph(nodes.listed, "shipped", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=7)
    onnx.checker.check_model(model)
    return model


def _sound(nodes: _Nodes) -> None:
    """Add nodes that pad, convolve and normalize the audio, and an LSTM."""
    pads = nodes.constant("pads", np.array([0, 2, 0, 2], np.int64))
    nodes.add("Pad", ["audio", pads], "padded", mode="reflect")
    nodes.add("Unsqueeze", ["padded"], "channel", axes=[1])
    kernel = nodes.weight("kernel", _CHANNELS, 1, 4)
    nodes.add("Conv", ["channel", kernel], "convolved", kernel_shape=[4], strides=[4])
    statistics = [
        nodes.constant(name, np.full(_CHANNELS, value, np.float32))
        for name, value in (("scale", 1.5), ("shift", 0.1), ("mean", 0.2), ("variance", 0.7))
    ]
    nodes.add("BatchNormalization", ["convolved", *statistics], "normalized")
    nodes.add("Relu", ["normalized"], "rectified")
    nodes.add("Transpose", ["rectified"], "steps", perm=[2, 0, 1])
    weights = nodes.weight("lstm_w", 1, 4 * _HIDDEN, _CHANNELS)
    recurrent = nodes.weight("lstm_r", 1, 4 * _HIDDEN, _HIDDEN)
    nodes.listed.append(
        helper.make_node(
            "LSTM", ["steps", weights, recurrent], ["", "state"], "LSTM", hidden_size=_HIDDEN
        )
    )
    nodes.add("Squeeze", ["state"], "heard", axes=[0])


def _words(nodes: _Nodes) -> None:
    """Add nodes that look up the words, and take the largest value of each feature."""
    table = nodes.weight("table", _WORDS, _HIDDEN)
    nodes.add("Gather", [table, "ids"], "embedded", axis=0)
    nodes.add("Transpose", ["embedded"], "by_feature", perm=[0, 2, 1])
    nodes.add("GlobalMaxPool", ["by_feature"], "largest")
    nodes.add("Squeeze", ["largest"], "read", axes=[2])


def _branches(nodes: _Nodes) -> None:
    """Add an If that classifies with one of two matrices, by the length of the audio."""
    nodes.add("Shape", ["audio"], "shape")
    one = nodes.constant("one", np.array(1, np.int64))
    nodes.add("Gather", ["shape", one], "length", axis=0)
    long = nodes.constant("long", np.array(32, np.int64))
    nodes.add("Greater", ["length", long], "is_long")
    branches = {}
    for name in ("then_branch", "else_branch"):
        inner = _Nodes()
        inner._random = np.random.default_rng(len(name))
        matrix = inner.weight(f"{name}_matrix", _HIDDEN, _CLASSES)
        inner.add("MatMul", ["both", matrix], f"{name}_logits")
        result = helper.make_tensor_value_info(f"{name}_logits", TensorProto.FLOAT, None)
        branches[name] = helper.make_graph(inner.listed, name, [], [result])
    nodes.listed.append(helper.make_node("If", ["is_long"], ["logits"], "If", **branches))
