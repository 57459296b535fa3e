"""Formulas of the ONNX standard in float64, element by element: slow, and written without looking
at how the operators are implemented.

Each takes the inputs of a node as float64, its attributes and the version of its operator, and
returns the first output.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["FORMULAS"]


def batch_normalization(x, scale, bias, mean, var, *, opset, **attrs):
    epsilon = attrs.get("epsilon", 1e-5)
    made = np.empty_like(x)
    for at in np.ndindex(x.shape):
        channel = at[1]
        center, spread = mean[channel], var[channel]
        if attrs.get("training_mode"):
            values = x[:, channel]
            center = values.mean()
            spread = ((values - center) ** 2).mean()
        made[at] = scale[channel] * (x[at] - center) / math.sqrt(spread + epsilon) + bias[channel]
    return made


def _rows(x, axis, opset):
    """Return pairs of an index and the elements that are normalized together with it."""
    axis = axis + x.ndim if axis < 0 else axis
    for at in np.ndindex(x.shape):
        if opset >= 13:
            others = [(*at[:axis], i, *at[axis + 1 :]) for i in range(x.shape[axis])]
        else:
            others = [(*at[:axis], *rest) for rest in np.ndindex(x.shape[axis:])]
        yield at, others


def softmax(x, *, opset, axis=None, **_):
    axis = (1 if opset < 13 else -1) if axis is None else axis
    made = np.empty_like(x)
    for at, others in _rows(x, axis, opset):
        made[at] = 1 / sum(math.exp(x[other] - x[at]) for other in others)
    return made


def log_softmax(x, *, opset, axis=None, **_):
    axis = (1 if opset < 13 else -1) if axis is None else axis
    made = np.empty_like(x)
    for at, others in _rows(x, axis, opset):
        made[at] = -math.log(sum(math.exp(x[other] - x[at]) for other in others))
    return made


def hardmax(x, *, opset, axis=None, **_):
    axis = (1 if opset < 13 else -1) if axis is None else axis
    made = np.zeros_like(x)
    for at, others in _rows(x, axis, opset):
        largest = max(x[other] for other in others)
        made[at] = at == next(other for other in others if x[other] == largest)
    return made


def lrn(x, *, size, alpha=1e-4, beta=0.75, bias=1.0, **_):
    made = np.empty_like(x)
    for at in np.ndindex(x.shape):
        low = max(0, at[1] - math.floor((size - 1) / 2))
        high = min(x.shape[1] - 1, at[1] + math.ceil((size - 1) / 2))
        squares = sum(x[(at[0], c, *at[2:])] ** 2 for c in range(low, high + 1))
        made[at] = x[at] / (bias + alpha / size * squares) ** beta
    return made


def global_pool(of: Callable[[Any], float]) -> Callable[..., Any]:
    def call(x, *, p=2, **_):
        made = np.empty((*x.shape[:2], *(1,) * (x.ndim - 2)))
        for n, c in np.ndindex(x.shape[:2]):
            values = x[n, c].ravel().tolist()
            made[n, c] = sum(abs(v) ** p for v in values) ** (1 / p) if of is None else of(values)
        return made

    return call


def _pads(x, kernel, attrs):
    """Return strides, dilations, padding at the begin, and the size of the output, by axis."""
    rank = x.ndim - 2
    strides, dilations = attrs.get("strides", [1] * rank), attrs.get("dilations", [1] * rank)
    pads, auto_pad = attrs.get("pads", [0] * 2 * rank), attrs.get("auto_pad", "NOTSET")
    begins, ends, sizes = [], [], []
    for i, size in enumerate(x.shape[2:]):
        reach = (kernel[i] - 1) * dilations[i] + 1
        begin, end = pads[i], pads[rank + i]
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            count = math.ceil(size / strides[i])
            total = max(0, (count - 1) * strides[i] + reach - size)
            begin = total // 2 if auto_pad == "SAME_UPPER" else (total + 1) // 2
            end = total - begin
        else:
            if auto_pad == "VALID":
                begin = end = 0
            steps = (size + begin + end - reach) / strides[i]
            count = (math.ceil(steps) if attrs.get("ceil_mode") else math.floor(steps)) + 1
            if attrs.get("ceil_mode") and (count - 1) * strides[i] >= size + begin:
                count -= 1
        begins.append(begin)
        ends.append(end)
        sizes.append(count)
    return strides, dilations, begins, ends, sizes


def pool(kind: str) -> Callable[..., Any]:
    def call(x, *, kernel_shape, p=2, count_include_pad=0, **attrs):
        strides, dilations, begins, ends, sizes = _pads(x, kernel_shape, attrs)
        made = np.empty((*x.shape[:2], *sizes))
        for at in np.ndindex(made.shape):
            values, padding = [], 0
            for tap in np.ndindex(*kernel_shape):
                place = [
                    o * s - b + t * d
                    for o, s, b, t, d in zip(at[2:], strides, begins, tap, dilations)
                ]
                if all(0 <= i < size for i, size in zip(place, x.shape[2:])):
                    values.append(x[(*at[:2], *place)])
                else:
                    spans = zip(place, begins, ends, x.shape[2:])
                    padding += all(-b <= i < size + e for i, b, e, size in spans)
            if kind == "max":
                made[at] = max(values)
            elif kind == "lp":
                made[at] = sum(abs(v) ** p for v in values) ** (1 / p)
            else:
                made[at] = sum(values) / (len(values) + (padding if count_include_pad else 0))
        return made

    return call


def conv(x, w, b=None, *, group=1, **attrs):
    kernel = w.shape[2:]
    strides, dilations, begins, _, sizes = _pads(x, kernel, attrs)
    made = np.zeros((x.shape[0], w.shape[0], *sizes))
    for at in np.ndindex(made.shape):
        first = at[1] // (w.shape[0] // group) * w.shape[1]
        for c, *tap in np.ndindex(w.shape[1:]):
            place = [
                o * s - p + t * d for o, s, p, t, d in zip(at[2:], strides, begins, tap, dilations)
            ]
            if all(0 <= i < size for i, size in zip(place, x.shape[2:])):
                made[at] += x[(at[0], first + c, *place)] * w[(at[1], c, *tap)]
        if b is not None:
            made[at] += b[at[1]]
    return made


def conv_transpose(x, w, b=None, *, group=1, output_shape=None, **attrs):
    rank = x.ndim - 2
    strides, dilations = attrs.get("strides", [1] * rank), attrs.get("dilations", [1] * rank)
    added, pads = attrs.get("output_padding", [0] * rank), attrs.get("pads", [0] * 2 * rank)
    auto_pad = attrs.get("auto_pad", "NOTSET")
    begins, sizes = [], []
    for i, size in enumerate(x.shape[2:]):
        full = (size - 1) * strides[i] + (w.shape[2 + i] - 1) * dilations[i] + 1 + added[i]
        if output_shape or auto_pad.startswith("SAME"):
            wanted = output_shape[i] if output_shape else min(full, size * strides[i])
            total = max(0, full - wanted)
            begins.append(total // 2 if auto_pad == "SAME_UPPER" else total - total // 2)
            sizes.append(wanted)
        else:
            none = auto_pad == "VALID"
            begins.append(0 if none else pads[i])
            sizes.append(full if none else full - pads[i] - pads[rank + i])
    made = np.zeros((x.shape[0], w.shape[1] * group, *sizes))
    for n, c, *at in np.ndindex(x.shape):
        of_group = c // (x.shape[1] // group)
        for m, *tap in np.ndindex(w.shape[1:]):
            place = [
                o * s + t * d - p for o, s, t, d, p in zip(at, strides, tap, dilations, begins)
            ]
            if all(0 <= i < size for i, size in zip(place, sizes)):
                target = (n, of_group * w.shape[1] + m, *place)
                made[target] += x[(n, c, *at)] * w[(c, m, *tap)]
    if b is not None:
        made += b.reshape(-1, *(1,) * rank)
    return made


def legacy(function: Callable[[float, float], float]) -> Callable[..., Any]:
    """Return the formula of an operator with the attributes `axis` and `broadcast`."""

    def call(x, y, *, axis=None, broadcast=0, opset=1, **_):
        made = np.empty(x.shape)
        start = x.ndim - y.ndim if axis is None else axis
        for at in np.ndindex(x.shape):
            made[at] = function(x[at], y[at[start : start + y.ndim]] if broadcast else y[at])
        return made

    return call


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def recurrent(kind: str) -> Callable[..., Any]:
    """Return the formula of a layer with its own activations, one number at a time."""

    def call(x, w, r, b=None, lens=None, h0=None, c0=None, p=None, **attrs):
        steps, batch, _ = x.shape
        ways, hidden = r.shape[0], r.shape[2]
        limit = attrs.get("clip", math.inf)
        gates = {"rnn": 1, "gru": 3, "lstm": 4}[kind]
        made = np.zeros((steps, ways, batch, hidden))

        def clip(value):
            return min(max(value, -limit), limit)

        for way, n in itertools.product(range(ways), range(batch)):
            length = steps if lens is None else int(lens[n])
            order = list(range(length))
            if attrs.get("direction") == "reverse" or way == 1:
                order.reverse()
            h = np.zeros(hidden) if h0 is None else h0[way, n].copy()
            c = np.zeros(hidden) if c0 is None else c0[way, n].copy()
            bias = np.zeros(2 * gates * hidden) if b is None else b[way]
            peep = np.zeros(3 * hidden) if p is None else p[way]

            def from_x(gate, j):
                row = gate * hidden + j
                return w[way, row] @ x[t, n] + bias[row]  # noqa: B023

            def from_h(gate, j, values):
                row = gate * hidden + j
                return r[way, row] @ values + bias[gates * hidden + row]  # noqa: B023

            for t in order:
                old, old_c = h.copy(), c.copy()
                if kind == "gru":
                    reset = np.array(
                        [sigmoid(clip(from_x(1, j) + from_h(1, j, old))) for j in range(hidden)]
                    )
                for j in range(hidden):
                    if kind == "rnn":
                        h[j] = math.tanh(clip(from_x(0, j) + from_h(0, j, old)))
                    elif kind == "gru":
                        z = sigmoid(clip(from_x(0, j) + from_h(0, j, old)))
                        if attrs.get("linear_before_reset"):
                            inner = reset[j] * from_h(2, j, old)
                        else:
                            inner = from_h(2, j, reset * old)
                        h[j] = (1 - z) * math.tanh(clip(from_x(2, j) + inner)) + z * old[j]
                    else:
                        i = from_x(0, j) + from_h(0, j, old) + peep[j] * old_c[j]
                        f = from_x(2, j) + from_h(2, j, old) + peep[2 * hidden + j] * old_c[j]
                        g = from_x(3, j) + from_h(3, j, old)
                        i, f = sigmoid(clip(i)), sigmoid(clip(f))
                        f = 1 - i if attrs.get("input_forget") else f
                        c[j] = f * old_c[j] + i * math.tanh(clip(g))
                        o = from_x(1, j) + from_h(1, j, old) + peep[hidden + j] * c[j]
                        h[j] = sigmoid(clip(o)) * math.tanh(c[j])
                made[t, way, n] = h
        return made

    return call


def dequantize(x, scale, zero=None, *, axis=1, **_):
    made = np.empty(x.shape)
    for at in np.ndindex(x.shape):
        place = () if scale.ndim == 0 else (at[axis],)
        made[at] = (x[at] - (0 if zero is None else zero[place])) * scale[place]
    return made


FORMULAS: dict[str, Callable[..., Any]] = {
    "Add": legacy(lambda a, b: a + b),
    "AveragePool": pool("average"),
    "BatchNormalization": batch_normalization,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "DequantizeLinear": dequantize,
    "GRU": recurrent("gru"),
    "GlobalAveragePool": global_pool(lambda values: sum(values) / len(values)),
    "GlobalLpPool": global_pool(None),
    "GlobalMaxPool": global_pool(max),
    "Hardmax": hardmax,
    "LRN": lrn,
    "LSTM": recurrent("lstm"),
    "LogSoftmax": log_softmax,
    "LpPool": pool("lp"),
    "MaxPool": pool("max"),
    "Mul": legacy(lambda a, b: a * b),
    "RNN": recurrent("rnn"),
    "Softmax": softmax,
    "Sub": legacy(lambda a, b: a - b),
}
