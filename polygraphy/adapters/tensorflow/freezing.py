"""Turns functions and sessions with variables into graphs without: every loader ends here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polygraphy.adapters.tensorflow.graphs import graph_from_definition, op_name, pruned
from polygraphy.adapters.tensorflow.module import tensorflow_module

if TYPE_CHECKING:
    from polygraphy.adapters.tensorflow.module import GraphAndOutputs


def frozen_function(function: Any, names: Mapping[str, str] | None = None) -> GraphAndOutputs:
    """Return the graph of a concrete function, its variables turned into constants.

    Args:
        function: a `ConcreteFunction`.
        names: what outputs are to be called, by the tensor that the function returns; the tensor's
            own name where there is none, or where it is taken.
    """
    # The one way to freeze a function; every converter imports it from here.
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    # While and If stay what they are: their lowered forms cannot be fetched, nor converted.
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
    definition = pruned(graph.as_graph_def(), outputs)
    return graph_from_definition(definition), outputs


def _has_op(graph: Any, name: str) -> bool:
    return any(op.name == name for op in graph.get_operations())


def frozen_session(session: Any, outputs: Sequence[str]) -> GraphAndOutputs:
    """Return the graph of a session as far as some outputs need it, its variables turned into
    constants.
    """
    v1 = tensorflow_module().compat.v1
    definition = session.graph.as_graph_def()
    inputs = [node.name for node in definition.node if node.op == "Placeholder"]
    kept = [name for name in map(op_name, outputs) if name not in inputs]
    constant = v1.graph_util.convert_variables_to_constants(session, definition, kept)
    # It keeps what the outputs need only; inputs that they do not need are inputs all the same.
    found = {node.name for node in constant.node}
    constant.node.extend(
        node for node in definition.node if node.name in inputs and node.name not in found
    )
    return graph_from_definition(constant), list(outputs)
