"""Takes out of an ONNX model what nothing depends on, and puts its nodes in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.onnx.graph.editing import edited
from polygraphy.adapters.onnx.graph.graph import clean_model, sort
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import ModelProto


clean_up: Callable[..., ModelProto]
sort_nodes: Callable[..., ModelProto]


@mod.export(funcify=True)
class CleanUp(BaseLoader):
    """Removes nodes and weights on which no output of an ONNX model depends."""

    def __init__(self, model: Deferred[ModelProto]) -> None:
        """Take the model, which is changed in place, or a loader that makes it."""
        self._model = model

    def call_impl(self) -> ModelProto:
        """Return the model; its inputs stay, also those that nothing depends on."""
        return edited(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        G_LOGGER.verbose(f"Removed {clean_model(model)} nodes on which no output depends.")
        return model


@mod.export(funcify=True)
class SortNodes(BaseLoader):
    """Puts the nodes of an ONNX model into an order in which they can be computed."""

    def __init__(self, model: Deferred[ModelProto]) -> None:
        """Take the model, which is changed in place, or a loader that makes it."""
        self._model = model

    def call_impl(self) -> ModelProto:
        """Return the model; ModelError when nodes depend on each other in a circle."""
        return edited(self._model, self._edit)

    def _edit(self, model: ModelProto) -> ModelProto:
        if sort(model.graph):
            G_LOGGER.verbose("Put the nodes of the model in order.")
        return model
