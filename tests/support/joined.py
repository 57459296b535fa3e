"""Models whose outputs have parts of different size and kind, one function each.

Each takes an `error`: what is added to a weight of the smallest part, so that 0 is the right model.
An error of 3e-4 is far above float32 rounding of that part, and far below that of the largest one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from attrs import frozen
from onnx import helper, numpy_helper

from tests.support.models import make, value

__all__ = [
    "BOXES",
    "JOINED",
    "Joined",
    "detector",
    "feeds_of",
    "split_detector",
    "suppressed",
    "two_heads",
]

BOXES = 640.0
node = helper.make_node


def _weight(*shape: int, size: float = 0.3) -> np.ndarray[Any, Any]:
    """Return random weights of a shape."""
    return (np.random.RandomState(sum(shape)).randn(*shape) * size).astype(np.float32)


def _wrong(weight: np.ndarray[Any, Any], error: float) -> np.ndarray[Any, Any]:
    """Return a weight with an error in a few columns."""
    weight[2, -2:] += np.float32(error)
    return weight


def _numbers(*each: float) -> np.ndarray[Any, Any]:
    """Return numbers as a float32 array."""
    return np.array(each, np.float32)


def _graph(
    nodes: Sequence[onnx.NodeProto], weights: Mapping[str, Any], shape: Sequence[Any], rows: Any
) -> onnx.ModelProto:
    """Return a model with one input and one output."""
    inputs, outputs = [value("x", [rows, 16])], [value("output", shape)]
    return make("joined", nodes, inputs, outputs, weights=weights)


def three_operands(error: float = 0.0) -> onnx.ModelProto:
    """Return a model that joins boxes, logits and scores."""
    weights = {"a": _weight(16, 8), "b": _wrong(_weight(16, 6), error), "c": _weight(16, 4)}
    nodes = [
        node("MatMul", ["x", "a"], ["xa"], "boxes_matmul"),
        node("Sigmoid", ["xa"], ["sa"], "boxes_sigmoid"),
        node("Mul", ["sa", "k"], ["boxes"], "boxes"),
        node("MatMul", ["x", "b"], ["logits"], "logits"),
        node("MatMul", ["x", "c"], ["xc"], "scores_matmul"),
        node("Sigmoid", ["xc"], ["scores"], "scores"),
        node("Concat", ["boxes", "logits", "scores"], ["output"], "join", axis=-1),
    ]
    return _graph(nodes, {**weights, "k": _numbers(BOXES)}, ["n", 18], "n")


def along_the_batch(error: float = 0.0) -> onnx.ModelProto:
    """Return a model that joins large and small rows along the batch."""
    weights = {"a": _weight(16, 8), "b": _wrong(_weight(16, 8, size=0.2), error)}
    nodes = [
        node("MatMul", ["x", "a"], ["xa"], "large_matmul"),
        node("Mul", ["xa", "k"], ["large"], "large"),
        node("MatMul", ["x", "b"], ["small"], "small"),
        node("Concat", ["large", "small"], ["output"], "join", axis=0),
    ]
    return _graph(nodes, {**weights, "k": _numbers(1e7)}, ["m", 8], "n")


def padded_detections(error: float = 0.0) -> onnx.ModelProto:
    """Return a model of boxes and scores, padded with rows of -1."""
    weights = {
        "a": _weight(16, 4),
        "b": _wrong(_weight(16, 2), error),
        "k": _numbers(1e4),
        "pads": np.array([0, 0, 5, 0]),
        "none": np.array(-1, np.float32),
    }
    nodes = [
        node("MatMul", ["x", "a"], ["xa"], "boxes_matmul"),
        node("Mul", ["xa", "k"], ["boxes"], "boxes"),
        node("MatMul", ["x", "b"], ["xb"], "scores_matmul"),
        node("Sigmoid", ["xb"], ["scores"], "scores"),
        node("Concat", ["boxes", "scores"], ["rows"], "join", axis=1),
        node("Pad", ["rows", "pads", "none"], ["output"], "pad"),
    ]
    return _graph(nodes, weights, ["m", 6], "n")


def cache(error: float = 0.0) -> onnx.ModelProto:
    """Return a model that writes keys into a cache of -1e9."""
    weights = {
        "b": _wrong(_weight(16, 8), error),
        "places": np.array([[3], [4], [9]]),
        "empty": np.full((12, 8), -1e9, np.float32),
    }
    nodes = [
        node("MatMul", ["x", "b"], ["keys"], "keys"),
        node("ScatterND", ["empty", "places", "keys"], ["output"], "scatter"),
    ]
    return _graph(nodes, weights, [12, 8], 3)


def heads(error: float = 0.0) -> onnx.ModelProto:
    """Return a model that stacks and transposes heads of different size."""
    nodes, weights = [], {"axis": np.array([1])}
    for number in range(4):
        weights[f"w{number}"] = _weight(16, 8, size=10.0 ** (2 * number - 1))
        nodes += [
            node("MatMul", ["x", f"w{number}"], [f"h{number}"], f"h{number}"),
            node("Unsqueeze", [f"h{number}", "axis"], [f"u{number}"], f"u{number}"),
        ]
    _wrong(weights["w0"], error)
    nodes += [
        node("Concat", [f"u{number}" for number in range(4)], ["stacked"], "join", axis=1),
        node("Transpose", ["stacked"], ["output"], "transpose", perm=[1, 0, 2]),
    ]
    return _graph(nodes, weights, [4, "n", 8], "n")


def keypoints(error: float = 0.0) -> onnx.ModelProto:
    """Return a model that joins coordinates and visibility."""
    weights = {
        "a": _weight(16, 34),
        "b": _wrong(_weight(16, 17), error),
        "k": _numbers(1920),
        "pairs": np.array([-1, 17, 2]),
        "singles": np.array([-1, 17, 1]),
    }
    nodes = [
        node("MatMul", ["x", "a"], ["xa"], "xy_matmul"),
        node("Sigmoid", ["xa"], ["sa"], "xy_sigmoid"),
        node("Mul", ["sa", "k"], ["ka"], "xy_mul"),
        node("Reshape", ["ka", "pairs"], ["xy"], "xy"),
        node("MatMul", ["x", "b"], ["xb"], "visibility_matmul"),
        node("Sigmoid", ["xb"], ["sb"], "visibility_sigmoid"),
        node("Reshape", ["sb", "singles"], ["visibility"], "visibility"),
        node("Concat", ["xy", "visibility"], ["output"], "join", axis=2),
    ]
    return _graph(nodes, weights, ["n", 17, 3], "n")


def logits_and_logarithms(error: float = 0.0) -> onnx.ModelProto:
    """Return a model that joins large logits with logarithms of probabilities."""
    weights = {"a": _weight(16, 10), "b": _wrong(_weight(16, 10), 3 * error), "k": _numbers(3000)}
    nodes = [
        node("MatMul", ["x", "a"], ["xa"], "logits_matmul"),
        node("Mul", ["xa", "k"], ["logits"], "logits"),
        node("MatMul", ["x", "b"], ["xb"], "log_matmul"),
        node("LogSoftmax", ["xb"], ["logarithms"], "logarithms", axis=-1),
        node("Concat", ["logits", "logarithms"], ["output"], "join", axis=1),
    ]
    return _graph(nodes, weights, ["n", 20], "n")


def padded_by_a_constant(error: float = 0.0) -> onnx.ModelProto:
    """Return a model with outputs between two columns of 1e7."""
    weights = {
        "b": _wrong(_weight(16, 6), error),
        "pads": np.array([0, 2, 0, 2]),
        "far": np.array(1e7, np.float32),
    }
    nodes = [
        node("MatMul", ["x", "b"], ["inside"], "inside"),
        node("Pad", ["inside", "pads", "far"], ["output"], "pad"),
    ]
    return _graph(nodes, weights, ["n", 10], "n")


def clipped(error: float = 0.0) -> onnx.ModelProto:
    """Return a model with logits that are masked by an addition, then clipped."""
    mask = np.zeros((1, 40), np.float32)
    mask[0, ::5] = -1e30
    weights = {"b": _wrong(_weight(16, 40), error), "mask": mask, "least": np.array(-1e8, "f")}
    nodes = [
        node("MatMul", ["x", "b"], ["logits"], "logits"),
        node("Add", ["logits", "mask"], ["masked"], "mask"),
        node("Clip", ["masked", "least"], ["output"], "clip"),
    ]
    return _graph(nodes, weights, ["n", 40], "n")


def added_mask(error: float = 0.0) -> onnx.ModelProto:
    """Return a model with logits that are masked by an addition, some of them equal."""
    mask = np.zeros((1, 40), np.float32)
    mask[0, ::5] = -1e9
    weights = {"b": _wrong(_weight(16, 40), error), "mask": mask}
    nodes = [
        node("MatMul", ["x", "b"], ["logits"], "logits"),
        node("Add", ["logits", "mask"], ["output"], "mask"),
    ]
    return _graph(nodes, weights, ["n", 40], "n")


def multiplied_columns(error: float = 0.0) -> onnx.ModelProto:
    """Return a model of boxes and scores from one Sigmoid, scaled by a constant."""
    sizes = _numbers(*[1e4] * 4, 1, 1)
    weights = {"b": _wrong(_weight(16, 6), error), "sizes": sizes}
    nodes = [
        node("MatMul", ["x", "b"], ["xb"], "matmul"),
        node("Sigmoid", ["xb"], ["shares"], "sigmoid"),
        node("Mul", ["shares", "sizes"], ["output"], "mul"),
    ]
    return _graph(nodes, weights, ["n", 6], "n")


def split_and_chosen(error: float = 0.0) -> onnx.ModelProto:
    """Return a model that splits channels, joins them again, selects rows and flattens."""
    weight = _weight(16, 60)
    weight[2, 4::6] += np.float32(error)
    weights = {
        "b": weight,
        "k": _numbers(BOXES),
        "shape": np.array([0, 10, 6]),
        "twos": np.array([2, 2, 2]),
        "flat": np.array([-1, 6]),
        "best": np.array([7, 3, 3, 1]),
    }
    nodes = [
        node("MatMul", ["x", "b"], ["xb"], "matmul"),
        node("Reshape", ["xb", "shape"], ["rows"], "rows"),
        node("Split", ["rows", "twos"], ["xy", "wh", "logits"], "split", axis=2),
        node("Sigmoid", ["xy"], ["sxy"], "xy_sigmoid"),
        node("Mul", ["sxy", "k"], ["centers"], "centers"),
        node("Exp", ["wh"], ["ewh"], "wh_exp"),
        node("Mul", ["ewh", "k"], ["sizes"], "sizes"),
        node("Sigmoid", ["logits"], ["confidence"], "confidence"),
        node("Concat", ["centers", "sizes", "confidence"], ["all"], "join", axis=2),
        node("Gather", ["all", "best"], ["chosen"], "choose", axis=1),
        node("Reshape", ["chosen", "flat"], ["output"], "flatten"),
    ]
    return _graph(nodes, weights, ["m", 6], 3)


@frozen
class Joined:
    """A model, and how the part that an error is in is called."""

    make: Callable[..., onnx.ModelProto]
    part: str


def _two_sizes(error: float) -> dict[str, Any]:
    """Return random weights of a large and a small operand by name."""
    return {"a": _weight(16, 8), "b": _wrong(_weight(16, 4), error), "k": _numbers(1e7)}


def _joined_sizes(op: str = "Concat", **attributes: Any) -> list[onnx.NodeProto]:
    """Return the nodes that join a large and a small operand."""
    return [
        node("MatMul", ["x", "a"], ["xa"], "large_matmul"),
        node("Mul", ["xa", "k"], ["large"], "large"),
        node("MatMul", ["x", "b"], ["small"], "small"),
        node(op, ["large", "small"], ["joined"], "join", **attributes),
    ]


def repeated(error: float = 0.0) -> onnx.ModelProto:
    """Return a model that joins large and small columns, and repeats the rows."""
    weights = {**_two_sizes(error), "times": np.array([2, 1])}
    nodes = [*_joined_sizes(axis=1), node("Tile", ["joined", "times"], ["output"], "tile")]
    return _graph(nodes, weights, ["m", 12], 3)


def resized(error: float = 0.0) -> onnx.ModelProto:
    """Return a model that doubles an image of large and small channels."""
    weights = {**_two_sizes(error), "scales": _numbers(1, 1, 2)}
    nodes = [
        *_joined_sizes(axis=1),
        node("Unsqueeze", ["joined", "axis"], ["image"], "image"),
        node("Resize", ["image", "", "scales"], ["output"], "resize", mode="nearest"),
    ]
    return _graph(nodes, {**weights, "axis": np.array([2])}, ["m", 12, 2], 3)


def from_a_sequence(error: float = 0.0) -> onnx.ModelProto:
    """Return a model that joins large and small columns from a sequence."""
    nodes = [
        *_joined_sizes("SequenceConstruct"),
        node("ConcatFromSequence", ["joined"], ["output"], "concat", axis=1),
    ]
    return _graph(nodes, _two_sizes(error), [3, 12], 3)


def added_joins(error: float = 0.0) -> onnx.ModelProto:
    """Return a model that adds numbers to large and small columns."""
    nodes = [*_joined_sizes(axis=1), node("Add", ["joined", "joined"], ["output"], "add")]
    return _graph(nodes, _two_sizes(error), [3, 12], 3)


def in_a_branch(error: float = 0.0) -> onnx.ModelProto:
    """Return a model that joins large and small columns in a branch."""
    outer = _joined_sizes(axis=1)[:3]
    branches = {}
    for name in ("then_branch", "else_branch"):
        own = node("Concat", ["large", "small"], [name], f"{name}_join", axis=1)
        branches[name] = helper.make_graph([own], name, [], [value(name, [3, 12])])
    nodes = [*outer, node("If", ["flag"], ["output"], "if", **branches)]
    return _graph(nodes, {**_two_sizes(error), "flag": np.array(True)}, [3, 12], 3)


JOINED = (
    Joined(three_operands, "logits (output[:, 8:14])"),
    Joined(along_the_batch, "small (output[3:6])"),
    Joined(padded_detections, "scores (output[0:3, 4:6])"),
    Joined(cache, ""),
    Joined(heads, "u0 (output[0])"),
    Joined(keypoints, "visibility (output[:, :, 2])"),
    Joined(logits_and_logarithms, "logarithms (output[:, 10:20])"),
    Joined(padded_by_a_constant, "inside (output[:, 2:8])"),
    Joined(clipped, ""),
    Joined(added_mask, ""),
    Joined(multiplied_columns, "output[:, 4:6]"),
    Joined(split_and_chosen, "confidence (output[:, 4:6])"),
    Joined(repeated, "small (output[:, 8:12])"),
    Joined(resized, "small (output[:, 8:12])"),
    Joined(from_a_sequence, "small (output[:, 8:12])"),
    Joined(added_joins, "small (output[:, 8:12])"),
    Joined(in_a_branch, "small (output[:, 8:12])"),
)


def feeds_of(*seeds: int) -> list[dict[str, Any]]:
    """Return random input sets for the models of this module, one for each seed."""
    return [{"x": np.random.RandomState(one).randn(3, 16).astype(np.float32)} for one in seeds]


def suppressed(error: float = 0.0, fill: float = -1e9) -> onnx.ModelProto:
    """Return a model of logits with a constant in every fifth column."""
    weight = np.random.RandomState(1).randn(16, 40).astype(np.float32) * np.float32(0.3)
    weight[3] += np.float32(error)
    mask = np.zeros((1, 40), bool)
    mask[0, ::5] = True
    weights = {"W": weight, "mask": mask, "fill": np.array(fill, np.float32)}
    nodes = [
        node("MatMul", ["x", "W"], ["all"], "matmul"),
        node("Where", ["mask", "fill", "all"], ["output"], "where"),
    ]
    return _graph(nodes, weights, ["n", 40], "n")


def detector(quantized: str = "", *, far: bool = False) -> onnx.ModelProto:
    """Return a detector whose boxes and scores are one output.

    Args:
        quantized: ``together`` or ``apart``; in float32 by default.
        far: whether scores are computed where float16 has no digits behind the point.
    """
    rng = np.random.RandomState(0)

    def drawn(*shape: int, size: float) -> Any:
        """Return random weights of a shape and size."""
        return (rng.randn(*shape) * size).astype(np.float32)

    weights = {
        "w": drawn(8, 3, 3, 3, size=0.2),
        "b": drawn(8, size=0.1),
        "wb": drawn(4, 8, 1, 1, size=0.3),
        "ws": drawn(2, 8, 1, 1, size=0.15),
        "k": _numbers(BOXES),
        "far": _numbers(4096),
        "boxes_shape": np.array([1, 4, 64]),
        "scores_shape": np.array([1, 2, 64]),
        "zero": np.array(0, np.uint8),
        "boxes_step": np.array(BOXES / 255, np.float32),
        "scores_step": np.array(1 / 255, np.float32),
    }
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], "stem", pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["f"], "relu"),
        node("Conv", ["f", "wb"], ["cb"], "boxes_conv"),
        node("Sigmoid", ["cb"], ["sb"], "boxes_sigmoid"),
        node("Mul", ["sb", "k"], ["mb"], "boxes_mul"),
        node("Reshape", ["mb", "boxes_shape"], ["boxes"], "boxes"),
        node("Conv", ["f", "ws"], ["cs"], "scores_conv"),
    ]
    if far:
        nodes += [
            node("Add", ["cs", "far"], ["up"], "up"),
            node("Sub", ["up", "far"], ["s"], "down"),
        ]
    nodes += [
        node("Sigmoid", ["s" if far else "cs"], ["ss"], "scores_sigmoid"),
        node("Reshape", ["ss", "scores_shape"], ["scores"], "scores"),
    ]

    def pair(source: str, target: str, step: str) -> list[onnx.NodeProto]:
        """Return the nodes of a Q/DQ pair between two tensors."""
        names = [step, "zero"]
        return [
            node("QuantizeLinear", [source, *names], [f"{source}_q"], f"q_{source}"),
            node("DequantizeLinear", [f"{source}_q", *names], [target], f"dq_{source}"),
        ]

    joined = ["boxes", "scores"]
    if quantized == "apart":
        nodes += pair("boxes", "boxes_dq", "boxes_step")
        nodes += pair("scores", "scores_dq", "scores_step")
        joined = ["boxes_dq", "scores_dq"]
    target = "joined" if quantized == "together" else "output"
    nodes.append(node("Concat", joined, [target], "join", axis=1))
    if quantized == "together":
        nodes += pair("joined", "output", "boxes_step")
    used = {name for each in nodes for name in each.input}
    held = {name: array for name, array in weights.items() if name in used}
    inputs, outputs = [value("x", [1, 3, 8, 8])], [value("output", [1, 6, 64])]
    return make("detector", nodes, inputs, outputs, weights=held)


def two_heads(*, is_quantized: bool = False) -> onnx.ModelProto:
    """Return a model that joins the boxes and scores of two heads, and then the heads.

    Args:
        is_quantized: whether each joined tensor has a single scale; in float32 by default.
    """
    step = {"step": np.array(BOXES / 255, np.float32), "zero": np.array(0, np.uint8)}
    weights: dict[str, Any] = {"k": _numbers(BOXES)}
    nodes = []

    def quantize(tensor: str) -> str:
        """Add a Q/DQ pair, if wanted, and return its output."""
        if not is_quantized:
            return tensor
        made = "output" if tensor == "joined" else f"{tensor}_dq"
        nodes.append(node("QuantizeLinear", [tensor, *step], [f"{tensor}_q"], f"q_{tensor}"))
        nodes.append(node("DequantizeLinear", [f"{tensor}_q", *step], [made], f"dq_{tensor}"))
        return made

    heads = []
    for head in ("first", "second"):
        weights |= {f"{head}_a": _weight(16, 4), f"{head}_b": _weight(16, 3)}
        for name in "ab":
            nodes.append(node("MatMul", ["x", f"{head}_{name}"], [f"{head}_x{name}"]))
            nodes.append(node("Sigmoid", [f"{head}_x{name}"], [f"{head}_s{name}"]))
        nodes.append(node("Mul", [f"{head}_sa", "k"], [f"{head}_boxes"]))
        parts = [f"{head}_boxes", f"{head}_sb"]
        nodes.append(node("Concat", parts, [head], f"join_{head}", axis=-1))
        heads.append(quantize(head))
    joined = "joined" if is_quantized else "output"
    nodes.append(node("Concat", heads, [joined], "join", axis=0))
    quantize("joined")
    return _graph(nodes, {**weights, **(step if is_quantized else {})}, ["m", 7], "n")


def split_detector(quantized: str = "") -> onnx.ModelProto:
    """A detector whose joined output is reshaped, to a shape that nodes compute.

    Args:
        quantized: ``pairs`` or ``operators``: the joined tensor has one scale, in nodes
            QuantizeLinear and DequantizeLinear, or in a QLinearConcat; in float32 by default.
            ``coarse pairs``: what the scores are computed of has large steps, too.
    """
    model = detector()
    weights = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    weights |= {
        "first": np.array([0]),
        "others": np.array([6, 8, 8]),
        "zero": np.array(0, np.uint8),
        "boxes_step": np.array(BOXES / 255, np.float32),
        "scores_step": np.array(1 / 255, np.float32),
        "coarse_step": np.array(1.5, np.float32),
        "middle": np.array(128, np.uint8),
    }
    nodes = [*model.graph.node][:-1]
    if quantized == "coarse pairs":
        (sigmoid,) = (each for each in nodes if each.name == "scores_sigmoid")
        sigmoid.input[0] = "cs_dq"
        coarse = ["coarse_step", "middle"]
        place = nodes.index(sigmoid)
        nodes[place:place] = [
            node("QuantizeLinear", ["cs", *coarse], ["cs_q"], "q_cs"),
            node("DequantizeLinear", ["cs_q", *coarse], ["cs_dq"], "dq_cs"),
        ]
    shape = [
        node("Shape", ["boxes"], ["all_dims"], "all_dims"),
        node("Gather", ["all_dims", "first"], ["batch"], "batch"),
        node("Concat", ["batch", "others"], ["dims"], "dims", axis=0),
    ]
    step = ["boxes_step", "zero"]
    join = node("Concat", ["boxes", "scores"], ["joined"], "join", axis=1)

    def pair(source: str, codes: str, target: str) -> list[onnx.NodeProto]:
        return [
            node("QuantizeLinear", [source, *step], [codes], f"q_{target}"),
            node("DequantizeLinear", [codes, *step], [target], f"dq_{target}"),
        ]

    if "pairs" in quantized:
        nodes += [join, *pair("joined", "joined_q", "joined_dq"), *shape]
        nodes += [node("Reshape", ["joined_dq", "dims"], ["split"], "split")]
        nodes += pair("split", "split_q", "output")
    elif quantized == "operators":
        scores = ["scores_step", "zero"]
        nodes += [
            node("QuantizeLinear", ["boxes", *step], ["boxes_q"], "q_boxes"),
            node("QuantizeLinear", ["scores", *scores], ["scores_q"], "q_scores"),
            node(
                "QLinearConcat",
                [*step, "boxes_q", *step, "scores_q", *scores],
                ["joined_q"],
                "join",
                axis=1,
                domain="com.microsoft",
            ),
            *shape,
            node("Reshape", ["joined_q", "dims"], ["split_q"], "split"),
            node("DequantizeLinear", ["split_q", *step], ["output"], "dq_output"),
        ]
    else:
        nodes += [join, *shape, node("Reshape", ["joined", "dims"], ["output"], "split")]
    used = {name for each in nodes for name in each.input}
    held = {name: array for name, array in weights.items() if name in used}
    inputs, outputs = [value("x", [1, 3, 8, 8])], [value("output", [1, 6, 8, 8])]
    domains = ["com.microsoft"] if quantized == "operators" else []
    return make("detector", nodes, inputs, outputs, weights=held, domains=domains)
