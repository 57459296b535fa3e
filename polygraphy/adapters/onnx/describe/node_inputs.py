"""What a node of a model is given, for the message of a backend that fails at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.graph.shape_proofs import values_of
from polygraphy.adapters.onnx.graph.value_infos import set_input_shapes, shape_of
from polygraphy.adapters.onnx.storage.weights import all_graphs
from polygraphy.adapters.onnx_common.messages import copy_of
from polygraphy.domain.tensors.naming import one_line
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, ValueInfoProto


onnx = mod.lazy_import("onnx")
shape_inference = mod.lazy_import("onnx.shape_inference")

_LARGEST_BYTES = 1 << 28
"""Shapes of larger models are not inferred for the sake of a message."""


def node_inputs(model: Any, op: str, name: str, shapes: Mapping[str, Sequence[int]]) -> str:
    """Return the opset and the inputs of a node, with their data types and shapes as far as they
    can be inferred; empty where the node is not found, or it could be any of several.

    Args:
        model: a model, its bytes, or its path.
        op: the operator.
        name: the name of the node; may be empty.
        shapes: those of the inputs of the model, where they are known.
    """
    try:
        loaded = _loaded(model)
        if loaded is None:
            return ""
        _fix(loaded.graph, shapes)
        inferred = shape_inference.infer_shapes(loaded, data_prop=True)
    except Exception as error:  # The backend has said what is wrong; this is an extra.
        G_LOGGER.verbose(f"Shapes could not be inferred: {error}")
        return ""
    graphs = list(all_graphs(inferred.graph))
    found = [
        node for graph in graphs for node in graph.node if node.op_type == op and node.name == name
    ]
    if len(found) != 1:
        return ""
    (node,) = found
    known = {value.name: _described(value) for graph in graphs for value in values_of(graph)}
    for graph in graphs:
        known.update(
            (tensor.name, _typed(tensor.data_type, tensor.dims)) for tensor in graph.initializer
        )
    opsets = {entry.domain: entry.version for entry in inferred.opset_import}
    inputs = [
        f"{entry} {known[entry]}" if entry in known else entry for entry in node.input if entry
    ]
    opset = opsets.get(node.domain, "?")
    return one_line(f"{op} of opset {opset} on {', '.join(inputs) or 'nothing'}")


def _loaded(model: Any) -> ModelProto | None:
    if isinstance(model, (str, Path)):
        if Path(model).stat().st_size > _LARGEST_BYTES:
            return None
        return onnx.load(str(model), load_external_data=False)  # type: ignore[no-any-return]
    if isinstance(model, bytes):
        return onnx.load_model_from_string(model) if len(model) <= _LARGEST_BYTES else None
    copied: ModelProto = copy_of(model)
    return copied


def _fix(graph: GraphProto, shapes: Mapping[str, Sequence[int]]) -> None:
    """Give inputs the shapes of the data, and forget what was stated for other shapes."""
    set_input_shapes(graph, shapes)
    if shapes:
        del graph.value_info[:]
        for value in graph.output:
            value.type.tensor_type.ClearField("shape")


def _described(value: ValueInfoProto) -> str:
    shape = shape_of(value)
    known = shape and ["?" if dim is None else dim for dim in shape]
    return _typed(value.type.tensor_type.elem_type, known)


def _typed(kind: int, shape: Sequence[Any] | None) -> str:
    name = onnx.TensorProto.DataType.Name(kind).lower()
    name = "float32" if name == "float" else name
    return name if shape is None else f"{name}[{','.join(map(str, shape))}]"
