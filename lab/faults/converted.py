"""Models as libraries make them: trees, quantized, fused, and large ones; and their faults."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from .exported import EXPORTED, _attributes, _set
from .hosts import Net, bert, cnn, encoder
from .planting import KINDS, Plant, Planted, identity, one_of, replace

Make = Callable[[np.random.Generator], onnx.ModelProto]


def trees(rng: np.random.Generator) -> onnx.ModelProto:
    """Return a model with a scaler and boosted trees, as scikit-learn's converters write it."""
    features, count, depth, targets = 6, int(rng.integers(5, 15)), 4, int(rng.integers(1, 4))
    attributes: dict[str, list] = {
        key: []
        for key in ("treeids", "nodeids", "featureids", "values", "modes", "trues", "falses")
    }
    leaves: dict[str, list] = {key: [] for key in ("treeids", "nodeids", "ids", "weights")}
    inner = 2**depth - 1
    for tree in range(count):
        for node in range(2 * inner + 1):
            is_leaf = node >= inner
            attributes["treeids"].append(tree)
            attributes["nodeids"].append(node)
            attributes["featureids"].append(0 if is_leaf else int(rng.integers(features)))
            attributes["values"].append(0.0 if is_leaf else float(rng.normal() * 0.7))
            attributes["modes"].append("LEAF" if is_leaf else "BRANCH_LEQ")
            attributes["trues"].append(0 if is_leaf else 2 * node + 1)
            attributes["falses"].append(0 if is_leaf else 2 * node + 2)
            if is_leaf:
                leaves["treeids"].append(tree)
                leaves["nodeids"].append(node)
                leaves["ids"].append(int(rng.integers(targets)))
                leaves["weights"].append(float(rng.normal()))
    scaler = helper.make_node(
        "Scaler", ["X"], ["scaled"], "scaler", domain="ai.onnx.ml",
        offset=rng.normal(size=features).tolist(), scale=rng.uniform(0.5, 2, features).tolist(),
    )  # fmt: skip
    ensemble = helper.make_node(
        "TreeEnsembleRegressor", ["scaled"], ["raw"], "ensemble", domain="ai.onnx.ml",
        n_targets=targets, post_transform="NONE", aggregate_function="SUM",
        base_values=rng.normal(size=targets).tolist(),
        nodes_truenodeids=attributes["trues"], nodes_falsenodeids=attributes["falses"],
        **{f"nodes_{key}": attributes[key] for key in attributes if key not in ("trues", "falses")},
        **{f"target_{key}": leaves[key] for key in leaves},
    )  # fmt: skip
    last = helper.make_node("Sigmoid", ["raw"], ["y"], "probability")
    graph = helper.make_graph(
        [scaler, ensemble, last],
        "trees",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [32, features])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [32, targets])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _change_list(op: str, names: tuple[str, ...]) -> Plant:
    """Return a fault that changes some numbers in a list attribute of an operator."""

    def plant(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
        """Change elements of the list of a node; return the fault, or None without such a node."""
        node = one_of(rng, [node for node in model.graph.node if node.op_type == op])
        if node is None:
            return None
        name = str(rng.choice(names))
        values = np.array(_attributes(node)[name])
        at = rng.choice(len(values), max(1, len(values) // 8), replace=False)
        if values.dtype.kind == "f":
            values[at] = values[at] * -1.5 + 0.3
        else:
            values[at] = (values[at] + 1) % (values.max() + 1)
        _set(node, name, values.tolist())
        return Planted((identity(node),), ("attribute",))

    return plant


def rows(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
    """Shift the rows of an embedding by one; return the fault, or None without an embedding."""
    weights = {weight.name: weight for weight in model.graph.initializer}
    candidates = [
        (node, weights[node.input[0]])
        for node in model.graph.node
        if node.op_type == "Gather" and len(getattr(weights.get(node.input[0]), "dims", ())) == 2
    ]
    drawn = one_of(rng, candidates)
    if drawn is None:
        return None
    node, weight = drawn
    replace(weight, np.roll(numpy_helper.to_array(weight), 1, 0))
    return Planted((identity(node),), ("weight",))


def _net(build: Callable, rng: np.random.Generator) -> onnx.ModelProto:
    """Return a random model that a function builds."""
    net = Net(int(rng.integers(2**31)), opset=17)
    return net.model(build(net, lambda _, tensor: tensor, rng.random()))


def quantized_by_library(rng: np.random.Generator) -> onnx.ModelProto:
    """Return a model quantized by ONNX Runtime, with ranges from the data."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "before.onnx"), Path(folder, "after.onnx")
        onnx.save(_net(encoder, rng), before)
        quantize_dynamic(before, after, weight_type=QuantType.QInt8)
        return onnx.load(after)


def fused_network(rng: np.random.Generator) -> onnx.ModelProto:
    """Return a network that ONNX Runtime has optimized, with its own operators."""
    model = _net([encoder, cnn][int(rng.integers(2))], rng)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder, "fused.onnx"))
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return onnx.load(options.optimized_model_filepath)


def _integers(change: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Plant:
    """Return a fault that changes a quantized weight."""

    def plant(model: onnx.ModelProto, rng: np.random.Generator) -> Planted | None:
        """Change a quantized weight; return the fault, or None without such a weight."""
        candidates = [
            (weight, [node for node in model.graph.node if weight.name in node.input])
            for weight in model.graph.initializer
            if weight.data_type in (2, 3) and len(weight.dims) == 2
        ]
        drawn = one_of(rng, candidates)
        if drawn is None:
            return None
        weight, readers = drawn
        replace(weight, change(numpy_helper.to_array(weight).copy(), rng))
        return Planted(tuple(map(identity, readers)), ("weight", "quantization"))

    return plant


def _columns(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an array with two columns exchanged."""
    return np.roll(array, 1, 1)


def _rows(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an array with two rows exchanged."""
    first, second = rng.choice(len(array), 2, replace=False)
    array[[first, second]] = array[[second, first]]
    return array


def _element(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an array with one element of a different sign and size."""
    at = int(rng.integers(array.size))
    array.flat[at] = 100 if array.flat[at] < 0 else -100
    return array


def large(rng: np.random.Generator) -> onnx.ModelProto:
    """Return a perceptron of 8 to 300 MB."""
    megabytes = float(rng.choice([9, 16, 33, 70, 150, 300]))
    width = int(np.sqrt(megabytes * 2**20 / 4 / 3))
    net = Net(int(rng.integers(2**31)))
    trunk = net.input("x", (2, width))
    for _ in range(3):
        output = net.node("MatMul", trunk, net.weight(width, width, gain=1.3))
        bias = net.constant(net.rng.standard_normal(width) * 0.1)
        trunk = net.same("Tanh", net.shaped(net.node("Add", output, bias), (2, width)))
    output = net.node(
        "Gemm", trunk, net.weight(width, 10, fan_in=width, gain=2), net.weight(10, fan_in=4)
    )
    return net.model(net.shaped(output, (2, 10)))


_TREES = "TreeEnsembleRegressor"
_ALL = {**KINDS, **EXPORTED}
CONVERTED: dict[str, tuple[Make, Plant]] = {
    "trees: leaves": (trees, _change_list(_TREES, ("target_weights", "target_ids"))),
    "trees: thresholds": (trees, _change_list(_TREES, ("nodes_values", "nodes_featureids"))),
    "trees: scaler": (trees, _change_list("Scaler", ("offset", "scale"))),
    "embedding: rows shifted": (lambda rng: _net(bert, rng), rows),
    "quantized by a library: columns": (quantized_by_library, _integers(_columns)),
    "quantized by a library: rows": (quantized_by_library, _integers(_rows)),
    "quantized by a library: integer": (quantized_by_library, _integers(_element)),
    "quantized by a library: number": (quantized_by_library, _ALL["number"]),
    "quantized by a library: another operator": (quantized_by_library, _ALL["another operator"]),
    "fused by a library: element": (fused_network, _ALL["element"]),
    "fused by a library: switch": (fused_network, _ALL["attribute"]),
    "fused by a library: channels": (fused_network, _ALL["channels"]),
    "large: element": (large, _ALL["element"]),
    "large: another operator": (large, _ALL["another operator"]),
    "large: channels": (large, _ALL["channels"]),
}  # fmt: skip
