"""Corrects data types and shapes that a graph declares for tensors, and that its nodes contradict:
backends refuse such a model, or trust the declaration.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from polygraphy.adapters.onnx.graph.growth import check_expansion
from polygraphy.adapters.onnx.storage.weights import OnnxDataTypes, without_large_weights
from polygraphy.adapters.onnx_common import inference
from polygraphy.adapters.onnx_common.messages import copy_of, graphs_of, shape_of
from polygraphy.domain.tensors.naming import list_some
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TypeProto, ValueInfoProto

_TYPES = OnnxDataTypes()


def correct_declared_types(model: ModelProto) -> list[str]:
    """Correct, in place, the declared types in a model that contradict those inferred from its
    inputs, weights and operators; return the names of the tensors.

    Returns:
        The names of the tensors.
    """
    corrected = []
    types_of_weights = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    for value, _, _ in mistyped_weights(model.graph):
        value.type.tensor_type.elem_type = types_of_weights[value.name]
        corrected.append(value.name)
    bare = copy_of(without_large_weights(model))
    for graph in _graphs(bare.graph):
        del graph.value_info[:]
        for value in graph.output:
            if graph is bare.graph and value.type.WhichOneof("value") not in ("tensor_type", None):
                continue
            value.ClearField("type")
    try:
        check_expansion(bare)
        inferred = inference.infer_shapes(bare)
    except Exception:
        # Without inferred types, the model can still be used. Inference fails for large models, and
        # raises errors of its own and of protobuf.
        return corrected
    for declared, known_graph in zip(_graphs(model.graph), _graphs(inferred.graph)):
        types = {value.name: value.type for value in (*known_graph.value_info, *known_graph.output)}
        for value in (*declared.value_info, *declared.output):
            kind = types.get(value.name)
            if kind is not None and _contradicts(value.type, kind):
                value.type.CopyFrom(kind)
                corrected.append(value.name)
    if corrected:
        names = list_some(list(dict.fromkeys(corrected)))
        G_LOGGER.warning(f"The graph declares types that its nodes contradict; corrected: {names}")
    return corrected


def mistyped_weights(graph: GraphProto) -> Iterator[tuple[ValueInfoProto, str, str]]:
    """Yield each input of a graph with a weight of another data type than declared, and the
    declared and the actual type."""
    weights = {tensor.name: _TYPES.from_native(tensor.data_type) for tensor in graph.initializer}
    for value in graph.input:
        actual = weights.get(value.name)
        declared = _TYPES.from_native(value.type.tensor_type.elem_type)
        if actual is not None and declared is not None and actual is not declared:
            yield value, declared.name, actual.name


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and all its subgraphs."""
    yield graph
    for node in graph.node:
        for inner in graphs_of(node):
            yield from _graphs(inner)


def kind_of(described: TypeProto) -> str:
    """Return what a type describes, as in ``sequence of tensors``; empty if that is unknown."""
    field = str(described.WhichOneof("value") or "")
    kind = field.removesuffix("_type").replace("_", " ")
    if field not in ("sequence_type", "optional_type"):
        return kind
    inner = kind_of(getattr(described, field).elem_type)
    return f"{kind} of {inner}s" if inner else ""


def _contradicts(declared: TypeProto, inferred: TypeProto) -> bool:
    """Return whether a declared type contradicts the inferred one."""
    kinds = [kind_of(type_proto) for type_proto in (declared, inferred)]
    if "" not in kinds and kinds[0] != kinds[1]:
        return True
    for field in ("sequence_type", "optional_type"):
        if declared.HasField(field) and inferred.HasField(field):
            types = [getattr(type_proto, field).elem_type for type_proto in (declared, inferred)]
            return _contradicts(*types)
    if not (declared.HasField("tensor_type") and inferred.HasField("tensor_type")):
        return False
    numbers = declared.tensor_type.elem_type, inferred.tensor_type.elem_type
    if all(numbers) and numbers[0] != numbers[1]:
        return True
    shapes: list[Any] = [shape_of(type_proto.tensor_type) for type_proto in (declared, inferred)]
    if None in shapes:
        return False
    return len(shapes[0]) != len(shapes[1]) or any(
        isinstance(own_dim, int) and isinstance(known_dim, int) and own_dim != known_dim
        for own_dim, known_dim in zip(*shapes)
    )
