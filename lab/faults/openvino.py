"""Bugs of released versions of OpenVINO: rows as in `kernels`.

Each is a thread of its users, or what the node cases of the onnx package show of a release: numbers
that neither ONNX Runtime nor the formula of the operator gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from .environments import OPENVINO
from .kernels import Row, Step

FIRST, LAST = OPENVINO[0], OPENVINO[-1]


def _pool(op: str, **attributes: Any) -> Step:
    """Return a pooling step whose last window starts beyond the end, or counts padding."""
    window = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1] * 4, "ceil_mode": 1}
    return Step(op, (), {**window, **attributes})


def _lstm(peepholes: bool, **attributes: Any) -> Step:
    """Return an LSTM on [4, 2, 3] with five units, with or without peepholes."""
    rng = np.random.default_rng(7)
    shapes = [(1, 20, 3), (1, 20, 5), (1, 40)]
    reads: list[Any] = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    if peepholes:
        reads += [None, None, None, rng.standard_normal((1, 15)).astype(np.float32)]
    return Step("LSTM", reads, {"hidden_size": 5, **attributes}, 3)


def _transposed(**attributes: Any) -> Step:
    """Return a ConvTranspose with a random weight and the given attributes."""
    weight = np.random.default_rng(8).standard_normal((4, 3, 3, 3)).astype(np.float32)
    return Step("ConvTranspose", (weight,), {"kernel_shape": [3, 3], **attributes})


def _resize(scales: list[float], **attributes: Any) -> Step:
    """Return a Resize with scales and the given attributes."""
    return Step("Resize", (None, np.array(scales, np.float32)), attributes)


def _long(value: int) -> tuple[np.ndarray[Any, Any]]:
    """Return the inputs of a step: one int64 scalar."""
    return (np.array(value, np.int64),)


def _row(*of_row: Any, first: str = FIRST, last: str = LAST, **more: Any) -> Row:
    """Return a row of the table for a range of OpenVINO versions."""
    return Row(*of_row, first=first, last=last, **more)


ROWS = (
    # openvinotoolkit/openvino#33371
    _row(
        "PRelu, a slope for the last axis",
        (1, 4, 3, 4),
        [Step("PRelu", (np.array([0.1, 0.9, 0.3, 0.6], np.float32),))],
    ),
    # openvinotoolkit/openvino#33369
    _row("MaxPool, ceil_mode, window in the padding", (1, 2, 5, 5), [_pool("MaxPool")]),
    _row(
        "AveragePool, ceil_mode, padding counted",
        (1, 2, 6, 6),
        [_pool("AveragePool", kernel_shape=[3, 3], count_include_pad=1)],
    ),
    _row("LSTM with peepholes", (4, 2, 3), [_lstm(True)], first="2025.1.0"),
    _row("LSTM, coupled gates", (4, 2, 3), [_lstm(False, input_forget=1)], first="2025.1.0"),
    _row("Softmax of all axes behind", (2, 3, 4), [Step("Softmax", (), {"axis": 1})], opset=11),
    _row(
        "ReduceL1 over some axes",
        (2, 3, 4, 5),
        [Step("ReduceL1", (), {"axes": [1, -1], "keepdims": 0})],
        first="2025.3.0",
    ),
    _row(
        "ReduceLogSumExp over some axes",
        (2, 3, 4, 5),
        [Step("ReduceLogSumExp", (), {"axes": [1, -1], "keepdims": 0})],
        first="2026.4.1",
    ),
    _row(
        "INT64 in 32 bits",
        (5, 3),
        [Step("Mul", _long(2**33)), Step("Add", _long(5)), Step("Div", _long(2**31))],
        arrives=TensorProto.INT64,
    ),
    _row(
        "Resize, antialias",
        (1, 1, 6, 6),
        [_resize([1, 1, 0.6, 0.6], mode="linear", antialias=1)],
        opset=18,
    ),
    _row(
        "Resize, cubic, nothing outside",
        (1, 1, 4, 4),
        [_resize([1, 1, 2, 2], mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1)],
    ),
    _row(
        "AveragePool, dilations",
        (1, 2, 8, 8),
        [Step("AveragePool", (), {"kernel_shape": [3, 3], "dilations": [2, 2]})],
        last="2025.1.0",
        opset=19,
    ),
    _row(
        "ConvTranspose, SAME_UPPER",
        (1, 4, 5, 5),
        [_transposed(strides=[2, 2], auto_pad="SAME_UPPER")],
        last="2025.3.0",
    ),
    # openvinotoolkit/openvino#31007
    _row(
        "ConvTranspose, output_shape",
        (1, 4, 5, 5),
        [_transposed(strides=[2, 2], output_shape=[10, 10])],
        last="2025.3.0",
    ),
    _row(
        "GatherElements, from the end",
        (3, 4),
        [Step("GatherElements", (np.array([[-1, 0, 1, -2]]),), {"axis": 0})],
        last="2025.1.0",
    ),
    _row(
        "ReduceL2, axes that are an input",
        (3, 2, 4),
        [Step("ReduceL2", (np.array([2]),), {"keepdims": 1})],
        last="2024.0.0",
        opset=18,
    ),
    _row(
        "RoiAlign, max",
        (1, 2, 6, 6),
        [
            Step(
                "RoiAlign",
                (np.array([[0, 0, 4, 4], [1, 2, 5, 5]], np.float32), np.zeros(2, np.int64)),
                {"mode": "max", "output_height": 3, "output_width": 2, "sampling_ratio": 2},
            )
        ],
        opset=16,
    ),
)
"""First and last versions are those of OpenVINO, all unless they are given."""
