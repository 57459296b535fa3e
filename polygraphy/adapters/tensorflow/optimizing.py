"""Makes graphs smaller without changing what they compute."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.tensorflow.errors import translated_errors
from polygraphy.adapters.tensorflow.graphs import graph_from_definition, op_name, pruned
from polygraphy.adapters.tensorflow.module import tensorflow_module
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.adapters.tensorflow.module import GraphAndOutputs

_HANDING_ON = {"CheckNumerics", "Identity", "PreventGradient", "StopGradient"}


def without_passthroughs(definition: Any, kept: Collection[str]) -> Any:
    """Return a copy of a `GraphDef` in which a consumer of an operation that hands on its input
    reads that input.

    An operation stays if its name is among the `kept`, or if it, or another because of it, waits
    for an operation whose result it does not read.
    """
    waited_for = {name[1:] for node in definition.node for name in node.input if name[0] == "^"}
    sources = {
        node.name: node.input[0]
        for node in definition.node
        if node.op in _HANDING_ON
        and len(node.input) == 1
        and node.name not in waited_for
        and node.name not in kept
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
        # A request to be on the same device as an operation that is gone.
        places = copied.attr["_class"].list.s if "_class" in copied.attr else ()
        if any(place.decode().removeprefix("loc:@") in sources for place in places):
            del copied.attr["_class"]
    return shorter


def without_control_dependencies(definition: Any) -> Any:
    """Return a copy of a `GraphDef` in which no operation waits for one whose result it does not
    read. That changes nothing where no operation has a state or an effect.
    """
    shorter = type(definition)()
    shorter.CopyFrom(definition)
    for node in shorter.node:
        node.input[:] = [name for name in node.input if not name.startswith("^")]
    return shorter


def _origin(name: str, sources: dict[str, str]) -> str:
    """Follow an input, ``x`` or ``x:0``, to the first operation that stays."""
    while (operation := name.removesuffix(":0")) in sources:
        name = sources[operation]
    return name


optimize_graph: Callable[..., GraphAndOutputs]


@mod.export(funcify=True)
class OptimizeGraph(BaseLoader):
    """Freezes a TensorFlow graph, and removes what its outputs do not need."""

    def __init__(self, graph: Deferred[GraphAndOutputs]) -> None:
        """Take a graph and the names of its outputs, or a loader that makes them."""
        self._graph = graph

    def call_impl(self) -> GraphAndOutputs:
        """Return another graph with the same inputs and outputs.

        It has no variables, no operation on which no output depends, and none that hands on what it
        is given, for training or for a check (`Identity`, `StopGradient`, `CheckNumerics`).

        Raises:
            BackendError: variables without values cannot be frozen.
        """
        graph, outputs = evaluate(self._graph)
        v1 = tensorflow_module().compat.v1
        names = [op_name(name) for name in outputs]
        definition = graph.as_graph_def()
        with graph.as_default(), translated_errors("freeze"), v1.Session(graph=graph) as session:
            inputs = {node.name for node in definition.node if node.op == "Placeholder"}
            if any(
                node.op in ("VarHandleOp", "VariableV2", "Variable") for node in definition.node
            ):
                kept = [name for name in names if name not in inputs]
                definition = v1.graph_util.convert_variables_to_constants(session, definition, kept)
            definition = pruned(definition, outputs)
        if not any(
            op.op_def.is_stateful for op in graph_from_definition(definition).get_operations()
        ):
            definition = pruned(without_control_dependencies(definition), outputs)
        definition = without_passthroughs(definition, names)
        before = len(graph.get_operations())
        G_LOGGER.info(
            f"Optimised the TensorFlow graph: {len(definition.node)} operations, {before} before"
        )
        return graph_from_definition(definition), list(outputs)
