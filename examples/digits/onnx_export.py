"""Writing the trained network as an ONNX model, and images as input data for the command line."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from network import CLASSES, SIDE, Array, Parameters
from onnx import TensorProto, checker, helper, numpy_helper, shape_inference

__all__ = ["to_onnx", "write_inputs"]


def to_onnx(parameters: Parameters, description: str) -> onnx.ModelProto:
    """Return the network as a checked ONNX model (opset 17) with inferred shapes.

    Args:
        parameters: Weights, as `network.initialize` names them.
        description: What becomes the model's doc string.

    Raises:
        onnx.checker.ValidationError: The model is not valid.
    """
    image = _tensor("image", (1, SIDE, SIDE), "Gray images: 0 is paper, 1 is ink.")
    outputs = [
        _tensor("logits", (CLASSES,), "Scores of the digits 0 to 9 before the softmax."),
        _tensor("probabilities", (CLASSES,), "Probabilities of the digits 0 to 9; they sum to 1."),
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in parameters.items()]
    graph = helper.make_graph(
        _nodes(),
        "digits",
        [image],
        outputs,
        weights,
        doc_string="Classifier of handwritten digits, 8x8 pixels each.",
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="examples/digits/train.py",
        doc_string=description,
    )
    model = shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    checker.check_model(model, full_check=True)
    return model


def write_inputs(path: Path, batches: Iterable[Array]) -> None:
    """Write one iteration per batch of images, float32 [batch, 1, 8, 8], for --load-inputs.

    The format is a list of objects that map input names to arrays; an array is an .npy file in
    base64, marked by its class.
    """
    iterations = [{"image": _encode(np.ascontiguousarray(batch))} for batch in batches]
    path.write_text(json.dumps(iterations, indent=4) + "\n", encoding="utf-8")


def _nodes() -> list[onnx.NodeProto]:
    convolution: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    return [
        helper.make_node(
            "Conv",
            ["image", "conv1.weight", "conv1.bias"],
            ["conv1_output"],
            name="conv1",
            doc_string="Strokes and edges.",
            **convolution,
        ),
        helper.make_node("Relu", ["conv1_output"], ["relu1_output"], name="relu1"),
        helper.make_node(
            "Conv",
            ["relu1_output", "conv2.weight", "conv2.bias"],
            ["conv2_output"],
            name="conv2",
            doc_string="Curves, corners and crossings.",
            **convolution,
        ),
        helper.make_node("Relu", ["conv2_output"], ["relu2_output"], name="relu2"),
        helper.make_node(
            "MaxPool",
            ["relu2_output"],
            ["pool_output"],
            name="pool",
            doc_string="Halves height and width.",
            kernel_shape=[2, 2],
            strides=[2, 2],
        ),
        helper.make_node("Flatten", ["pool_output"], ["features"], name="flatten", axis=1),
        helper.make_node(
            "Gemm",
            ["features", "dense.weight", "dense.bias"],
            ["logits"],
            name="dense",
            doc_string="One score per digit.",
        ),
        helper.make_node("Softmax", ["logits"], ["probabilities"], name="softmax", axis=1),
    ]


def _tensor(name: str, shape: tuple[int, ...], description: str) -> onnx.ValueInfoProto:
    """Describe a float32 tensor with a dynamic batch in front of `shape`."""
    return helper.make_tensor_value_info(
        name, TensorProto.FLOAT, ["batch", *shape], doc_string=description
    )


def _encode(array: Array) -> dict[str, str]:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return {
        "array": base64.b64encode(file.getvalue()).decode("ascii"),
        "polygraphy_class": "ndarray",
    }
