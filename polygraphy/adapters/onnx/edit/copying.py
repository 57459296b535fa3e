"""Copies nodes, with the weights that they read, from a model that is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx.edit.mending import OnnxModelPairs
from polygraphy.adapters.onnx.graph.editing import edited
from polygraphy.adapters.onnx.graph.graph import drop_unused
from polygraphy.adapters.onnx.storage.model import OnnxFromPath
from polygraphy.adapters.onnx_common.messages import used_by, weight_names
from polygraphy.domain.diagnosis.mending import mending
from polygraphy.domain.diagnosis.pairing import paired
from polygraphy.domain.diagnosis.two_models import named, suspects
from polygraphy.domain.errors import UnknownNameError, UsageError
from polygraphy.domain.tensors.naming import counted
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto


copy_nodes: Callable[..., ModelProto]


@mod.export(funcify=True)
class CopyNodes(BaseLoader):
    """Copies nodes in which an ONNX model differs from one that is right, with the weights that
    they read, from that one.
    """

    def __init__(
        self,
        model: Deferred[ModelProto],
        reference: str | Deferred[ModelProto],
        nodes: Sequence[str] | None = None,
    ) -> None:
        """Set what is copied.

        Args:
            model: the model, which stays as it is, or a loader that makes it.
            reference: the model that is right: its path, an ``onnx.ModelProto``, or a loader.
            nodes: the names of nodes of `model`, an unnamed one by its first output, whose
                differences go away (default: all differences do).
        """
        self._model = model
        self._reference = reference
        self._nodes = None if nodes is None else list(nodes)

    def call_impl(self) -> ModelProto:
        """Return a copy of the model with what was copied.

        Raises:
            UnknownNameError: the model has no node of a name.
            UsageError: a node, or without names the whole model, does not differ.
        """
        return edited(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        given = self._reference
        reference = OnnxFromPath(given)() if isinstance(given, str) else evaluate(given)
        pairs = OnnxModelPairs()
        pairing = paired(pairs.graph(model), pairs.graph(reference))
        side = pairing.model
        found = [(one, named(side, one)) for one in suspects(pairing)]
        wanted = self._nodes
        if wanted is None:
            wanted = list(dict.fromkeys(name for _, names in found for name in names))
        known = {side.identity(index) for index in range(len(side.nodes))}
        differing = {name for _, names in found for name in names}
        for name in wanted:
            if name not in known | differing:
                raise UnknownNameError("Node", name, sorted(known))
            if name not in differing:
                raise UsageError(f"Node {name!r} is the same in both models.")
        if not wanted:
            raise UsageError("The models do not differ, so there is nothing to copy.")
        chosen = [one for one, names in found if set(names) & set(wanted)]
        for one in chosen:
            G_LOGGER.info(f"Undone: {one.what}.")
        G_LOGGER.info(f"Copied what differs in {counted(len(chosen), 'place')}.")
        made = pairs.mended(model, reference, mending(pairing, chosen))
        replaced = _read(model.graph) - _read(made.graph)
        drop_unused(made.graph, (weight_names(made.graph) | _read(made.graph)) - replaced)
        return made


def _read(graph: GraphProto) -> set[str]:
    """Return the tensors of a graph that something is made of, or that it hands out."""
    names = {value.name for value in graph.output}
    return names.union(*(used_by(node) for node in graph.node))
