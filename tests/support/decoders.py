"""Small models with states, with faults on request: a decoder with a growing cache or with slots,
and a stream with context.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WORDS, SIZE, POSITIONS = 32, 8, 24


def decoder(
    *,
    fault: str = "",
    names: Mapping[str, str] | None = None,
    slots: int = 0,
    layers: int = 1,
    seed: int = 0,
    scale: float = 6.0,
) -> onnx.ModelProto:
    """Return a decoder of one or more layers of attention.

    Args:
        fault: what is wrong with it: ``crossed`` (keys and values change places as outputs),
            ``crossed past`` (they do as inputs),
            ``frozen mask`` (a token may see 6 positions at most), ``position`` (from the second
            step on one too high), ``stale`` (the cache is handed on as it was), ``weight`` (of the
            second half of a table of positions), or none.
        names: other names of tensors.
        slots: how many slots the cache has; 0 for one that grows.
        layers: how many layers.
        seed: of the weights.
        scale: how far apart scores are.
    """
    draw = np.random.default_rng(seed)
    weights: dict[str, np.ndarray[Any, Any]] = {}

    def weight(name: str, *shape: int, times: float = 1.0) -> str:
        """Add a random weight, and return its name."""
        weights[name] = (draw.standard_normal(shape) * times / shape[0] ** 0.5).astype("f")
        return name

    nodes = []

    def node(op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        nodes.append(helper.make_node(op, inputs, [output], name=f"n_{output}", **attributes))
        return output

    def constant(name: str, value: Any, dtype: Any = np.int64) -> str:
        """Add a constant, and return its name."""
        weights[name] = np.array(value, dtype)
        return name

    weight("emb", WORDS, SIZE, times=6.0)
    weight("pos_table", POSITIONS, SIZE, times=5.0)
    if fault == "weight":
        weights["pos_table"][7:] *= 1.5
    positions = "position_ids"
    if fault == "position":
        first = node("Gather", ["position_ids", constant("at_0", 0)], "first_position", axis=1)
        flag = node("Greater", [first, constant("none", 0)], "has_past")
        one = node("Cast", [flag], "one_more", to=TensorProto.INT64)
        positions = node("Add", ["position_ids", node("Unsqueeze", [one, constant("ax1", [1])],
                                                      "one_more_1")], "positions")  # fmt: skip
    x = node("Add", [node("Gather", ["emb", "input_ids"], "words"),
                     node("Gather", ["pos_table", positions], "places")], "x0")  # fmt: skip
    inputs = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "seq"]),
        helper.make_tensor_value_info("position_ids", TensorProto.INT64, [1, "seq"]),
    ]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "seq", WORDS])]
    constant("zero", 0), constant("step", 1), constant("axis2", [2]), constant("axis0", [0])
    constant("low", -1e9, np.float32), constant("root", SIZE**0.5, np.float32)
    for layer in range(layers):
        presents = {}
        for part in ("key", "value"):
            past, present = f"past.{layer}.{part}", f"present.{layer}.{part}"
            other = {"key": "value", "value": "key"} if fault == "crossed past" else {}
            read = f"past.{layer}.{other.get(part, part)}"
            new = node("MatMul", [x, weight(f"w_{part}{layer}", SIZE, SIZE, times=2.0)],
                       f"{part}{layer}")  # fmt: skip
            if slots:
                flat = node("Squeeze", [read, "axis0"], f"flat_{part}{layer}")
                rows = node("Squeeze", [new, "axis0"], f"rows_{part}{layer}")
                index = node("Transpose", ["position_ids"], f"index_{part}{layer}")
                written = node("ScatterND", [flat, index, rows], f"written_{part}{layer}")
                cache = node("Unsqueeze", [written, "axis0"], f"cache_{part}{layer}")
            else:
                cache = node("Concat", [read, new], f"cache_{part}{layer}", axis=1)
            presents[part] = cache
            old, full = (slots, slots) if slots else (f"past_{layer}", f"total_{layer}")
            inputs.append(helper.make_tensor_value_info(past, TensorProto.FLOAT, [1, old, SIZE]))
            outputs.append(
                helper.make_tensor_value_info(present, TensorProto.FLOAT, [1, full, SIZE])
            )
        q = node("MatMul", [x, weight(f"w_q{layer}", SIZE, SIZE, times=2.0)], f"q{layer}")
        turned = node("Transpose", [presents["key"]], f"kt{layer}", perm=[0, 2, 1])
        scores = node("Div", [node("MatMul", [q, turned], f"qk{layer}"), "root"], f"scores{layer}")
        shape = node("Shape", [presents["key"]], f"shape{layer}")
        total = node("Gather", [shape, "step"], f"length{layer}")
        every = node("Range", ["zero", total, "step"], f"every{layer}")
        own = node("Unsqueeze", ["position_ids", "axis2"], f"own{layer}")
        seen = node("LessOrEqual", [every, own], f"seen{layer}")
        if fault == "frozen mask":
            near = node("Less", [every, constant("baked", 6)], f"near{layer}")
            seen = node("And", [seen, near], f"seen_near{layer}")
        masked = node("Where", [seen, scores, "low"], f"masked{layer}")
        mix = node("MatMul", [node("Softmax", [masked], f"p{layer}", axis=-1), presents["value"]],
                   f"mix{layer}")  # fmt: skip
        x = node("Add", [x, mix], f"x{layer + 1}")
        other = {"key": "value", "value": "key"} if fault == "crossed" else {}
        for part in ("key", "value"):
            source = presents[other.get(part, part)]
            source = f"past.{layer}.{part}" if fault == "stale" and part == "value" else source
            node("Identity", [source], f"present.{layer}.{part}")
    node("MatMul", [x, weight("head", SIZE, WORDS, times=scale)], "logits")
    graph = helper.make_graph(
        nodes,
        "decoder",
        inputs,
        outputs,
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if names:
        _rename(model, names)
    onnx.checker.check_model(model)
    return model


def _rename(model: onnx.ModelProto, names: Mapping[str, str]) -> None:
    """Rename tensors of a model in place."""
    for value in (*model.graph.input, *model.graph.output):
        value.name = names.get(value.name, value.name)
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]


def without_past(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a decoder for the first step: its past is empty."""
    first = onnx.ModelProto()
    first.CopyFrom(model)
    past = [each for each in first.graph.input if each.name.startswith("past")]
    for each in past:
        first.graph.input.remove(each)
        first.graph.initializer.append(numpy_helper.from_array(np.zeros((1, 0, 8), "f"), each.name))
    return first


def stream() -> onnx.ModelProto:
    """Return a convolution over chunks that keeps the end of each as context of the next."""
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    stream (float[1, 2, N] chunk, float[1, 2, 3] context) => (float[1, 2, N] y, float[1, 2, 3] out)
    <float[2, 2, 4] w = {1,2,3,4,5,6,7,8,-1,2,-3,4,5,-6,7,-8}, int64[1] start = {-3},
     int64[1] end = {9223372036854775807}, int64[1] axis = {2}>
    {
        joined = Concat<axis = 2>(context, chunk)
        y = Conv(joined, w)
        out = Slice(joined, start, end, axis)
    }
    """
    model: onnx.ModelProto = onnx.parser.parse_model(text)
    return model
