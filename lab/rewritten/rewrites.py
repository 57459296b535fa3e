"""References with different nodes: what optimizers, converters and other spellings make of a model.

Each function takes a model and returns one that computes the same, with other nodes; None if the
tool is not installed, or leaves the model as it is.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

Rewrite = Callable[[onnx.ModelProto], "onnx.ModelProto | None"]


def optimize(level: str) -> Rewrite:
    """Return a rewrite by ONNX Runtime at an optimization level."""

    def rewrite(model: onnx.ModelProto) -> onnx.ModelProto | None:
        """Return the model optimized by ONNX Runtime, or None if it cannot be."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = getattr(
            onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}"
        )
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "optimized.onnx")
            options.optimized_model_filepath = path
            onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            return onnx.load(path)

    return rewrite


def rewrite_by_onnxscript(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return the model rewritten by onnxscript, or None if it fails."""
    try:
        from onnxscript import optimizer, rewriter
    except ImportError:
        return None
    with contextlib.redirect_stdout(io.StringIO()):
        return rewriter.rewrite(optimizer.optimize(_copy(model)))


def slim(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return the model rewritten by onnxslim, or None if it fails."""
    try:
        import onnxslim
    except ImportError:
        return None
    with contextlib.redirect_stdout(io.StringIO()):
        return onnxslim.slim(_copy(model))


def simplify_by_onnxsim(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return the model rewritten by onnxsim, or None if it fails."""
    try:
        import onnxsim
    except ImportError:
        return None
    with contextlib.redirect_stdout(io.StringIO()):
        simplified_model, _ = onnxsim.simplify(_copy(model))
    return simplified_model


def fuse_by_onnxoptimizer(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return the model rewritten by onnxoptimizer, or None if it fails."""
    try:
        import onnxoptimizer
    except ImportError:
        return None
    return onnxoptimizer.optimize(_copy(model))


def newer(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return the model with a newer opset, or None if it cannot be converted."""
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    return onnx.version_converter.convert_version(_copy(model), 18 if opset < 18 else 21)


def half(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return the model in float16 with float32 inputs and outputs, or None.

    ONNX Runtime's tool converts it.
    """
    from onnxruntime.transformers.float16 import convert_float_to_float16

    return convert_float_to_float16(_copy(model), keep_io_types=True)


def spelled_out(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return the model with Gemm, activations and norms as smaller operators, or None."""
    writer = Writer(model)
    for node in model.graph.node:
        attributes = {
            attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute
        }
        read, result = list(node.input), node.output[0] if node.output else ""
        if node.op_type == "Gemm" and not attributes.get("transA"):
            weight = read[1]
            if attributes.get("transB"):
                weight = writer.add("Transpose", [weight], perm=[1, 0])
            product = writer.add("MatMul", [read[0], weight])
            if attributes.get("alpha", 1.0) != 1.0:
                product = writer.add("Mul", [product, writer.number(attributes["alpha"])])
            bias = read[2] if len(read) > 2 else ""
            if bias and attributes.get("beta", 1.0) != 1.0:
                bias = writer.add("Mul", [bias, writer.number(attributes["beta"])])
            if bias:
                writer.add("Add", [bias, product], result)
            else:
                writer.add("Identity", [product], result)
        elif node.op_type == "Sigmoid":
            below = writer.add("Exp", [writer.add("Neg", read)])
            writer.add("Reciprocal", [writer.add("Add", [writer.number(1.0), below])], result)
        elif node.op_type == "Relu":
            writer.add("Max", [writer.number(0.0), read[0]], result)
        elif node.op_type == "LeakyRelu":
            less = writer.add("Mul", [read[0], writer.number(attributes.get("alpha", 0.01))])
            is_positive = writer.add("Greater", [read[0], writer.number(0.0)])
            writer.add("Where", [is_positive, read[0], less], result)
        elif node.op_type == "HardSwish":
            gate = writer.add("Add", [read[0], writer.number(3.0)])
            gate = writer.add("Min", [writer.add("Max", [gate, writer.number(0.0)]),
                                      writer.number(6.0)])  # fmt: skip
            writer.add("Div", [writer.add("Mul", [gate, read[0]]), writer.number(6.0)], result)
        elif node.op_type == "Sub":
            writer.add("Add", [writer.add("Neg", [read[1]]), read[0]], result)
        elif node.op_type == "Div" and writer.is_float(read[1]):
            writer.add("Mul", [read[0], writer.add("Reciprocal", [read[1]])], result)
        elif node.op_type == "BatchNormalization" and len(node.output) == 1:
            self_epsilon = attributes.get("epsilon", 1e-5)
            arrays = [writer.weights.get(name) for name in read[1:5]]
            if any(array is None for array in arrays):
                writer.keep(node)
                continue
            scale, bias, mean, variance = arrays
            factor = scale / np.sqrt(variance + np.float32(self_epsilon))
            shape = (-1, *(1,) * (writer.rank(read[0]) - 2))
            product = writer.add("Mul", [writer.weight(factor.reshape(shape)), read[0]])
            offset = (bias - mean * factor).reshape(shape)
            writer.add("Add", [product, writer.weight(offset)], result)
        else:
            writer.keep(node)
    return writer.finished()


def transposed_products(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return a model that computes x @ W as (W.T @ x.T).T, or None."""
    writer = Writer(model)
    for node in model.graph.node:
        weight = writer.weights.get(node.input[1]) if len(node.input) > 1 else None
        rank = writer.rank(node.input[0]) if node.input else 0
        if node.op_type == "MatMul" and weight is not None and weight.ndim == 2 and rank >= 2:
            turned = [*range(rank - 2), rank - 1, rank - 2]
            left = writer.weight(np.ascontiguousarray(weight.T))
            transposed = writer.add("Transpose", [node.input[0]], perm=turned)
            product = writer.add("MatMul", [left, transposed])
            writer.add("Transpose", [product], node.output[0], perm=turned)
        elif node.op_type == "Gemm" and weight is not None:
            attributes = {
                attribute.name: helper.get_attribute_value(attribute)
                for attribute in node.attribute
            }
            if attributes.get("transA") or attributes.get("alpha", 1.0) != 1.0:
                writer.keep(node)
                continue
            left = weight if attributes.get("transB") else weight.T
            transposed = writer.add("Transpose", [node.input[0]], perm=[1, 0])
            product = writer.add("MatMul", [writer.weight(np.ascontiguousarray(left)), transposed])
            turned_back = writer.add("Transpose", [product], perm=[1, 0])
            bias = node.input[2] if len(node.input) > 2 else writer.number(0.0)
            writer.add("Add", [turned_back, bias], node.output[0])
        else:
            writer.keep(node)
    return writer.finished()


def channels_last(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return a model whose image operators work on channels-last data, or None.

    Converters of other frameworks write such models.
    """
    writer = Writer(model)
    for node in model.graph.node:
        is_image = bool(node.input) and writer.rank(node.input[0]) == 4
        if (
            node.op_type in {"Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSwish"}
            and is_image
        ):
            turned = writer.add("Transpose", [node.input[0]], perm=[0, 2, 3, 1])
            attributes = {
                attribute.name: helper.get_attribute_value(attribute)
                for attribute in node.attribute
            }
            result = writer.add(node.op_type, [turned, *node.input[1:]], **attributes)
            writer.add("Transpose", [result], node.output[0], perm=[0, 3, 1, 2])
        elif node.op_type == "GlobalAveragePool" and is_image:
            turned = writer.add("Transpose", [node.input[0]], perm=[0, 2, 3, 1])
            if writer.opset >= 18:
                mean = writer.add("ReduceMean", [turned, writer.integers([1, 2])], keepdims=1)
            else:
                mean = writer.add("ReduceMean", [turned], axes=[1, 2], keepdims=1)
            writer.add("Transpose", [mean], node.output[0], perm=[0, 3, 1, 2])
        elif node.op_type == "Conv" and len(node.input) > 2:
            attributes = {
                attribute.name: helper.get_attribute_value(attribute)
                for attribute in node.attribute
            }
            result = writer.add("Conv", list(node.input[:2]), **attributes)
            bias = writer.weights.get(node.input[2])
            if bias is None or writer.rank(node.input[0]) != 4:
                writer.undo()
                writer.keep(node)
                continue
            turned = writer.add("Transpose", [result], perm=[0, 2, 3, 1])
            turned = writer.add("Add", [turned, writer.weight(bias)])
            writer.add("Transpose", [turned], node.output[0], perm=[0, 3, 1, 2])
        else:
            writer.keep(node)
    return writer.finished()


class Writer:
    """Writes the nodes of a model anew, under other names."""

    def __init__(self, model: onnx.ModelProto) -> None:
        """Copy a model, to rewrite its nodes."""
        self._model = _copy(model)
        inferred = onnx.shape_inference.infer_shapes(model)
        values = [*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output]
        self._types = {value.name: value.type.tensor_type for value in values}
        self.weights = {
            weight.name: numpy_helper.to_array(weight) for weight in model.graph.initializer
        }
        for node in model.graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.weights[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        self.opset = next(
            entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")
        )
        self._nodes: list[onnx.NodeProto] = []
        self._changed = 0

    def rank(self, name: str) -> int:
        """Return the number of dimensions of a tensor; 0 if it is unknown."""
        if name in self.weights:
            return self.weights[name].ndim
        return len(self._types[name].shape.dim) if name in self._types else 0

    def is_float(self, name: str) -> bool:
        """Return whether a tensor holds float32 numbers."""
        if name in self.weights:
            return self.weights[name].dtype == np.float32
        return name in self._types and self._types[name].elem_type == onnx.TensorProto.FLOAT

    def add(self, op: str, read: list[str], output: str = "", **attributes: object) -> str:
        """Add a node, and return the name of its output."""
        name = f"rw_{len(self._nodes)}"
        self._nodes.append(
            helper.make_node(op, read, [output or f"{name}_out"], name, **attributes)
        )
        self._changed += 1
        return output or f"{name}_out"

    def undo(self) -> None:
        """Remove the last node."""
        self._nodes.pop()
        self._changed -= 1

    def keep(self, node: onnx.NodeProto) -> None:
        """Add a node unchanged."""
        self._nodes.append(node)

    def weight(self, array: np.ndarray) -> str:
        """Add a weight, and return its name."""
        name = f"rw_weight_{len(self._model.graph.initializer)}"
        self._model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, value: float) -> str:
        """Add a scalar, and return its name."""
        return self.weight(np.array(value, np.float32))

    def integers(self, values: list[int]) -> str:
        """Add a list of integers, and return its name."""
        return self.weight(np.array(values, np.int64))

    def finished(self) -> onnx.ModelProto | None:
        """Return the model with new names; None if no node was rewritten."""
        if not self._changed:
            return None
        del self._model.graph.node[:]
        del self._model.graph.value_info[:]
        self._model.graph.node.extend(self._nodes)
        return self._model


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


REWRITES: dict[str, Rewrite] = {
    "ort basic": optimize("BASIC"),
    "ort extended": optimize("EXTENDED"),
    "ort layout": optimize("LAYOUT"),
    "ort all": optimize("ALL"),
    "onnxscript": rewrite_by_onnxscript,
    "onnxslim": slim,
    "onnxsim": simplify_by_onnxsim,
    "onnxoptimizer": fuse_by_onnxoptimizer,
    "other opset": newer,
    "half": half,
    "spelled out": spelled_out,
    "transposed products": transposed_products,
    "channels last": channels_last,
}
