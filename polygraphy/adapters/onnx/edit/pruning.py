"""Makes the weights of an ONNX model 2:4 sparse."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.onnx.describe.weight_roles import prunable_axes
from polygraphy.adapters.onnx.graph.constants import graph_weights
from polygraphy.adapters.onnx.graph.editing import edited
from polygraphy.adapters.onnx.storage.elements import elements, put
from polygraphy.adapters.onnx.storage.stored import is_stored
from polygraphy.adapters.onnx.storage.weights import all_graphs
from polygraphy.domain.model.pruning import pruned
from polygraphy.logger import G_LOGGER
from polygraphy.ports.machine import cores

if TYPE_CHECKING:
    from onnx import ModelProto


prune_weights: Callable[..., ModelProto]


@mod.export(funcify=True)
class PruneWeights(BaseLoader):
    """Sets two of every four weights that products sum over to zero, those of the smallest
    magnitude: tensor cores compute with such weights twice as fast. The model's accuracy is gone.
    """

    def __init__(self, model: Deferred[ModelProto]) -> None:
        """Take the model, which is changed in place, or a loader that makes it."""
        self._model = model

    def call_impl(self) -> ModelProto:
        """Return the model."""
        return edited(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        axes = prunable_axes(model)
        threads = cores()
        for graph in all_graphs(model.graph):
            for name, tensor in graph_weights(graph, axes).items():
                made = pruned(elements(tensor), axes[name], threads=threads)
                put(tensor, made, in_file=is_stored(tensor))
        if axes:
            G_LOGGER.info(f"Pruned {len(axes)} weights: {', '.join(axes)}")
        else:
            G_LOGGER.warning("The model has no weight that could be pruned.")
        return model
