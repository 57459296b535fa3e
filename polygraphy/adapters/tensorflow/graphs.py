"""Inputs, outputs and tensors of a `tf.Graph`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import constants, mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.tensorflow.module import tensorflow_module, translate_errors
from polygraphy.domain.errors import DataTypeConversionException, ModelError, UsageError
from polygraphy.domain.tensors.datatype import DataType
from polygraphy.domain.tensors.metadata import TensorMetadata
from polygraphy.domain.tensors.naming import select_names
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    import tensorflow

    from polygraphy.adapters.tensorflow.module import GraphAndOutputs


# Tensors that do not depend on the inputs.
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
# Operations without a result, at the end of graphs for training.
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
# Version 1 of TensorFlow's control flow: operations that enter loops and branches, and those that
# leave them.
_ENTRANCES = {"Enter": {"Exit"}, "Switch": {"Exit", "Merge"}}


def op_name(tensor: str) -> str:
    """Return the name of the operation that computes a tensor: ``x`` for ``x:0``."""
    return tensor.partition(":")[0]


def input_tensors(graph: tensorflow.Graph) -> list[Any]:
    """Return the placeholders, in the order of the graph."""
    return [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]


def tensor_names(graph: tensorflow.Graph) -> list[str]:
    """Return the names of all tensors that can be fetched, except inputs and constants."""
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
    """Return the names of the operations inside loops and branches of TensorFlow 1 control flow,
    which run any number of times and cannot be fetched."""
    inside: set[str] = set()
    for entrance, ends in _ENTRANCES.items():
        waiting = [op for op in graph.get_operations() if op.type == entrance]
        seen_names: set[str] = set()
        while waiting:
            op = waiting.pop()
            if op.name not in seen_names and op.type not in ends:
                seen_names.add(op.name)
                waiting.extend(user for tensor in op.outputs for user in tensor.consumers())
        inside |= seen_names
    return inside


def final_tensors(graph: tensorflow.Graph, ignored: Iterable[str] = ()) -> list[str]:
    """Return the names of tensors that no operation reads: the outputs, as far as the graph shows.

    Args:
        ignored: names of operations that are not outputs.

    Raises:
        ModelError: there are no such tensors.
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
            "The TensorFlow graph has no outputs.",
            hint="Choose tensors as outputs.",
        )
    return names


def _is_array(tensor: Any) -> bool:
    """Return whether the elements of a tensor have a known data type."""
    try:
        DataType.from_dtype(tensor.dtype, "tensorflow")
    except DataTypeConversionException:
        return False
    return True


def describe(tensors: Iterable[Any]) -> TensorMetadata:
    """Return data types and shapes of tensors by name; a dynamic dimension is None."""
    metadata = TensorMetadata()
    for tensor in tensors:
        shape = None if tensor.shape.rank is None else tensor.shape.as_list()
        metadata.add(tensor.name, DataType.from_dtype(tensor.dtype, "tensorflow"), shape)
    return metadata


def graph_from_definition(definition: Any, source: object = "") -> tensorflow.Graph:
    """Return the graph that a `GraphDef` defines.

    Raises:
        ModelError: it is inconsistent.
        BackendError: it uses an operator that this TensorFlow does not have.
    """
    tf = tensorflow_module()
    graph = tf.Graph()
    with graph.as_default(), translate_errors("load", source):
        tf.graph_util.import_graph_def(definition, name="")
    return graph


def prune_graph(definition: Any, kept_names: Sequence[str]) -> Any:
    """Return the part of a `GraphDef` that some tensors depend on, and its placeholders."""
    tf = tensorflow_module()
    inputs = [node.name for node in definition.node if node.op == "Placeholder"]
    names = list(dict.fromkeys([*inputs, *map(op_name, kept_names)]))
    return tf.compat.v1.graph_util.extract_sub_graph(definition, names)


modify_graph_outputs: Callable[..., GraphAndOutputs]


@mod.export(funcify=True)
class ModifyGraphOutputs(BaseLoader):
    """Sets the outputs of a TensorFlow graph."""

    def __init__(
        self, graph: Deferred[GraphAndOutputs], outputs: Sequence[str] | str | None = None
    ) -> None:
        """Set the graph and its new outputs.

        Args:
            graph: a graph and the names of its outputs, or a loader that returns them.
            outputs: names of tensors such as ``relu:0``, names of operations for their first
                tensor, or patterns of `fnmatch`; `constants.MARK_ALL` for every tensor that can be
                fetched, except inputs and constants (default: the outputs of the graph).
        """
        self._graph = graph
        self._outputs = outputs

    def call_impl(self) -> GraphAndOutputs:
        """Return the same graph, and the names of the outputs in the order of the graph.

        Raises:
            UnknownNameError: a name matches no tensor of the graph.
            UsageError: no tensor of the graph can be an output.
        """
        graph, outputs = evaluate(self._graph)
        if self._outputs is None:
            return graph, outputs
        computed = tensor_names(graph)
        if self._outputs == constants.MARK_ALL:
            chosen = set(computed)
        else:
            names = [tensor.name for op in graph.get_operations() for tensor in op.outputs]
            words = [self._outputs] if isinstance(self._outputs, str) else self._outputs
            qualified = [f"{word}:0" if f"{word}:0" in names else word for word in words]
            chosen = select_names(qualified, names, unless=set(names) - set(computed))
            computed = names
        if not chosen:
            raise UsageError("No tensor of the TensorFlow graph can be an output.")
        outputs = [name for name in computed if name in chosen]
        G_LOGGER.verbose(f"Outputs of the TensorFlow graph: {outputs}")
        return graph, outputs


_HANDING_ON = {"CheckNumerics", "Identity", "PreventGradient", "StopGradient"}


def without_passthroughs(definition: Any, kept_names: Collection[str]) -> Any:
    """Return a copy of a `GraphDef` in which consumers of operations that only pass on their input
    read that input directly.

    An operation is kept if its name is in `kept_names`, or if control dependencies require it.
    """
    waited_for = {name[1:] for node in definition.node for name in node.input if name[0] == "^"}
    sources = {
        node.name: node.input[0]
        for node in definition.node
        if node.op in _HANDING_ON
        and len(node.input) == 1
        and node.name not in waited_for
        and node.name not in kept_names
    }
    shorter = type(definition)()
    shorter.CopyFrom(definition)
    del shorter.node[:]
    for node in definition.node:
        if node.name in sources:
            continue
        copied = shorter.node.add()
        copied.CopyFrom(node)
        copied.input[:] = [_origin(name, sources) for name in node.input]
        # A request to run on the same device as a removed operation.
        locations = copied.attr["_class"].list.s if "_class" in copied.attr else ()
        if any(location.decode().removeprefix("loc:@") in sources for location in locations):
            del copied.attr["_class"]
    return shorter


def without_control_dependencies(definition: Any) -> Any:
    """Return a copy of a `GraphDef` without control dependencies,
    which has the same results if no operation has a state or a side effect."""
    shorter = type(definition)()
    shorter.CopyFrom(definition)
    for node in shorter.node:
        node.input[:] = [name for name in node.input if not name.startswith("^")]
    return shorter


def _origin(name: str, sources: dict[str, str]) -> str:
    """Return the name of the tensor that an input (``x`` or ``x:0``) comes from, following
    `sources`.
    """
    while (operation := name.removesuffix(":0")) in sources:
        name = sources[operation]
    return name


optimize_graph: Callable[..., GraphAndOutputs]


@mod.export(funcify=True)
class OptimizeGraph(BaseLoader):
    """Freezes a TensorFlow graph, and removes nodes that its outputs do not need."""

    def __init__(self, graph: Deferred[GraphAndOutputs]) -> None:
        """Create a loader that optimizes a graph with its output names, or those from a loader."""
        self._graph = graph

    def call_impl(self) -> GraphAndOutputs:
        """Return the optimized graph, with the same inputs and outputs.

        It has no variables, no operations without an effect on outputs, and no operations that
        return their input unchanged for training or a check (`Identity`, `StopGradient`,
        `CheckNumerics`).

        Raises:
            BackendError: variables without values cannot be frozen.
        """
        graph, outputs = evaluate(self._graph)
        v1 = tensorflow_module().compat.v1
        names = [op_name(name) for name in outputs]
        definition = graph.as_graph_def()
        with graph.as_default(), translate_errors("freeze"), v1.Session(graph=graph) as session:
            inputs = {node.name for node in definition.node if node.op == "Placeholder"}
            if any(
                node.op in ("VarHandleOp", "VariableV2", "Variable") for node in definition.node
            ):
                kept_names = [name for name in names if name not in inputs]
                definition = v1.graph_util.convert_variables_to_constants(
                    session, definition, kept_names
                )
            definition = prune_graph(definition, outputs)
        if not any(
            op.op_def.is_stateful for op in graph_from_definition(definition).get_operations()
        ):
            definition = prune_graph(without_control_dependencies(definition), outputs)
        definition = without_passthroughs(definition, names)
        before = len(graph.get_operations())
        G_LOGGER.info(
            f"Optimized the TensorFlow graph: {len(definition.node)} operations, {before} before"
        )
        return graph_from_definition(definition), list(outputs)


def freeze_function(function: Any, names: Mapping[str, str] | None = None) -> GraphAndOutputs:
    """Return the graph of a concrete function, with its variables as constants.

    Args:
        function: a `ConcreteFunction`.
        names: the names of the outputs, by tensor of the function; without a free name, an output
            has the name of its tensor.
    """
    # A private module, but the only way to freeze a function; all converters use it.
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    # Keep While and If, because their lowered forms can be neither fetched nor converted.
    frozen = convert_variables_to_constants_v2(function, lower_control_flow=False)
    definition = frozen.graph.as_graph_def()
    returned = [tensor.name for tensor in frozen.outputs]
    graph = graph_from_definition(definition)
    tf = tensorflow_module()
    outputs = []
    with graph.as_default():
        for position, name in enumerate(returned):
            wanted = (names or {}).get(function.outputs[position].name)
            is_free = wanted is not None and not _has_op(graph, wanted)
            tensor = graph.get_tensor_by_name(name)
            outputs.append(tf.identity(tensor, name=wanted).name if is_free else name)
    definition = prune_graph(graph.as_graph_def(), outputs)
    return graph_from_definition(definition), outputs


def _has_op(graph: Any, name: str) -> bool:
    """Return whether a graph has an operation of this name."""
    return any(op.name == name for op in graph.get_operations())


def freeze_session(session: Any, outputs: Sequence[str]) -> GraphAndOutputs:
    """Return the part of a session's graph that some outputs need,
    with its variables as constants."""
    v1 = tensorflow_module().compat.v1
    definition = session.graph.as_graph_def()
    inputs = [node.name for node in definition.node if node.op == "Placeholder"]
    kept_names = [name for name in map(op_name, outputs) if name not in inputs]
    constant = v1.graph_util.convert_variables_to_constants(session, definition, kept_names)
    # TensorFlow keeps only nodes that the outputs depend on; add the unused inputs again.
    names = {node.name for node in constant.node}
    constant.node.extend(
        node for node in definition.node if node.name in inputs and node.name not in names
    )
    return graph_from_definition(constant), list(outputs)
