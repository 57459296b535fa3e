"""Operators whose kernels differ by more than the rounding of their results, because they also
round positions, or add up many numbers one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy
from onnx import NodeProto, helper

from polygraphy.domain.rounding import GROWTH

_INTERPOLATION = 4.0
"""Factor for operators that read between elements, at positions that they compute in float32.
Measured between ONNX Runtime on a CPU, on CUDA, and the evaluator: up to 3.2 times the usual
limit."""
_ANTIALIASING = 2.0
"""The same for Resize with antialiasing: up to 1.7 times."""


def kernel_factor(node: NodeProto, inputs: Sequence[Any]) -> float:
    """Return by how many times more than one rounding limit the kernels of two backends may differ
    in the result of a node: 1 for most operators.

    Args:
        node: the node.
        inputs: the values of its inputs.
    """
    if node.op_type in ("GridSample", "RoiAlign"):
        return _INTERPOLATION
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    if node.op_type == "Resize":
        return _ANTIALIASING if attributes.get("antialias") else 1.0
    if node.op_type in ("CumSum", "CumProd"):
        axis, shape = int(numpy.reshape(inputs[1], -1)[0]), numpy.shape(inputs[0])
        # The error of consecutive independent roundings grows with the square root of their number.
        return max(1.0, math.sqrt(shape[axis] if shape else 1) / GROWTH)
    return 1.0
