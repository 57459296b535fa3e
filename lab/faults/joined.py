"""Networks whose outputs have parts of different size and kind, and faults in the smallest part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .planting import Plant, Planted, replace

Make = Callable[[np.random.Generator], onnx.ModelProto]
SMALL = "small_matmul"
"""The node whose weight is changed."""
_ROWS, _WIDTH = 6, 16


class _Drawn:
    """A network of a trunk and branches."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Start an empty model with random weights."""
        self._rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray[Any, Any]] = {}
        self.trunk = self.matmul("x", "trunk_matmul", _WIDTH)
        self.trunk = self.add("Relu", [self.trunk], "trunk")

    def add(self, op: str, reads: list[str], name: str, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        self.nodes.append(helper.make_node(op, reads, [f"{name}_out"], name, **attributes))
        return f"{name}_out"

    def held(self, name: str, array: Any) -> str:
        """Add a weight, and return its name."""
        self.weights[name] = np.asarray(array)
        return name

    def matmul(self, read: str, name: str, width: int) -> str:
        """Add a MatMul with a random weight, and return the name of its output."""
        weight = self._rng.normal(size=(_WIDTH, width)) * 0.4
        return self.add("MatMul", [read, self.held(f"{name}_w", weight.astype("f"))], name)

    def small(self, width: int) -> str:
        """Add scores, logits or log probabilities, and return the name of the tensor."""
        kind = str(self._rng.choice(["Sigmoid", "", "LogSoftmax"]))
        output = self.matmul(self.trunk, SMALL, width)
        return self.add(kind, [output], "small") if kind else output

    def large(self, width: int, number: int) -> str:
        """Add boxes, or other numbers in the thousands, and return the name of the tensor."""
        output = self.matmul(self.trunk, f"large_matmul{number}", width)
        if self._rng.random() < 0.5:
            output = self.add("Sigmoid", [output], f"large_sigmoid{number}")
        size = 10.0 ** self._rng.uniform(5, 7)
        factor = self.held(f"size{number}", np.array([size], "f"))
        return self.add("Mul", [output, factor], f"large{number}")

    def model(self, output: str) -> onnx.ModelProto:
        """Return the model whose output is one of the tensors."""
        for node in self.nodes:
            node.output[:] = ["output" if name == output else name for name in node.output]
            node.input[:] = ["output" if name == output else name for name in node.input]
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [_ROWS, _WIDTH])
        output_info = onnx.ValueInfoProto(name="output")
        output_info.type.tensor_type.elem_type = TensorProto.FLOAT
        graph = helper.make_graph(self.nodes, "joined", [x], [output_info], weights)
        opset = [helper.make_opsetid("", 17)]
        return onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=opset, ir_version=8)
        )


def join_parts(rng: np.random.Generator) -> onnx.ModelProto:
    """Return a model that joins parts along an axis, and may move or pad the result."""
    net = _Drawn(rng)
    axis = int(rng.choice([0, 1, -1]))
    widths = [8] * 4 if axis == 0 else [int(integer) for integer in rng.integers(3, 9, 4)]
    parts = [net.small(widths[0])]
    parts += [net.large(width, at) for at, width in enumerate(widths[1 : int(rng.integers(2, 5))])]
    order = rng.permutation(len(parts))
    output = net.add("Concat", [parts[at] for at in order], "join", axis=axis)
    if rng.random() < 0.4:
        output = net.add("Transpose", [output], "turn", perm=[1, 0])
    if rng.random() < 0.3:
        pads = net.held("pads", np.array([0, 0, 2, 0]))
        output = net.add("Pad", [output, pads, net.held("none", np.float32(-1))], "pad")
    if rng.random() < 0.4:
        output = net.add("Unsqueeze", [output, net.held("axes", np.array([0]))], "batch")
    return net.model(output)


def fill_logits(rng: np.random.Generator) -> onnx.ModelProto:
    """Return a model whose logits are masked, or part of a larger constant tensor."""
    net = _Drawn(rng)
    width = int(rng.integers(8, 24))
    output = net.matmul(net.trunk, SMALL, width)
    fill = np.float32(rng.choice([-1e9, -1e8, 1e9, float(np.finfo(np.float32).min)]))
    kind = str(rng.choice(["Where", "Add", "Pad", "ScatterND"]))
    mask = rng.random((1, width)) < 0.3
    mask[0, :2] = True, False
    if kind == "Where":
        constants = [net.held("mask", mask), net.held("fill", fill)]
        output = net.add("Where", [*constants, output], "fill")
    elif kind == "Add":
        output = net.add(
            "Add", [output, net.held("mask", np.where(mask, fill, 0).astype("f"))], "fill"
        )
    elif kind == "Pad":
        pads = net.held("pads", np.array([0, 1, 0, 2]))
        output = net.add("Pad", [output, pads, net.held("fill", fill)], "fill")
    else:
        empty = net.held("empty", np.full((_ROWS + 4, width), fill))
        places = rng.permutation(_ROWS + 4)[:_ROWS, None]
        output = net.add("ScatterND", [empty, net.held("places", places), output], "fill")
    return net.model(output)


def small_weight(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Change a row of the weight of the smallest part; return the fault, or None."""
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == f"{SMALL}_w")
    array = numpy_helper.to_array(weight).copy()
    array[int(rng.integers(len(array)))] += rng.normal(size=array.shape[1]).astype("f")
    replace(weight, array)
    return Planted((SMALL,), ("weight",))


def quantized_together(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Quantize the output, so that the smallest part is lost; return the fault, or None."""
    maker = next(node for node in model.graph.node if "output" in node.output)
    maker.output[:] = ["exact" if name == "output" else name for name in maker.output]
    names = ["step", "zero"]
    parameters = np.array(1e7 / 128, np.float32), np.array(128, np.uint8)
    model.graph.initializer.extend(map(numpy_helper.from_array, parameters, names))
    model.graph.node.extend(
        [
            helper.make_node("QuantizeLinear", ["exact", *names], ["stored"], "q_output"),
            helper.make_node("DequantizeLinear", ["stored", *names], ["output"], "dq_output"),
        ]
    )
    # Saved results contain no tensor between the input of the pair and the output.
    causes = ("quantization", "changed", "structure")
    return Planted(("q_output", "dq_output"), causes, beside=(maker.name, "exact"))


JOINED: dict[str, tuple[Make, Plant]] = {
    "parts: joined": (join_parts, small_weight),
    "parts: filled": (fill_logits, small_weight),
    "parts: quantized together": (join_parts, quantized_together),
}
