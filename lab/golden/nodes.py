"""Nodes to plant faults in: one row for each operator, with what its weights, attributes and wires
may be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

Draw = np.random.Generator
ROWS = (4, 6)
IMAGE = (1, 4, 8, 8)
SEQUENCE = (5, 1, 6)


class Row(NamedTuple):
    """What a node may be."""

    op: str
    read: tuple[str, ...]
    """Its inputs: ``h`` is the data, ``q`` the same quantized, ``e`` other data of this shape;
    other names are weights.
    """
    shape: tuple[int, ...] = ROWS
    made: tuple[str, ...] = ("mid",)
    weights: Callable[[Draw], dict[str, Any]] = lambda rng: {}
    numbers: dict[str, Sequence[Any]] = {}
    """Integer weights: the values that they may have."""
    attributes: dict[str, Sequence[Any]] = {}
    """The values that attributes may have; None: absent."""
    fixed: dict[str, Any] = {}
    """Attributes that are not changed."""
    ops: tuple[str, ...] = ()
    """Operators that may stand instead of it."""
    swaps: tuple[tuple[int, int], ...] = ()
    """Inputs that may change places."""
    turns: tuple[tuple[int, int], ...] = ()
    """Outputs that may change places."""
    optional: tuple[str, ...] = ()
    """Weights that may be absent."""
    before: tuple[str, ...] = ("Tanh", "Sin", "Softsign", "Sigmoid")
    domain: str = ""
    opset: int = 19
    behind: str = "Identity"


def _normal(rng: Draw, *shape: int) -> np.ndarray:
    """Return random normal numbers of a shape."""
    return rng.standard_normal(shape).astype(np.float32)


def _arrays(**shapes: tuple[int, ...]) -> Callable[[Draw], dict[str, Any]]:
    """Return a function that draws weights by name; names that end in `_` are positive."""

    def draw(rng: Draw) -> dict[str, Any]:
        """Return random weights by name."""
        arrays = {}
        for name, shape in shapes.items():
            array = _normal(rng, *shape) * np.float32(0.6)
            arrays[name] = np.abs(array) + np.float32(0.4) if name.endswith("_") else array
        return arrays

    return draw


def _scale(kind: Any, low: float, per_axis: int = 0) -> Callable[[Draw], dict[str, Any]]:
    """Return a function that draws scale and zero point of a quantized type."""

    def draw(rng: Draw) -> dict[str, Any]:
        """Return random scale and zero point by name."""
        shape = (per_axis,) if per_axis else ()
        scale = np.float32(low * rng.uniform(0.7, 1.5, shape))
        zero = rng.integers(-20, 20, shape) + (128 if kind is np.uint8 else 0)
        zeros = np.zeros(shape, kind) if "float8" in str(np.dtype(kind)) else zero.astype(kind)
        return {"s": np.asarray(scale), "z": np.asarray(zeros), "d": np.asarray(scale)}

    return draw


def _tree(rng: Draw, classes: int = 0) -> dict[str, Any]:
    """Return the attributes of two trees of depth two."""
    attributes: dict[str, list[Any]] = {}

    def add(**values: Any) -> None:
        """Append a value to each of the attributes."""
        for name, value in values.items():
            attributes.setdefault(name, []).append(value)

    kind = "class" if classes else "target"
    for tree in range(2):
        for node in range(7):
            inner = node < 3
            add(
                nodes_treeids=tree,
                nodes_nodeids=node,
                nodes_featureids=int(rng.integers(6)) if inner else 0,
                nodes_values=float(np.float32(rng.normal() * 0.4)) if inner else 0.0,
                nodes_modes="BRANCH_LEQ" if inner else "LEAF",
                nodes_truenodeids=2 * node + 1 if inner else 0,
                nodes_falsenodeids=2 * node + 2 if inner else 0,
                nodes_hitrates=1.0,
                nodes_missing_value_tracks_true=0,
            )
            if not inner:
                add(
                    **{
                        f"{kind}_treeids": tree,
                        f"{kind}_nodeids": node,
                        f"{kind}_ids": int(rng.integers(classes or 2)),
                        f"{kind}_weights": float(np.float32(rng.normal())),
                    }
                )
    if classes:
        return {**attributes, "classlabels_int64s": list(range(classes))}
    return {**attributes, "n_targets": 2}


def _recurrent(op: str, gates: int, **more: Any) -> Row:
    """Return the row of a recurrent operator with a number of gates."""

    def weights(rng: Draw) -> dict[str, Any]:
        """Return random weights of the operator by name."""
        sizes = {"w": (1, gates * 5, 6), "r": (1, gates * 5, 5), "b": (1, gates * 10)}
        return {name: _normal(rng, *size) * np.float32(0.4) for name, size in sizes.items()}

    outputs = ("o", "s1", "s2") if op == "LSTM" else ("o", "s1")
    return Row(op, ("h", "w", "r", "b"), SEQUENCE, outputs, weights, fixed={"hidden_size": 5},
               attributes={"direction": (None, "reverse"), **more}, optional=("b",),
               turns=((1, 2),) if op == "LSTM" else ())  # fmt: skip


_SAME = {"kernel_shape": [3, 3]}
_PADS = ([1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 0, 0], [2, 2, 2, 2])
_REDUCED = (None, "add", "mul", "max", "min")
_NORM = {"epsilon": (1e-5, 0.3, 1e-3, 0.05)}

ROWS_OF_OPERATORS: tuple[Row, ...] = (
    _recurrent("LSTM", 4, input_forget=(0, 1)),
    _recurrent("GRU", 3, linear_before_reset=(0, 1)),
    _recurrent("RNN", 1, activations=(None, ["Relu"], ["Sigmoid"])),
    Row(
        "Conv",
        ("h", "w", "b"),
        IMAGE,
        weights=_arrays(w=(5, 4, 3, 3), b=(5,)),
        fixed=_SAME,
        attributes={"pads": _PADS, "strides": (None, [2, 2], [1, 2]), "dilations": (None, [2, 2])},
        optional=("b",),
    ),
    Row(
        "Conv",
        ("h", "w", "b"),
        IMAGE,
        weights=_arrays(w=(8, 1, 3, 3), b=(8,)),
        fixed={**_SAME, "group": 4},
        attributes={"pads": _PADS, "auto_pad": (None,)},
        optional=("b",),
    ),
    Row(
        "ConvTranspose",
        ("h", "w", "b"),
        IMAGE,
        weights=_arrays(w=(4, 3, 3, 3), b=(3,)),
        attributes={"strides": (None, [2, 2]), "pads": _PADS[:4], "output_padding": (None,)},
        fixed=_SAME,
        optional=("b",),
    ),
    Row("MatMul", ("h", "w"), weights=_arrays(w=(6, 5))),
    Row("MatMul", ("h", "w"), weights=_arrays(w=(6, 6)), swaps=()),
    Row("MatMul", ("h", "e"), (6, 6), swaps=((0, 1),)),
    Row(
        "Gemm",
        ("h", "w", "c"),
        weights=_arrays(w=(6, 6), c=(6,)),
        optional=("c",),
        attributes={"alpha": (None, 0.6, 1.7), "beta": (None, 0.3, 2.0), "transB": (None, 1)},
    ),
    Row(
        "BatchNormalization",
        ("h", "s", "b", "m", "v_"),
        IMAGE,
        attributes=_NORM,
        weights=_arrays(s=(4,), b=(4,), m=(4,), v_=(4,)),
    ),
    Row(
        "LayerNormalization",
        ("h", "s", "b"),
        weights=_arrays(s=(6,), b=(6,)),
        attributes=_NORM,
        optional=("b",),
    ),
    Row(
        "InstanceNormalization",
        ("h", "s", "b"),
        IMAGE,
        weights=_arrays(s=(4,), b=(4,)),
        attributes=_NORM,
    ),
    Row(
        "GroupNormalization",
        ("h", "s", "b"),
        IMAGE,
        weights=_arrays(s=(4,), b=(4,)),
        opset=21,
        attributes={**_NORM, "num_groups": (2, 4, 1)},
    ),
    Row("LpNormalization", ("h",), attributes={"p": (2, 1), "axis": (1, 0)}),
    Row("Softmax", ("h",), attributes={"axis": (1, 0)}, ops=("LogSoftmax", "Hardmax")),
    Row(
        "ReduceMean",
        ("h", "k"),
        (2, 3, 4),
        numbers={"k": ([1], [2], [0], [1, 2])},
        attributes={"keepdims": (1, 0)},
        ops=("ReduceSum", "ReduceMax", "ReduceL2"),
    ),
    Row("ArgMax", ("h",), attributes={"axis": (1, 0), "keepdims": (1, 0)}, ops=("ArgMin",)),
    Row(
        "CumSum",
        ("h", "k"),
        numbers={"k": (1, 0)},
        attributes={"exclusive": (0, 1), "reverse": (0, 1)},
    ),
    Row(
        "TopK",
        ("h", "k"),
        made=("mid", "i"),
        numbers={"k": ([3], [4], [2])},
        attributes={"largest": (1, 0), "axis": (1, 0)},
    ),
    Row(
        "Split",
        ("h", "k"),
        made=("o1", "o2"),
        numbers={"k": ([2, 4], [4, 2], [3, 3], [1, 5])},
        fixed={"axis": 1},
        turns=((0, 1),),
    ),
    Row(
        "Slice",
        ("h", "a", "z", "x", "t"),
        (4, 9),
        numbers={"a": ([1], [0], [2]), "z": ([5], [4], [8]), "x": ([1],), "t": ([1], [2])},
    ),
    Row(
        "Slice",
        ("h", "a", "z", "x"),
        (2, 5, 7),
        numbers={"a": ([1, 2], [0, 2], [1, 3]), "z": ([4, 6], [5, 6], [4, 7]), "x": ([1, 2],)},
    ),
    Row("Slice", ("h", "a", "z", "x"), (6, 6), numbers={"a": ([1],), "z": ([4],), "x": ([0], [1])}),
    Row(
        "Gather",
        ("h", "k"),
        numbers={"k": ([1, 3], [1, 2], [3, 1], [0, 3])},
        attributes={"axis": (1, 0)},
    ),
    Row(
        "GatherElements",
        ("h", "k"),
        numbers={"k": ([[0, 1], [2, 3], [1, 1], [3, 0]], [[0, 1], [2, 3], [1, 2], [3, 0]])},
        attributes={"axis": (1, 0)},
    ),
    Row("Reshape", ("h", "k"), numbers={"k": ([2, 12], [3, 8], [8, 3], [2, 3, 4], [-1, 6])}),
    Row(
        "Transpose",
        ("h",),
        (2, 3, 4),
        attributes={"perm": ([0, 2, 1], [2, 0, 1], [1, 0, 2], [2, 1, 0])},
    ),
    Row("Transpose", ("h",), (3, 3, 3), attributes={"perm": ([0, 2, 1], [2, 0, 1], [1, 2, 0])}),
    Row(
        "Pad",
        ("h", "k"),
        numbers={"k": ([0, 1, 0, 2], [0, 2, 0, 1], [0, 1, 0, 1], [1, 1, 0, 1])},
        attributes={"mode": (None, "reflect", "edge")},
    ),
    Row(
        "Pad",
        ("h", "k", "v"),
        numbers={"k": ([0, 1, 0, 2],)},
        weights=lambda rng: {"v": np.float32(rng.normal())},
        optional=("v",),
    ),
    Row("Tile", ("h", "k"), numbers={"k": ([1, 2], [2, 1], [2, 2], [1, 3])}),
    Row("Expand", ("h", "k"), (4, 1), numbers={"k": ([4, 3], [4, 5], [2, 4, 3])}),
    Row("Concat", ("h", "e"), attributes={"axis": (1, 0)}, swaps=((0, 1),)),
    Row("Flatten", ("h",), (2, 3, 4), attributes={"axis": (1, 2, 0)}),
    Row("Squeeze", ("h", "k"), (1, 3, 1), numbers={"k": ([0], [2], [0, 2])}),
    Row("Unsqueeze", ("h", "k"), numbers={"k": ([0], [1], [2])}),
    Row(
        "DepthToSpace", ("h",), (1, 8, 4, 4), attributes={"mode": (None, "CRD"), "blocksize": (2,)}
    ),
    Row("SpaceToDepth", ("h",), attributes={"blocksize": (2, 4)}, shape=(1, 2, 8, 8)),
    Row(
        "ScatterElements",
        ("h", "k", "u"),
        weights=_arrays(u=(4, 2)),
        numbers={"k": ([[0, 1], [1, 1], [2, 0], [0, 0]], [[0, 1], [1, 1], [2, 0], [0, 3]])},
        attributes={"reduction": _REDUCED, "axis": (1, 0)},
        swaps=(),
    ),
    Row(
        "ScatterND",
        ("h", "k", "u"),
        weights=_arrays(u=(3, 6)),
        numbers={"k": ([[0], [2], [0]], [[1], [2], [0]])},
        attributes={"reduction": _REDUCED},
    ),
    Row(
        "Where", ("c", "h", "e"), weights=lambda rng: {"c": rng.random(ROWS) < 0.5}, swaps=((1, 2),)
    ),
    Row(
        "Clip",
        ("h", "lo", "hi"),
        weights=lambda rng: {
            "lo": np.float32(rng.uniform(-0.4, -0.1)),
            "hi": np.float32(rng.uniform(0.1, 0.5)),
        },
        optional=("hi",),
    ),
    Row(
        "Resize",
        ("h", "", "k"),
        IMAGE,
        numbers={"k": ([1, 1, 2, 2], [1, 1, 3, 3], [1, 1, 2, 1])},
        attributes={
            "mode": ("nearest", "linear", "cubic"),
            "coordinate_transformation_mode": (None, "asymmetric", "align_corners"),
        },
    ),
    Row(
        "AveragePool",
        ("h",),
        IMAGE,
        attributes={
            "kernel_shape": ([2, 2], [3, 3]),
            "strides": ([2, 2], [1, 1]),
            "pads": (None, [1, 1, 1, 1]),
            "count_include_pad": (0, 1),
            "ceil_mode": (0, 1),
        },
        ops=("MaxPool",),
    ),
    Row(
        "MaxPool",
        ("h",),
        IMAGE,
        attributes={"kernel_shape": ([2, 2], [3, 3]), "strides": ([2, 2], [1, 1], [2, 1])},
    ),
    Row("GlobalAveragePool", ("h",), IMAGE, ops=("GlobalMaxPool",)),
    Row(
        "LRN",
        ("h",),
        IMAGE,
        attributes={"size": (3, 1), "alpha": (0.5, 0.1), "beta": (0.75, 0.3), "bias": (1.0, 2.0)},
    ),
    Row("PRelu", ("h", "w"), weights=_arrays(w=(6,)), swaps=()),
    Row("LeakyRelu", ("h",), attributes={"alpha": (0.01, 0.3, 0.1)}, ops=("Elu",)),
    Row("Elu", ("h",), attributes={"alpha": (1.0, 0.4)}),
    Row("HardSigmoid", ("h",), attributes={"alpha": (0.2, 0.5), "beta": (0.5, 0.2)}),
    Row("Celu", ("h",), attributes={"alpha": (1.0, 0.4)}),
    Row("ThresholdedRelu", ("h",), attributes={"alpha": (1.0, 0.2)}),
    Row("Selu", ("h",), attributes={"alpha": (1.67326, 1.0), "gamma": (1.0507, 2.0)}),
    Row("Shrink", ("h",), attributes={"lambd": (0.5, 0.1), "bias": (0.0, 0.2)}),
    Row("Gelu", ("h",), attributes={"approximate": (None, "tanh")}, opset=20),
    Row("Mod", ("h", "t_"), weights=_arrays(t_=(6,)), fixed={"fmod": 1}),
    Row("Floor", ("m",), ops=("Ceil", "Round"), before=("Exp",)),
    *(
        Row(op, ("h", "w_"), weights=_arrays(w_=(6,)), ops=("Add", "Mul"))
        for op in ("Add", "Sub", "Mul", "Div")
    ),
    *(
        Row(op, ("h", "w_"), weights=_arrays(w_=()))
        for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")
    ),
    *(Row(op, ("w_", "h"), weights=_arrays(w_=(6,)), swaps=((0, 1),)) for op in ("Sub", "Div")),
    Row("Pow", ("h", "w_"), weights=_arrays(w_=()), before=("Exp", "Sigmoid")),
    Row(
        "Einsum",
        ("h", "w"),
        weights=_arrays(w=(6, 6)),
        attributes={"equation": ("ij,jk->ik", "ij,kj->ik")},
    ),
    Row("Trilu", ("h", "k"), (5, 5), numbers={"k": (0, 1, -1)}, attributes={"upper": (1, 0)}),
    Row(
        "OneHot",
        ("i", "k", "w"),
        numbers={"k": (5,)},
        weights=_arrays(w=(2,)),
        attributes={"axis": (-1, 0)},
        before=("index",),
    ),
    Row("Gather", ("w", "i"), weights=_arrays(w=(10, 6)), before=("index",)),
    Row(
        "GridSample",
        ("h", "g"),
        IMAGE,
        weights=lambda rng: {"g": rng.uniform(-1.2, 1.2, (1, 5, 5, 2)).astype(np.float32)},
        attributes={
            "mode": (None, "nearest"),
            "padding_mode": (None, "border", "reflection"),
            "align_corners": (0, 1),
        },
    ),
    Row(
        "QuantizeLinear", ("h", "s", "z"), weights=_scale(np.uint8, 0.02), behind="DequantizeLinear"
    ),
    Row(
        "QuantizeLinear", ("h", "s", "z"), weights=_scale(np.int8, 0.02), behind="DequantizeLinear"
    ),
    Row(
        "QuantizeLinear",
        ("h", "s", "z"),
        weights=_scale(np.int8, 0.02, 6),
        behind="DequantizeLinear",
        fixed={"axis": 1},
    ),
    Row(
        "QuantizeLinear",
        ("h", "s", "z"),
        weights=_scale(ml_dtypes.float8_e4m3fn, 0.02),
        behind="DequantizeLinear",
    ),
    Row(
        "QuantizeLinear",
        ("h", "s", "z"),
        weights=_scale(ml_dtypes.float8_e5m2, 0.02),
        behind="DequantizeLinear",
    ),
    Row(
        "QuantizeLinear",
        ("h", "s", "z"),
        weights=_scale(ml_dtypes.int4, 0.2),
        behind="DequantizeLinear",
        opset=21,
    ),
    Row(
        "TreeEnsembleRegressor",
        ("h",),
        domain="ai.onnx.ml",
        weights=lambda rng: {"": _tree(rng)},
        attributes={
            "post_transform": (None, "SOFTMAX"),
            "aggregate_function": (None, "AVERAGE", "MIN"),
        },
    ),
    Row(
        "TreeEnsembleClassifier",
        ("h",),
        made=("l", "p"),
        domain="ai.onnx.ml",
        weights=lambda rng: {"": _tree(rng, 3)},
        attributes={"post_transform": (None, "SOFTMAX", "LOGISTIC")},
    ),
    Row(
        "Scaler",
        ("h",),
        domain="ai.onnx.ml",
        weights=lambda rng: {
            "": {"offset": _normal(rng, 6).tolist(), "scale": rng.uniform(0.5, 2, 6).tolist()}
        },
    ),
    Row(
        "LinearRegressor",
        ("h",),
        domain="ai.onnx.ml",
        weights=lambda rng: {
            "": {
                "coefficients": _normal(rng, 12).tolist(),
                "intercepts": _normal(rng, 2).tolist(),
                "targets": 2,
            }
        },
    ),
    Row(
        "LinearClassifier",
        ("h",),
        made=("l", "p"),
        domain="ai.onnx.ml",
        weights=lambda rng: {
            "": {
                "coefficients": _normal(rng, 18).tolist(),
                "intercepts": _normal(rng, 3).tolist(),
                "classlabels_ints": [0, 1, 2],
            }
        },
        attributes={"post_transform": (None, "SOFTMAX", "LOGISTIC"), "multi_class": (1,)},
    ),
    Row("Normalizer", ("h",), domain="ai.onnx.ml", attributes={"norm": ("MAX", "L1", "L2")}),
    Row("Binarizer", ("h",), domain="ai.onnx.ml", attributes={"threshold": (0.1, -0.2, 0.4)}),
    Row(
        "LayerNormalization",
        ("h", "s"),
        weights=_arrays(s=(4, 6)),
        fixed={"axis": -2},
        shape=(3, 4, 6),
    ),
    Row("MatMul", ("h", "w"), (2, 3, 6), weights=_arrays(w=(6, 5))),
    Row("Erf", ("h",), ops=("Tanh", "Sigmoid")),
)
"""One row for each operator, or for a way in which it is used."""


class Node(NamedTuple):
    """A row with its values drawn."""

    row: Row
    op: str
    read: tuple[str, ...]
    made: tuple[str, ...]
    attributes: dict[str, Any]
    weights: dict[str, Any]
    before: str
    behind: dict[str, Any]
    """What the node behind has of its own."""


def model_of(node: Node) -> Any:
    """Return a model of a node, with others before and after it."""
    row = node.row
    index = node.before == "index"
    kind = TensorProto.INT64 if index else TensorProto.FLOAT
    shape = (4,) if index else row.shape
    data = [helper.make_tensor_value_info("x", kind, shape)]
    first = "Abs" if index else node.before
    nodes = [helper.make_node(first, ["x"], ["i" if index else "h"], "first")]
    if "e" in node.read:
        nodes.append(helper.make_node("Exp", ["h"], ["e"], "second"))
    if "m" in node.read:
        nodes += [
            helper.make_node("Constant", [], ["nine"], "nine", value_float=9.0),
            helper.make_node("Mul", ["h", "nine"], ["m"], "times"),
        ]
    if "q" in node.read:
        nodes.append(helper.make_node("QuantizeLinear", ["h", "as", "az"], ["q"], "quantize"))
    attributes = {name: value for name, value in node.attributes.items() if value is not None}
    read = list(node.read)
    nodes.append(
        helper.make_node(node.op, read, list(node.made), "node", domain=row.domain, **attributes)
    )
    outputs = []
    for at, name in enumerate(row.made if row.op not in ("LSTM", "GRU", "RNN") else row.made[1:]):
        inputs, more = [name], dict(node.behind)
        if row.behind == "DequantizeLinear":
            inputs, more = [name, "d", "z"], {k: v for k, v in attributes.items() if k == "axis"}
        nodes.append(helper.make_node(row.behind, inputs, [f"y{at}"], f"last{at}", **more))
        outputs.append(helper.make_empty_tensor_value_info(f"y{at}"))
    tensors = [_tensor(name, value) for name, value in node.weights.items() if name]
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes, "golden", data, outputs, [w for w in tensors if w.name in used]
    )
    imports = [helper.make_opsetid("", row.opset)]
    if row.domain:
        imports.append(helper.make_opsetid(row.domain, 1 if row.domain == "com.microsoft" else 3))
    model = helper.make_model(graph, opset_imports=imports)
    model.ir_version = 11 if row.opset >= 23 else 10
    return model


def _tensor(name: str, value: Any) -> Any:
    """Return an array as a named tensor of a model."""
    array = np.asarray(value)
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    plain = array.astype(np.float32) if array.dtype.kind == "V" else array
    return helper.make_tensor(name, kind, array.shape, plain.reshape(-1).tolist())
