"""Runs models for tests of what edits them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime

__all__ = ["alike", "copied", "run"]


def run(model: onnx.ModelProto, **feed: Any) -> dict[str, Any]:
    """Return the outputs of a model in ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed)))


def copied(model: onnx.ModelProto) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    return made


def alike(one: dict[str, Any], other: dict[str, Any], rtol: float = 0.0) -> bool:
    """Return whether outputs have the same names, types and shapes, and elements that are as close."""
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype
        and one[name].shape == other[name].shape
        and np.allclose(one[name], other[name], rtol=rtol, atol=rtol)
        for name in one
    )
