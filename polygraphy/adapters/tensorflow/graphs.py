"""What is asked of a `tf.Graph` by several loaders: its inputs, its outputs, its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy.adapters.tensorflow.errors import translated_errors
from polygraphy.adapters.tensorflow.module import tensorflow_module
from polygraphy.domain.errors import DataTypeConversionException, ModelError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata

if TYPE_CHECKING:
    import tensorflow


# Tensors that come of no computation on the inputs.
_NOT_COMPUTED = {
    "Const",
    "NoOp",
    "Placeholder",
    "PlaceholderWithDefault",
    "ReadVariableOp",
    "VarHandleOp",
    "Variable",
    "VariableV2",
}
# What stands at the end of graphs for training, and is no result.
_SIDE_EFFECTS = {
    "Assert",
    "Assign",
    "AssignAdd",
    "AssignSub",
    "AssignVariableOp",
    "IsVariableInitialized",
    "MergeV2Checkpoints",
    "RestoreV2",
    "SaveV2",
    "ShardedFilename",
    "VarIsInitializedOp",
}
# The old control flow: where values enter loops and branches, and where they leave them.
_ENTRANCES = {"Enter": {"Exit"}, "Switch": {"Exit", "Merge"}}


def op_name(tensor: str) -> str:
    """Return the name of the operation that computes a tensor: ``x`` for ``x:0``."""
    return tensor.partition(":")[0]


def input_tensors(graph: tensorflow.Graph) -> list[Any]:
    """Return the placeholders, in the order of the graph."""
    return [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]


def computed_tensors(graph: tensorflow.Graph) -> list[str]:
    """Return the names of all tensors that can be fetched, but for inputs and constants."""
    unusable = _NOT_COMPUTED | _SIDE_EFFECTS
    conditional = _conditional_ops(graph)
    return [
        tensor.name
        for op in graph.get_operations()
        if op.type not in unusable and op.name not in conditional
        for tensor in op.outputs
        if _is_array(tensor) and graph.is_fetchable(tensor)
    ]


def _conditional_ops(graph: tensorflow.Graph) -> set[str]:
    """Return the names of the operations inside loops and branches of the old control flow: they
    run any number of times, and cannot be fetched.
    """
    inside: set[str] = set()
    for entrance, ends in _ENTRANCES.items():
        waiting = [op for op in graph.get_operations() if op.type == entrance]
        seen: set[str] = set()
        while waiting:
            op = waiting.pop()
            if op.name not in seen and op.type not in ends:
                seen.add(op.name)
                waiting.extend(user for tensor in op.outputs for user in tensor.consumers())
        inside |= seen
    return inside


def final_tensors(graph: tensorflow.Graph, ignored: Iterable[str] = ()) -> list[str]:
    """Return the names of the tensors that nothing in the graph uses: its outputs, as far as the
    graph tells.

    Args:
        ignored: names of operations that are no outputs.

    Raises:
        ModelError: there is none.
    """
    skipped = {"Const", "NoOp", "Placeholder", "PlaceholderWithDefault"} | _SIDE_EFFECTS
    ignored = set(ignored)
    names = [
        tensor.name
        for op in graph.get_operations()
        if op.type not in skipped
        and op.name not in ignored
        and not any(tensor.consumers() for tensor in op.outputs)
        for tensor in op.outputs
        if _is_array(tensor)
    ]
    if not names:
        raise ModelError(
            "The TensorFlow graph computes nothing that could be an output.",
            hint="Name tensors of it as outputs.",
        )
    return names


def _is_array(tensor: Any) -> bool:
    try:
        DataType.from_dtype(tensor.dtype, "tensorflow")
    except DataTypeConversionException:
        return False
    return True


def describe(tensors: Iterable[Any]) -> TensorMetadata:
    """Describe tensors by name, with our data types; a dimension that may vary is None."""
    metadata = TensorMetadata()
    for tensor in tensors:
        shape = None if tensor.shape.rank is None else tensor.shape.as_list()
        metadata.add(tensor.name, DataType.from_dtype(tensor.dtype, "tensorflow"), shape)
    return metadata


def graph_from_definition(definition: Any, source: object = "") -> tensorflow.Graph:
    """Return the graph that a `GraphDef` defines.

    Raises:
        ModelError: it is inconsistent.
        BackendError: it uses an operator that is not there.
    """
    tf = tensorflow_module()
    graph = tf.Graph()
    with graph.as_default(), translated_errors("load", source):
        tf.graph_util.import_graph_def(definition, name="")
    return graph


def pruned(definition: Any, kept: Sequence[str]) -> Any:
    """Return the part of a `GraphDef` on which some tensors depend, and its placeholders."""
    tf = tensorflow_module()
    inputs = [node.name for node in definition.node if node.op == "Placeholder"]
    names = list(dict.fromkeys([*inputs, *map(op_name, kept)]))
    return tf.compat.v1.graph_util.extract_sub_graph(definition, names)
