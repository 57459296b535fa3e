"""Describes TensorFlow graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import constants
from polygraphy.adapters.tensorflow.checkpoint import graph_from_ckpt
from polygraphy.adapters.tensorflow.frozen import graph_from_frozen
from polygraphy.adapters.tensorflow.graphs import input_tensors
from polygraphy.adapters.tensorflow.keras import graph_from_keras
from polygraphy.adapters.tensorflow.module import tensorflow_module
from polygraphy.adapters.tensorflow.optimizing import optimize_graph
from polygraphy.adapters.tensorflow.outputs import modify_graph_outputs
from polygraphy.adapters.tensorflow.saved_model import graph_from_saved_model
from polygraphy.domain.model import Attribute, Detail, Graph, ModelSource, Node, Tensor, Weight
from polygraphy.domain.model.description import TensorFlowGraph

if TYPE_CHECKING:
    from polygraphy.adapters.tensorflow.module import GraphAndOutputs


_LOADERS: dict[str, Callable[[ModelSource], GraphAndOutputs]] = {
    "frozen": lambda source: graph_from_frozen(source.path),
    "keras": lambda source: graph_from_keras(source.path),
    "saved-model": lambda source: graph_from_saved_model(source.path),
    "ckpt": lambda source: graph_from_ckpt(source.path, source.checkpoint),
}
_NO_LAYERS = ("Const", "Placeholder")


class TensorFlowModelReader:
    """Reads models of TensorFlow; implements the port `ModelReader`."""

    def read(self, source: ModelSource, detail: Detail) -> TensorFlowGraph:
        """Describe the graph of a model.

        Raises:
            FileError: the file or folder is missing.
            ModelError: it is no model of its type.
            UnknownNameError: it has no such checkpoint or tensor.
        """
        graph, outputs = _LOADERS[source.kind](source)
        if source.outputs:
            wanted = constants.MARK_ALL if "*" in source.outputs else source.outputs
            graph, outputs = modify_graph_outputs((graph, outputs), wanted)
        if source.optimizes:
            graph, outputs = optimize_graph((graph, outputs))
        described = describe_graph(graph, outputs, Path(source.path).name, detail)
        return TensorFlowGraph(path=source.path, kind=source.kind, graph=described)


def describe_graph(graph: Any, outputs: Iterable[str], name: str, detail: Detail) -> Graph:
    """Describe a `tensorflow.Graph`, given the names of its outputs."""
    operations = graph.get_operations()
    nodes = [op for op in operations if op.type not in _NO_LAYERS]
    return Graph(
        name=name,
        inputs=tuple(map(_tensor, input_tensors(graph))),
        outputs=tuple(_tensor(graph.get_tensor_by_name(output)) for output in outputs),
        weights=tuple(_weight(op, detail) for op in operations if op.type == "Const"),
        node_count=len(nodes),
        nodes=tuple(_node(op, detail) for op in nodes) if detail.layers else (),
        tensors={
            tensor.name: _tensor(tensor)
            for op in operations
            if detail.layers and op.type != "Const"
            for tensor in op.outputs
        },
    )


def _tensor(tensor: Any) -> Tensor:
    shape = None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
    return Tensor(tensor.name, tensor.dtype.name, shape)


def _weight(op: Any, detail: Detail) -> Weight:
    tensor = op.outputs[0]
    shape = tuple(tensor.shape.as_list())
    count = tensor.shape.num_elements()
    size = 0 if tensor.dtype.name == "string" else tensor.dtype.size * count
    values = tensorflow_module().make_ndarray(op.get_attr("value")) if detail.weights else None
    return Weight(tensor.name, tensor.dtype.name, shape, int(size), values=values)


def _node(op: Any, detail: Detail) -> Node:
    return Node(
        name=op.name,
        op=op.type,
        inputs=tuple(tensor.name for tensor in op.inputs),
        outputs=tuple(tensor.name for tensor in op.outputs),
        attributes=tuple(_attributes(op)) if detail.attrs else (),
    )


def _attributes(op: Any) -> Iterator[Attribute]:
    """Yield the attributes, but for notes of TensorFlow to itself, which begin with ``_``."""
    for name, value in sorted(op.node_def.attr.items()):
        if not name.startswith("_"):
            kind = value.WhichOneof("value")
            if kind == "list":
                field = next((field for field, found in value.list.ListFields()), None)
                items = getattr(value.list, field.name) if field is not None else ()
                parts = tuple(_plain(field.name, item)[1] for item in items) if field else ()
                yield Attribute(name, "strings" if _are_texts(parts) else "ints", parts)
            elif kind is not None:
                yield Attribute(name, *_plain(kind, getattr(value, kind)))


def _are_texts(values: tuple[Any, ...]) -> bool:
    return any(isinstance(value, str) for value in values)


def _plain(kind: str, value: Any) -> tuple[str, Any]:
    """Return the kind of an attribute as descriptions call it, and its value."""
    tf = tensorflow_module()
    if kind == "type":
        return "dtype", tf.as_dtype(value).name
    if kind == "shape":
        shape = tf.TensorShape(value)
        return "string" if shape.rank is None else "ints", (
            "unknown" if shape.rank is None else tuple(-1 if d is None else d for d in shape)
        )
    if kind == "s":
        return "string", value.decode("utf-8", "backslashreplace")
    if kind in ("i", "b"):
        return "int", int(value)
    if kind == "f":
        return "float", float(value)
    if kind == "func":
        return "string", value.name
    return "string", str(value).strip()
