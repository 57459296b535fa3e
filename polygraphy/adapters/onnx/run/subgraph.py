"""Takes an ONNX model apart: some of its nodes as a model of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.graph.shapes import inferred_value_infos, value_infos
from polygraphy.adapters.onnx.storage.saving import SaveOnnx
from polygraphy.adapters.onnx.storage.weights import copy_fields
from polygraphy.adapters.onnx_common.messages import used_by, weight_names
from polygraphy.domain.checks.capability import ModelNode

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto


onnx = mod.lazy_import("onnx")


class OnnxModelParts:
    """Implements the port `ModelParts`."""

    def nodes(self, model: ModelProto) -> list[ModelNode]:
        return [ModelNode(node.op_type, node.name) for node in model.graph.node]

    def extract(self, model: ModelProto, nodes: Sequence[int]) -> ModelProto:
        return extract_nodes(model, nodes)

    def save(self, model: ModelProto, path: str, **options: Any) -> None:
        SaveOnnx(model, path, **options).call_impl()


def extract_nodes(model: ModelProto, positions: Iterable[int]) -> ModelProto:
    """Return a model of some of the nodes of a graph, in the order of the graph.

    Its inputs are the tensors that they read and none of them makes; its outputs are those that
    they make and that the rest of the graph, or its outputs, need. Weights that they use come
    along.
    The type of an input or output is left out where the model does not tell it.

    Args:
        model: stays as it is.
        positions: of the nodes.
    """
    graph = model.graph
    chosen = sorted(set(positions))
    nodes = [graph.node[position] for position in chosen]
    others = [node for index, node in enumerate(graph.node) if index not in set(chosen)]
    made = dict.fromkeys(name for node in nodes for name in node.output if name)
    read = dict.fromkeys(name for node in nodes for name in used_by(node))
    needed = {name for node in others for name in used_by(node)}
    needed |= {value.name for value in graph.output}
    weights = weight_names(graph)
    known = _types(model)

    extracted: ModelProto = onnx.ModelProto()
    copy_frame(model, extracted)
    extracted.graph.name = graph.name
    extracted.graph.node.extend(nodes)
    extracted.graph.input.extend(
        _value(name, known) for name in read if name not in made and name not in weights
    )
    outputs = [name for name in made if name in needed] or list(made)
    extracted.graph.output.extend(_value(name, known) for name in outputs)
    extracted.graph.initializer.extend(one for one in graph.initializer if one.name in read)
    extracted.graph.sparse_initializer.extend(
        one for one in graph.sparse_initializer if one.values.name in read
    )
    inner = [known[name] for name in made if name in known and name not in needed]
    extracted.graph.value_info.extend(inner)
    return extracted


def _types(model: ModelProto) -> dict[str, ValueInfoProto]:
    """Return what is known about the types of tensors; what the model itself says comes first."""
    return {**inferred_value_infos(model), **value_infos(model)}


def copy_frame(model: ModelProto, target: ModelProto) -> None:
    """Copy what is around a graph: versions, functions, metadata."""
    copy_fields(model, target, "graph")


def _value(name: str, known: dict[str, ValueInfoProto]) -> ValueInfoProto:
    return known[name] if name in known else onnx.ValueInfoProto(name=name)
