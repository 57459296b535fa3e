"""Bugs of released packages that a node or two show wherever they stand: rows of data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto

from .hosts import Net

FIRST, LAST = "1.15.1", "1.32.0"


class Step(NamedTuple):
    """A node: its operator, what it reads beside what arrives, and its attributes."""

    op: str
    reads: Sequence[np.ndarray[Any, Any] | None] = ()
    """None: nothing, an optional input that is left out."""
    attributes: dict[str, Any] = {}
    outputs: int = 1


class Row(NamedTuple):
    """A bug that some nodes in a chain show."""

    name: str
    shape: tuple[int, ...]
    steps: Sequence[Step]
    first: str = FIRST
    last: str = LAST
    cause: str = "kernel"
    rewrites: tuple[str, ...] = ()
    opset: int = 13
    arrives: int = TensorProto.FLOAT
    """The type that the first node reads."""


def chain(row: Row) -> Callable[[Net, str], str]:
    """Return a function that adds the operators of a row, and uses all outputs of the last."""

    def build(net: Net, t: str) -> str:
        """Add the operators of the row after a tensor, and return the last output's name."""
        tensor = net.squeeze(t, *row.shape)
        if row.arrives != TensorProto.FLOAT:
            tensor = net.node("Cast", net.node("Mul", tensor, net.constant(9.0)), to=row.arrives)
        tensors = [tensor]
        with net.culprit():
            for step in row.steps:
                reads = [
                    "" if operand is None else net.constant(operand, operand.dtype)
                    for operand in step.reads
                ]
                out = net.node(step.op, tensors[0], *reads, outputs=step.outputs, **step.attributes)
                tensors = [out] if isinstance(out, str) else out
        means = []
        for result in tensors:
            is_float = row.arrives == TensorProto.FLOAT
            value = result if is_float else net.node("Cast", result, to=TensorProto.FLOAT)
            mean = net.node("ReduceMean", net.node("Softsign", value), keepdims=0)
            means.append(net.reshape(mean, (1,)))
        total = net.node("Concat", *means, axis=0)
        return net.excite(t, net.node("Mul", total, net.constant(4.0)), len(means))

    return build


def _weights(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    """Return normal numbers of a shape, drawn by a seed."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _longs(*values: int) -> np.ndarray[Any, Any]:
    """Return an int64 array."""
    return np.array(values, np.int64)


def _recurrent(op: str, *activations: str, gates: int, **attributes: Any) -> Step:
    """Return a recurrent step on [4, 2, 2] whose activations have their own parameters."""
    hidden = 3
    weights = (_weights(1, 1, gates * hidden, 2), _weights(2, 1, gates * hidden, hidden))
    bias = _weights(3, 1, 2 * gates * hidden)
    options = {"activations": list(activations), "hidden_size": hidden, **attributes}
    return Step(op, (*weights, bias), options, 2 if op != "LSTM" else 3)


def _pair(scale: float, zero: int, dtype: Any = np.uint8) -> tuple[Step, Step]:
    """Return a QuantizeLinear and a DequantizeLinear with the same parameters."""
    reads = (np.array(scale, np.float32), np.array(zero, dtype))
    return Step("QuantizeLinear", reads), Step("DequantizeLinear", reads)


def _resize(coefficient: float, scales: Sequence[float], **attributes: Any) -> Step:
    """Return a cubic Resize with a coefficient and scales."""
    options = {
        "mode": "cubic",
        "cubic_coeff_a": coefficient,
        "exclude_outside": 1,
        "coordinate_transformation_mode": "align_corners",
    }
    return Step("Resize", (None, np.array(scales, np.float32)), {**options, **attributes})


_SELECTOR = ("QDQSelectorActionTransformer",)

ROWS = (
    Row(
        "LpPool, ceil_mode",
        (1, 3, 9, 5, 5),
        [
            Step(
                "LpPool",
                (),
                {"kernel_shape": [1, 2, 1], "strides": [1, 1, 3], "ceil_mode": 1, "p": 1},
            )
        ],
        last="1.20.1",
        opset=18,
    ),
    Row(
        "AveragePool, ceil_mode, window beyond the end",
        (1, 1, 5, 9, 9),
        [
            Step(
                "AveragePool",
                (),
                {
                    "kernel_shape": [1, 2, 1],
                    "strides": [2, 1, 3],
                    "pads": [0, 0, 0, 0, 1, 0],
                    "ceil_mode": 1,
                    "count_include_pad": 1,
                },
            )
        ],
        last="1.20.1",
    ),
    Row(
        "MaxPool, ceil_mode, dilations",
        (1, 1, 9, 7, 5),
        [
            Step(
                "MaxPool",
                (),
                {
                    "kernel_shape": [2, 2, 1],
                    "strides": [1, 3, 2],
                    "pads": [1, 1, 0, 1, 1, 0],
                    "dilations": [1, 1, 2],
                    "ceil_mode": 1,
                },
            )
        ],
        last="1.20.1",
    ),
    Row(
        "MaxPool, SAME_UPPER, dilations",
        (2, 1, 7),
        [
            Step(
                "MaxPool",
                (),
                {
                    "kernel_shape": [2],
                    "strides": [3],
                    "dilations": [2],
                    "ceil_mode": 1,
                    "auto_pad": "SAME_UPPER",
                },
            )
        ],
    ),
    Row(
        "AveragePool, SAME_LOWER, refused",
        (1, 3, 5, 5),
        [
            Step(
                "AveragePool",
                (),
                {
                    "kernel_shape": [1, 4],
                    "strides": [3, 2],
                    "ceil_mode": 1,
                    "auto_pad": "SAME_LOWER",
                },
            )
        ],
        first="1.30.0",
        cause="refusal",
    ),
    Row(
        "RNN with LeakyRelu",
        (4, 2, 2),
        [_recurrent("RNN", "LeakyRelu", gates=1)],
        last="1.28.0",
    ),
    Row(
        "RNN with HardSigmoid, backwards",
        (4, 2, 2),
        [_recurrent("RNN", "HardSigmoid", gates=1, direction="reverse")],
        last="1.28.0",
    ),
    Row(
        "Resize, cubic, enlarged, nothing outside",
        (1, 2, 4, 3),
        [_resize(-0.75, [1.0, 1.0, 2.7, 0.5])],
    ),
    Row(
        "Resize, cubic, antialiased, nothing outside",
        (1, 1, 6, 6),
        [_resize(-0.5, [1.0, 1.0, 0.6, 3.0], antialias=1)],
        opset=18,
    ),
    Row(
        "ReduceSumSquare over no axes",
        (1,),
        [Step("ReduceSumSquare", (_longs(),), {"keepdims": 0, "noop_with_empty_axes": 1})],
        first="1.17.3",
        last="1.23.2",
        opset=18,
    ),
    Row(
        "ReduceProd over no axes",
        (5, 1, 5),
        [Step("ReduceProd", (_longs(),), {"keepdims": 0, "noop_with_empty_axes": 1})],
        last="1.16.3",
        opset=18,
        arrives=TensorProto.INT32,
    ),
    Row(
        "Transpose before a MatMul with a vector",
        (2, 4, 3),
        [Step("Transpose", (), {"perm": [0, 2, 1]}), Step("MatMul", (_weights(4, 4),))],
        cause="rewrite",
        rewrites=("MatmulTransposeFusion", "MatMulTransposeFusion"),
    ),
    Row(
        "quantized Softmax",
        (5, 4, 5, 5),
        [*_pair(0.03, 128), Step("Softmax"), *_pair(0.004, 0)],
        cause="rewrite",
        rewrites=_SELECTOR,
    ),
    Row(
        "quantized LeakyRelu, refused",
        (5, 3),
        [
            Step(
                op,
                (np.array([0.02, 0.03, 0.04], np.float32), np.array([128] * 3, np.uint8)),
                {"axis": -1},
            )
            for op in ("QuantizeLinear", "DequantizeLinear")
        ]
        + [Step("LeakyRelu"), *_pair(0.05, 120)],
        cause="refusal",
        rewrites=_SELECTOR,
    ),
    Row(
        "MeanVarianceNormalization, refused",
        (1, 2, 3, 4),
        [Step("MeanVarianceNormalization", (), {"axes": [2, 3]})],
        last=FIRST,
        cause="refusal",
    ),
    Row(
        "ArgMax of INT64, refused",
        (5, 3, 2),
        [Step("ArgMax", (), {"axis": 2, "keepdims": 0})],
        last="1.19.2",
        cause="refusal",
        arrives=TensorProto.INT64,
    ),
)
