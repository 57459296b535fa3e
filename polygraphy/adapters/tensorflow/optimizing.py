"""Makes graphs smaller without changing what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.tensorflow.errors import translated_errors
from polygraphy.adapters.tensorflow.graphs import graph_from_definition, op_name, pruned
from polygraphy.adapters.tensorflow.module import tensorflow_module
from polygraphy.adapters.tensorflow.passthroughs import (
    without_control_dependencies,
    without_passthroughs,
)
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.adapters.tensorflow.module import GraphAndOutputs


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
