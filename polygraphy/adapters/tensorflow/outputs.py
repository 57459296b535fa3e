"""Chooses which tensors of a TensorFlow graph are its outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from polygraphy import constants, mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.tensorflow.graphs import computed_tensors
from polygraphy.domain.errors import UsageError
from polygraphy.domain.tensors.naming import matching
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.adapters.tensorflow.module import GraphAndOutputs


modify_graph_outputs: Callable[..., GraphAndOutputs]


@mod.export(funcify=True)
class ModifyGraphOutputs(BaseLoader):
    """Makes other tensors of a TensorFlow graph its outputs."""

    def __init__(
        self, graph: Deferred[GraphAndOutputs], outputs: Sequence[str] | str | None = None
    ) -> None:
        """Set which tensors become outputs.

        Args:
            graph: a graph and the names of its outputs, or a loader that makes them.
            outputs: names of tensors, such as ``relu:0``, of operations, which stand for their
                first tensor, or patterns, as of `fnmatch`; `constants.MARK_ALL` for every tensor
                that can be fetched, but for inputs and constants (default: its own outputs).
        """
        self._graph = graph
        self._outputs = outputs

    def call_impl(self) -> GraphAndOutputs:
        """Return the same graph, and the names of the outputs in the order of the graph.

        Raises:
            UnknownNameError: a name means no tensor of the graph.
            UsageError: no tensor of the graph can be an output.
        """
        graph, outputs = evaluate(self._graph)
        if self._outputs is None:
            return graph, outputs
        computed = computed_tensors(graph)
        if self._outputs == constants.MARK_ALL:
            chosen = set(computed)
        else:
            known = [tensor.name for op in graph.get_operations() for tensor in op.outputs]
            words = [self._outputs] if isinstance(self._outputs, str) else self._outputs
            qualified = [f"{word}:0" if f"{word}:0" in known else word for word in words]
            chosen = matching(qualified, known, unless=set(known) - set(computed))
            computed = known
        if not chosen:
            raise UsageError("No tensor of the TensorFlow graph can be an output.")
        outputs = [name for name in computed if name in chosen]
        G_LOGGER.verbose(f"Outputs of the TensorFlow graph: {outputs}")
        return graph, outputs
