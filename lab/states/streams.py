"""Streams of chunks and recurrent networks, with faults on request, and the same on a whole signal
in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .specs import SHIFT

BANDS, SIZE, CONTEXT = 6, 8, 4
KINDS = ("LSTM", "GRU", "RNN", "conv", "conv_lstm")

Array = np.ndarray[Any, Any]
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def weights_of(kind: str, seed: int = 0) -> dict[str, Array]:
    """Return the weights of two layers by name."""
    draw = np.random.default_rng(seed + SHIFT.seed)

    def matrix(*shape: int) -> Array:
        """Return a random matrix of a shape."""
        return (draw.standard_normal(shape) * 1.4 / shape[-1] ** 0.5).astype("f")

    weights = {
        "kernel": matrix(SIZE, BANDS, CONTEXT + 1),
        "kernel_1": matrix(SIZE, SIZE, CONTEXT + 1),
    }
    for at, width in enumerate((BANDS if "conv" not in kind else SIZE, SIZE)):
        gates = _GATES.get(kind.rpartition("_")[2].upper(), 1)
        weights[f"w{at}"] = matrix(1, gates * SIZE, width)
        weights[f"r{at}"] = matrix(1, gates * SIZE, SIZE)
    weights["out"] = matrix(SIZE, 5)
    return weights


def truth(kind: str, signal: Array, seed: int = 0) -> Array:
    """Return the correct output for a whole signal [positions, bands], without states."""
    w = {name: array.astype(float) for name, array in weights_of(kind, seed).items()}
    x = signal.astype(float)
    if "conv" in kind:
        layers = ("kernel", "kernel_1") if kind == "conv" else ("kernel",)
        for name in layers:
            x = np.tanh(_convolve(x, w[name]))
    if kind != "conv":
        op = kind.rpartition("_")[2].upper()
        for at in range(2):
            x = _recurrent(op, x, w[f"w{at}"][0], w[f"r{at}"][0])
    result: Array = x @ w["out"]
    return result


def _convolve(x: Array, kernel: Array) -> Array:
    """Return the convolution of each step with those before it."""
    padded = np.concatenate([np.zeros((CONTEXT, x.shape[1])), x])
    return np.stack(
        [np.einsum("tb,sbt->s", padded[at : at + CONTEXT + 1], kernel) for at in range(len(x))]
    )


def _recurrent(op: str, x: Array, w: Array, r: Array) -> Array:
    """Return the output of an LSTM or GRU for each step."""
    h, c, out = np.zeros(SIZE), np.zeros(SIZE), []
    for row in x:
        if op == "LSTM":
            i, o, f, g = np.split(w @ row + r @ h, 4)
            i, o, f = (1 / (1 + np.exp(-gate)) for gate in (i, o, f))
            c = f * c + i * np.tanh(g)
            h = o * np.tanh(c)
        elif op == "GRU":
            wz, wr, wh = np.split(w @ row, 3)
            rz, rr, rh = np.split(r, 3)
            z, reset = (1 / (1 + np.exp(-gate)) for gate in (wz + rz @ h, wr + rr @ h))
            h = (1 - z) * np.tanh(wh + rh @ (reset * h)) + z * h
        else:
            h = np.tanh(w @ row + r @ h)
        out.append(h)
    return np.array(out)


def stream(
    kind: str, fault: str = "", nameless: bool = False, seed: int = 0
) -> tuple[onnx.ModelProto, set[str]]:
    """Return a model of chunks, and the names of nodes and tensors that may be faulty."""
    weights = weights_of(kind, seed)
    nodes: list[onnx.NodeProto] = []
    wrong: set[str] = set()
    inputs = [_value("chunk", [1, "frames", BANDS])]
    outputs = [_value("y", [1, "frames", 5])]
    states: list[tuple[str, str, list[int]]] = []

    def op(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        nodes.append(helper.make_node(kind, inputs, [output], name=f"n_{output}", **attributes))
        return output

    def const(*values: int) -> str:
        """Add a constant, and return its name."""
        name = "c_" + "_".join(map(str, values))
        weights[name] = np.array(values, np.int64)
        return name

    def state(old: str, new: str, shape: list[int]) -> tuple[str, str]:
        """Record a state of a shape, and return the names of its input and output."""
        if nameless:
            old, new = f"arg{len(states)}", f"val_{len(states)}"
        states.append((old, new, shape))
        return old, new

    x = "chunk"
    if "conv" in kind:
        x = op("Transpose", [x], "bands_first", perm=[0, 2, 1])
        for at, kernel in enumerate(("kernel", "kernel_1") if kind == "conv" else ("kernel",)):
            width = weights[kernel].shape[1]
            old, new = state(f"cache_{at}", f"new_cache_{at}", [1, width, CONTEXT])
            joined = op("Concat", [old, x], f"joined{at}", axis=2)
            start, end, source = -CONTEXT, 2**62, joined
            if at == 0 and fault == "context from the wrong end":
                start, end = 0, CONTEXT
                wrong |= {f"n_{new}", new}
            if at == 0 and fault == "context off by one":
                start, end = -CONTEXT - 1, -1
                wrong |= {f"n_{new}", new}
            if at == 0 and fault == "context scaled":
                source = op("Mul", [joined, _scalar(weights, 0.5)], "scaled")
                wrong |= {f"n_{new}", new, "n_scaled"}
            if at == 0 and fault == "context not read":
                zeros = op("Mul", [old, _scalar(weights, 0.0)], "nothing")
                nodes[-2].input[0], nodes[-2].input[1] = zeros, x
                nodes[-1], nodes[-2] = nodes[-2], nodes[-1]
                wrong |= {"n_nothing", "n_joined0", f"n_{new}", new, old}
            if at == 0 and fault == "stale":
                op("Identity", [old], new)
                wrong |= {f"n_{new}", new}
            else:
                op("Slice", [source, const(start), const(end), const(2)], new)
            x = op("Tanh", [op("Conv", [joined, kernel], f"conv{at}")], f"tanh{at}")
        x = op("Transpose", [x], "frames_first", perm=[0, 2, 1])
    if kind != "conv":
        kind = kind.rpartition("_")[2].upper()
        x = op("Transpose", [x], "time_first", perm=[1, 0, 2])
        names = {at: (f"h{at}_in", f"h{at}_out") for at in range(2)}
        hidden = {at: state(*names[at], [1, 1, SIZE]) for at in range(2)}
        cells = {
            at: state(f"c{at}_in", f"c{at}_out", [1, 1, SIZE]) for at in range(2) if kind == "LSTM"
        }
        ends: dict[str, str] = {}
        for at in range(2):
            read = ["" if fault == "state not read" and at == 1 else hidden[at][0]]
            if fault == "state of another layer" and at == 1:
                read = [hidden[0][0]]
            if fault in ("state not read", "state of another layer"):
                wrong |= {
                    "n_recurrent1",
                    *hidden[1],
                    *hidden[0],
                    "n_all1",
                    "n_rows1",
                    f"n_{hidden[1][1]}",
                }
            read += [cells[at][0]] if kind == "LSTM" else []
            output_names = [f"all{at}", f"last{at}"] + ([f"cell{at}"] if kind == "LSTM" else [])
            attributes = {"direction": "reverse"} if fault == "reverse" and at == 0 else {}
            wrong |= {"n_recurrent0"} if attributes else set()
            nodes.append(
                helper.make_node(
                    kind,
                    [x, f"w{at}", f"r{at}", "", "", *read],
                    output_names,
                    name=f"n_recurrent{at}",
                    hidden_size=SIZE,
                    **attributes,
                )
            )
            x = op("Squeeze", [output_names[0], const(1)], f"rows{at}")
            ends[hidden[at][1]] = output_names[1]
            if cells:
                ends[cells[at][1]] = output_names[2]
        swaps = {
            "h and c swapped": (hidden[0][1], cells[0][1] if cells else ""),
            "layers swapped": (hidden[0][1], hidden[1][1]),
        }
        if fault in swaps:
            first, second = swaps[fault]
            ends[first], ends[second] = ends[second], ends[first]
            wrong |= {
                first,
                second,
                f"n_{first}",
                f"n_{second}",
                "n_recurrent0",
                "n_recurrent1",
                "last0",
                "last1",
                "cell0",
            }
        if fault == "stale":
            ends[hidden[1][1]] = hidden[1][0]
            wrong |= {hidden[1][1], f"n_{hidden[1][1]}"}
        if fault == "state after the output":
            ends[hidden[1][1]] = op("Tanh", ["last1"], "squashed")
            wrong |= {"n_squashed", hidden[1][1], f"n_{hidden[1][1]}"}
        if fault == "state scaled":
            ends[hidden[0][1]] = op("Mul", ["last0", _scalar(weights, 0.7)], "scaled")
            wrong |= {"n_scaled", hidden[0][1], f"n_{hidden[0][1]}"}
        for new, source in ends.items():
            op("Identity", [source], new)
        x = op("Transpose", [x], "batch_first", perm=[1, 0, 2])
    op("MatMul", [x, "out"], "y")
    if fault == "head weight":
        weights["out"] = weights["out"] * np.float32(1.2)
        wrong |= {"n_y"}
    for old, new, shape in states:
        inputs.append(_value(old, shape))
        outputs.append(_value(new, shape))
    used = {name for node in nodes for name in node.input}
    tensors = [
        numpy_helper.from_array(array, name) for name, array in weights.items() if name in used
    ]
    graph = helper.make_graph(nodes, "stream", inputs, outputs, tensors)
    return (
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        wrong,
    )


def _scalar(weights: dict[str, Array], value: float) -> str:
    """Add a scalar weight, and return its name."""
    name = f"s_{value}"
    weights[name] = np.array(value, "f")
    return name


def _value(name: str, shape: list[Any]) -> onnx.ValueInfoProto:
    """Return the description of a float tensor."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
