"""Devices that run a model together, imitated one node at a time: what TensorRT's collective
operations would exchange between GPUs is exchanged between NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

__all__ = ["run_together"]

Arrays = dict[str, Any]
_REDUCTIONS = {
    "sum": sum,
    "prod": lambda parts: np.prod(parts, axis=0),
    "min": lambda parts: np.min(parts, axis=0),
    "max": lambda parts: np.max(parts, axis=0),
    "avg": lambda parts: sum(parts) / len(parts),
}


def run_together(models: Sequence[ModelProto], feed: Mapping[str, Any]) -> list[Arrays]:
    """Return the outputs of each device, all with the same inputs."""
    known: list[Arrays] = []
    for model in models:
        weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        known.append({**weights, **feed})
    orders = [list(model.graph.node) for model in models]
    for nodes in zip(*orders):
        if nodes[0].op_type == "DistCollective":
            _exchange(nodes, known)
        else:
            for model, node, values in zip(models, nodes, known):
                _compute(model, node, values)
    return [
        {value.name: values[value.name] for value in model.graph.output}
        for model, values in zip(models, known)
    ]


def _exchange(nodes: Sequence[NodeProto], known: Sequence[Arrays]) -> None:
    """Run a collective operation, and store its results in the values of each device."""
    attributes = {one.name: helper.get_attribute_value(one) for one in nodes[0].attribute}
    operation = attributes["collective_operation"].decode()
    count = len(nodes)
    assert attributes["nb_rank"] == count
    parts = [values[node.input[0]] for node, values in zip(nodes, known)]
    if operation == "all_gather":
        made = [np.concatenate(parts, axis=0)] * count
    else:
        reduced = _REDUCTIONS[attributes["reduce_op"].decode()](parts)
        made = [reduced] * count if operation == "all_reduce" else np.split(reduced, count, axis=0)
    for node, values, one in zip(nodes, known, made):
        values[node.output[0]] = one


def _compute(model: ModelProto, node: NodeProto, values: Arrays) -> None:
    """Run a node, and add its outputs to the values."""
    names = [name for name in node.input if name]
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_empty_tensor_value_info(name) for name in dict.fromkeys(names)],
        [helper.make_empty_tensor_value_info(name) for name in node.output],
    )
    single = helper.make_model(graph, opset_imports=model.opset_import)
    results = ReferenceEvaluator(single).run(None, {name: values[name] for name in names})
    values.update(zip(node.output, results))
