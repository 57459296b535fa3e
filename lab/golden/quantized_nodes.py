"""Nodes that compute on codes, as in ONNX Runtime's QOperator format, with one scale or zero point
changed.

Each operator is drawn in four ways of being embedded: *own* (its numbers are read by no other
node), *file* (nodes before and behind read the same numbers, as in files of quantizers), *codes*
(model inputs and outputs are codes) and *chain* (an operator of codes follows).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto, helper

from .planting import QUANTIZATION, Fault

Draw = np.random.Generator
WAYS = ("own", "file", "codes", "chain")
_MICROSOFT = "com.microsoft"


class Operator(NamedTuple):
    """An operator on codes.

    `read` names its inputs: ``x`` and ``r`` are codes of activations, ``w`` of a weight, ``b`` a
    bias, ``c`` a condition; ``xs`` and ``xz`` are the scale and the zero point of ``x``.
    """

    op: str
    read: str
    shape: Sequence[int]
    weight: Sequence[int] = ()
    channels: int = 0
    """The number of scales of the weight, if these are by channel."""
    kind: type[np.integer[Any]] = np.uint8
    weight_kind: type[np.integer[Any]] = np.int8
    attributes: dict[str, Any] = {}
    domain: str = _MICROSOFT


_PRODUCT = "x xs xz w ws wz ys yz"
_PAIR = "x xs xz r rs rz ys yz"
_UNARY = "x xs xz ys yz"
_IMAGE, _ROWS = (1, 4, 8, 8), (6, 12)
OPERATORS: tuple[Operator, ...] = (
    Operator("QLinearConv", _PRODUCT, _IMAGE, (5, 4, 3, 3), domain=""),
    Operator("QLinearConv", f"{_PRODUCT} b", _IMAGE, (5, 4, 3, 3), 5, np.int8, domain=""),
    Operator("QLinearConv", f"{_PRODUCT} b", _IMAGE, (5, 4, 3, 3), 5, weight_kind=np.uint8,
             attributes={"pads": [1, 1, 1, 1]}, domain=""),
    Operator("QLinearMatMul", _PRODUCT, _ROWS, (12, 7), kind=np.int8, domain=""),
    Operator("QLinearMatMul", _PRODUCT, _ROWS, (12, 7), 7, domain=""),
    Operator("QGemm", "x xs xz w ws wz b ys yz", _ROWS, (12, 7)),
    Operator("QGemm", "x xs xz w ws wz b ys yz", _ROWS, (7, 12), 7, np.int8,
             attributes={"transB": 1}),
    Operator("QLinearAdd", _PAIR, _ROWS),
    Operator("QLinearAdd", _PAIR, _ROWS, kind=np.int8),
    Operator("QLinearMul", _PAIR, _ROWS),
    Operator("QLinearMul", _PAIR, _ROWS, kind=np.int8),
    Operator("QLinearConcat", "ys yz x xs xz r rs rz", _ROWS, attributes={"axis": 1}),
    Operator("QLinearConcat", "ys yz x xs xz r rs rz", _ROWS, kind=np.int8,
             attributes={"axis": 0}),
    Operator("QLinearSigmoid", _UNARY, _ROWS),
    Operator("QLinearLeakyRelu", _UNARY, _ROWS, kind=np.int8, attributes={"alpha": 0.2}),
    Operator("QLinearAveragePool", _UNARY, _IMAGE, attributes={"kernel_shape": [3, 3]}),
    Operator("QLinearGlobalAveragePool", _UNARY, (2, 24, 8, 8)),
    Operator("QLinearSoftmax", _UNARY, _ROWS, kind=np.int8, attributes={"axis": -1, "opset": 13}),
    Operator("QLinearWhere", "c x xs xz r rs rz ys yz", _ROWS),
)  # fmt: skip


class Drawn(NamedTuple):
    """An operator with its numbers, embedded in a way."""

    operator: Operator
    way: str
    numbers: dict[str, Any]


def draw(operator: Operator, way: str, rng: Draw) -> Drawn:
    """Return a random healthy node of an operator."""
    middle = 128 if operator.kind is np.uint8 else 0

    def scale(low: float) -> Any:
        """Return a random scale near a number."""
        return np.float32(low * rng.uniform(0.7, 1.5))

    def zero(spread: int = 20) -> Any:
        """Return a random zero point near the middle of the type."""
        return operator.kind(middle + rng.integers(-spread, spread))

    names = operator.read.split()
    numbers = {"xs": scale(0.012), "xz": zero()}
    if "r" in names:
        numbers |= {"rs": scale(0.015), "rz": zero()}
    if "w" in names:
        shape = (operator.channels,) if operator.channels else ()
        low, high = (-60, 60) if operator.weight_kind is np.int8 else (60, 190)
        wide = np.zeros(shape) if operator.weight_kind is np.int8 else np.full(shape, 127)
        numbers |= {
            "w": rng.integers(low, high, operator.weight).astype(operator.weight_kind),
            "ws": (0.01 * rng.uniform(0.6, 1.6, shape)).astype(np.float32),
            "wz": wide.astype(operator.weight_kind),
        }
        if "b" in names:
            count = operator.channels or 7
            numbers["b"] = rng.integers(-900, 900, count).astype(np.int32)
    if "c" in names:
        numbers["c"] = rng.random(operator.shape) < 0.5
    sizes = {"QLinearConv": 0.02, "QLinearMatMul": 0.02, "QGemm": 0.02, "QLinearAdd": 0.025,
             "QLinearSigmoid": 0.004, "QLinearSoftmax": 0.002, "QLinearGlobalAveragePool": 0.003,
             }  # fmt: skip
    numbers |= {"ys": scale(sizes.get(operator.op, 0.012)), "yz": zero()}
    if operator.op == "QLinearSoftmax":  # What the kernels of ONNX Runtime assume.
        numbers |= {"ys": np.float32(1 / 256), "yz": operator.kind(middle - 128)}
    if operator.op == "QLinearSigmoid":
        numbers["yz"] = operator.kind(middle - 128 + rng.integers(0, 20))
    if way != "file":
        numbers |= {f"{name}2": numbers[name] for name in ("xs", "xz", "ys", "yz")}
    return Drawn(operator, way, numbers)


def faults(node: Drawn, rng: Draw) -> Iterator[Fault]:
    """Yield faults of a node: each of its scales and zero points, changed alone."""
    names = node.operator.read.split()
    for name in names:
        if name not in node.numbers or name in ("w", "b", "c"):
            continue
        value = np.array(node.numbers[name])
        changed = value.copy()
        at = int(rng.integers(value.size))
        if name.endswith("s"):
            factor = np.float32(rng.choice([0.4, 0.8, 1.3, 2.0, 3.7]))
            changed.flat[at] = value.flat[at] * factor
        else:
            step = int(rng.choice([3, 9, 25]))
            changed.flat[at] = int(value.flat[at]) + (step if int(value.flat[at]) < 60 else -step)
        nodes = ["node"]
        if node.way == "file" and name[0] in "xy":
            nodes.append("before" if name[0] == "x" else "behind")
        if node.way != "codes" and name[0] == "r":
            nodes.append("beside")
        kind = f"QLinear {'scale' if name.endswith('s') else 'zero point'} {node.way}"
        numbers = {**node.numbers, name: changed}
        planted = node._replace(numbers=numbers)
        yield Fault(kind, planted, QUANTIZATION, tuple(nodes), name)


def model_of_codes(node: Drawn) -> Any:
    """Return a model of a node, with others before and after it."""
    operator, names = node.operator, node.operator.read.split()
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(operator.kind))
    nodes, inputs = [], []
    twin = "" if node.way == "file" else "2"
    if node.way == "codes":
        inputs = [helper.make_tensor_value_info(name, kind, operator.shape)
                  for name in ("x", "r") if name in names]  # fmt: skip
    else:
        inputs = [helper.make_tensor_value_info("i", TensorProto.FLOAT, operator.shape)]
        nodes.append(helper.make_node("Tanh", ["i"], ["h"], "first"))
        reads = ["h", f"xs{twin}", f"xz{twin}"]
        nodes.append(helper.make_node("QuantizeLinear", reads, ["x"], "before"))
        if "r" in names:
            nodes.append(helper.make_node("Sin", ["i"], ["e"], "second"))
            nodes.append(helper.make_node("QuantizeLinear", ["e", "rs", "rz"], ["r"], "beside"))
    nodes.append(
        helper.make_node(
            operator.op, names, ["y"], "node", domain=operator.domain, **operator.attributes
        )
    )
    outputs = [helper.make_empty_tensor_value_info("z")]
    if node.way == "codes":
        nodes.append(helper.make_node("Identity", ["y"], ["z"], "behind"))
    else:
        reads, last = ["y", f"ys{twin}", f"yz{twin}"], "DequantizeLinear"
        if node.way == "chain":
            reads = [*reads, f"ys{twin}", f"yz{twin}"]
            nodes.append(helper.make_node("QLinearSigmoid", reads, ["z"], "behind",
                                          domain=_MICROSOFT))  # fmt: skip
        else:
            nodes.append(helper.make_node(last, reads, ["z"], "behind"))
    used = {name for step in nodes for name in step.input}
    weights = [helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype),
                                  np.shape(value), np.asarray(value).reshape(-1).tolist())
               for name, value in node.numbers.items() if name in used]  # fmt: skip
    graph = helper.make_graph(nodes, "codes", inputs, outputs, weights)
    imports = [helper.make_opsetid("", 19), helper.make_opsetid(_MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=imports)
    model.ir_version = 10
    return model


def feed_of_codes(node: Drawn, rng: Draw) -> dict[str, np.ndarray]:
    """Return data for the model of a node."""
    operator, names = node.operator, node.operator.read.split()
    if node.way != "codes":
        return {"i": rng.standard_normal(operator.shape).astype(np.float32)}
    low = 40 if operator.kind is np.uint8 else -88
    return {
        name: rng.integers(low, low + 176, operator.shape).astype(operator.kind)
        for name in ("x", "r")
        if name in names
    }
