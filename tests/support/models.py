"""Small ONNX models, one function each, for tests that need a model of a certain kind.

Every function returns a new ``ModelProto``. The same call gives the same bytes on every machine:
weights come from ``numpy.random.RandomState``, whose streams NumPy promises never to change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, checker, helper, numpy_helper

__all__ = [
    "CUSTOM_DOMAIN",
    "Shape",
    "bfloat16_output",
    "classifier",
    "conv_net",
    "custom_op",
    "dynamic_identity",
    "every_dtype",
    "identity",
    "identity_fp16",
    "make",
    "mlp",
    "save",
    "unstable",
    "value",
]

CUSTOM_DOMAIN = "test.custom"
"""Domain of the operator that no backend implements."""

Shape = Sequence[int | str | None]
"""Dimensions of a tensor; a name or None is a dynamic dimension."""

_SEED = 20


def value(name: str, shape: Shape, elem_type: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """Return the description of a tensor: its name, shape and element type."""
    return helper.make_tensor_value_info(name, elem_type, list(shape))


def make(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    *,
    weights: Mapping[str, npt.NDArray[np.generic]] | None = None,
    opset: int = 17,
    ir_version: int = 8,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """Return a checked model of nodes, whose graph has a name.

    Args:
        name: Name of the graph.
        nodes: Nodes in topological order.
        inputs: Graph inputs.
        outputs: Graph outputs.
        weights: Initializers by tensor name.
        opset: Version of the default operator set.
        ir_version: Version of the ONNX format.
        domains: Further operator domains, each imported at version 1.

    Raises:
        onnx.checker.ValidationError: The parts do not make a valid model.
    """
    initializers = [numpy_helper.from_array(array, key) for key, array in (weights or {}).items()]
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    model = helper.make_model(
        helper.make_graph(list(nodes), name, list(inputs), list(outputs), initializers),
        opset_imports=imports,
        ir_version=ir_version,
    )
    checker.check_model(model, full_check=not domains)
    return model


def save(model: onnx.ModelProto, path: Path) -> None:
    """Write `model` to `path`; equal models give equal files."""
    path.write_bytes(model.SerializeToString(deterministic=True))


def identity() -> onnx.ModelProto:
    """Return y = x; x is float32 [1, 1, 2, 2]. Opset 8 and IR version 3."""
    shape = (1, 1, 2, 2)
    return make(
        "test_identity",
        [helper.make_node("Identity", ["x"], ["y"])],
        [value("x", shape)],
        [value("y", shape)],
        opset=8,
        ir_version=3,
    )


def identity_fp16() -> onnx.ModelProto:
    """Return `identity` computed in float16 between two Cast nodes; x and y stay float32."""
    shape = (1, 1, 2, 2)
    return make(
        "test_identity",
        [
            helper.make_node("Cast", ["x"], ["x_fp16"], name="cast_x", to=TensorProto.FLOAT16),
            helper.make_node("Identity", ["x_fp16"], ["y_fp16"], name="identity"),
            helper.make_node("Cast", ["y_fp16"], ["y"], name="cast_y", to=TensorProto.FLOAT),
        ],
        [value("x", shape)],
        [value("y", shape)],
        opset=8,
        ir_version=3,
    )


def dynamic_identity(shape: Shape = (1, 2, "height", "width")) -> onnx.ModelProto:
    """Return Y = X; X is float32 of `shape`. Opset 10 and IR version 5."""
    return make(
        "test_dynamic_identity",
        [helper.make_node("Identity", ["X"], ["Y"])],
        [value("X", shape)],
        [value("Y", shape)],
        opset=10,
        ir_version=5,
    )


def mlp(*, features: int = 8, hidden: int = 16, classes: int = 4) -> onnx.ModelProto:
    """Return a perceptron with one hidden layer.

    x is float32 [batch, features]; y, the logits, is [batch, classes].
    """
    random = np.random.RandomState(_SEED)
    weights = {
        "hidden.weight": _gaussian(random, features, hidden),
        "hidden.bias": _gaussian(random, hidden),
        "logits.weight": _gaussian(random, hidden, classes),
        "logits.bias": _gaussian(random, classes),
    }
    return make(
        "mlp",
        [
            helper.make_node("Gemm", ["x", "hidden.weight", "hidden.bias"], ["h"], name="hidden"),
            helper.make_node("Relu", ["h"], ["h_relu"], name="relu"),
            helper.make_node(
                "Gemm", ["h_relu", "logits.weight", "logits.bias"], ["y"], name="logits"
            ),
        ],
        [value("x", ("batch", features))],
        [value("y", ("batch", classes))],
        weights=weights,
    )


def classifier(labels: Sequence[str] = "abc") -> onnx.ModelProto:
    """Return a model with scores of three classes, and maps from labels to scores."""
    model: onnx.ModelProto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3]> g (float[4,3] x) => ()'
        " { s = Softmax(x) y = ai.onnx.ml.ZipMap(s) }"
    )
    model.graph.node[1].attribute.append(helper.make_attribute("classlabels_strings", [*labels]))
    scores = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    maps = helper.make_map_type_proto(TensorProto.STRING, scores)
    kind = helper.make_sequence_type_proto(maps)
    model.graph.output.append(helper.make_value_info("y", kind))
    return model


def conv_net() -> onnx.ModelProto:
    """Return a convolution, a ReLU, a global pooling and a dense layer.

    x is float32 [batch, 3, 16, 16]; y, the logits, is [batch, 5].
    """
    random = np.random.RandomState(_SEED)
    weights = {
        "conv.weight": _gaussian(random, 8, 3, 3, 3),
        "conv.bias": _gaussian(random, 8),
        "dense.weight": _gaussian(random, 8, 5),
        "dense.bias": _gaussian(random, 5),
    }
    return make(
        "conv_net",
        [
            helper.make_node(
                "Conv",
                ["x", "conv.weight", "conv.bias"],
                ["conv_output"],
                name="conv",
                kernel_shape=[3, 3],
                pads=[1, 1, 1, 1],
            ),
            helper.make_node("Relu", ["conv_output"], ["relu_output"], name="relu"),
            helper.make_node("GlobalAveragePool", ["relu_output"], ["pool_output"], name="pool"),
            helper.make_node("Flatten", ["pool_output"], ["features"], name="flatten", axis=1),
            helper.make_node("Gemm", ["features", "dense.weight", "dense.bias"], ["y"], name="fc"),
        ],
        [value("x", ("batch", 3, 16, 16))],
        [value("y", ("batch", 5))],
        weights=weights,
    )


def custom_op(shape: Shape = ("batch", 4)) -> onnx.ModelProto:
    """Return y = Relu(CustomOp(x)); no backend knows the operator. x and y are float32."""
    return make(
        "custom_op",
        [
            helper.make_node("CustomOp", ["x"], ["t"], name="custom", domain=CUSTOM_DOMAIN),
            helper.make_node("Relu", ["t"], ["y"], name="relu"),
        ],
        [value("x", shape)],
        [value("y", shape)],
        domains=[CUSTOM_DOMAIN],
    )


def unstable() -> onnx.ModelProto:
    """Return a model whose output is finite for x > 0 only; x is float32 [n].

    `log` = ln(x) is NaN for x < 0 and -Inf at 0; `reciprocal` = 1 / x is +Inf at 0.
    """
    return make(
        "unstable",
        [
            helper.make_node("Log", ["x"], ["log"], name="log"),
            helper.make_node("Reciprocal", ["x"], ["reciprocal"], name="reciprocal"),
        ],
        [value("x", ["n"])],
        [value("log", ["n"]), value("reciprocal", ["n"])],
    )


def every_dtype(*, strings: bool = True) -> onnx.ModelProto:
    """Return a model with an output of each element type that NumPy has.

    The input x is int32 [n]. Each output named after a type is x cast to it, of shape [n], but:

    * `bool` is x > 0;
    * `int64` is x + 2**62 and `uint64` is x + 2**63: neither survives a trip through float64;
    * `string` is x in decimal digits, and left out unless `strings` is true;
    * `scalar` is the sum of x, float32 of shape [];
    * `empty` is float32 [0, n].
    """
    casts = {
        "int8": TensorProto.INT8,
        "uint8": TensorProto.UINT8,
        "int16": TensorProto.INT16,
        "uint16": TensorProto.UINT16,
        "int32": TensorProto.INT32,
        "uint32": TensorProto.UINT32,
        "float16": TensorProto.FLOAT16,
        "float32": TensorProto.FLOAT,
        "float64": TensorProto.DOUBLE,
    }
    if strings:
        casts["string"] = TensorProto.STRING
    large = {"int64": TensorProto.INT64, "uint64": TensorProto.UINT64}
    nodes = [
        *(helper.make_node("Cast", ["x"], [name], name=name, to=t) for name, t in casts.items()),
        *(
            helper.make_node("Cast", ["x"], [f"x_{n}"], name=f"x_{n}", to=t)
            for n, t in large.items()
        ),
        *(helper.make_node("Add", [f"x_{n}", f"{n}_offset"], [n], name=n) for n in large),
        helper.make_node("Greater", ["x", "zero"], ["bool"], name="bool"),
        helper.make_node("ReduceSum", ["float32"], ["scalar"], name="scalar", keepdims=0),
        helper.make_node("Unsqueeze", ["float32", "first_axis"], ["row"], name="row"),
        helper.make_node("Slice", ["row", "start", "start", "first_axis"], ["empty"], name="empty"),
    ]
    outputs = [
        *(value(name, ["n"], elem_type) for name, elem_type in (casts | large).items()),
        value("bool", ["n"], TensorProto.BOOL),
        value("scalar", []),
        value("empty", [0, "n"]),
    ]
    weights: dict[str, npt.NDArray[np.generic]] = {
        "int64_offset": np.array(2**62, dtype=np.int64),
        "uint64_offset": np.array(2**63, dtype=np.uint64),
        "zero": np.array(0, dtype=np.int32),
        "first_axis": np.array([0], dtype=np.int64),
        "start": np.array([0], dtype=np.int64),
    }
    inputs = [value("x", ["n"], TensorProto.INT32)]
    return make("every_dtype", nodes, inputs, outputs, weights=weights)


def bfloat16_output() -> onnx.ModelProto:
    """Return y = x rounded to bfloat16; x is float32 [n].

    ONNX Runtime's plain ``run`` refuses to convert y to NumPy; its ``OrtValue`` interface and
    the ONNX reference evaluator hand it out.
    """
    return make(
        "bfloat16_output",
        [helper.make_node("Cast", ["x"], ["y"], name="cast", to=TensorProto.BFLOAT16)],
        [value("x", ["n"])],
        [value("y", ["n"], TensorProto.BFLOAT16)],
    )


def _gaussian(random: np.random.RandomState, *shape: int) -> npt.NDArray[np.float32]:
    """Return random weights of standard deviation 0.5."""
    return (0.5 * random.standard_normal(shape)).astype(np.float32)
