"""Another address of `polygraphy.backend.onnx`, from which scripts import; loaders of their own
derive from a base that only this one has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polygraphy.adapters.onnx.storage.ownership import own_model
from polygraphy.backend.base import BaseLoader
from polygraphy.backend.onnx import *  # noqa: F403

if TYPE_CHECKING:
    from onnx import ModelProto

    from polygraphy.adapters.base.loader import Deferred

LARGE_MODEL_THRESHOLD = 512 << 20
"""The size in bytes from which NVIDIA's Polygraphy treats a model as large."""
PROTOBUF_THRESHOLD = 2e9
"""The size in bytes beyond which a model cannot be one protobuf message."""


class BaseLoadOnnxCopy(BaseLoader):
    """The base of a loader that changes a model: `load` returns one that it may change."""

    def __init__(self, model: Deferred[ModelProto], copy: bool | None = None) -> None:
        """Keep what to load.

        Args:
            model: the model, or a loader that makes it.
            copy: False to change a given model in place (default: it stays as it is).
        """
        self._model = model
        self._copy = copy

    def load(self) -> ModelProto:
        """Return the model, or a copy of it."""
        return own_model(self._model, self._copy)
