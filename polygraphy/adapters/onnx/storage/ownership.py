"""Who else has a model: one that other code has is copied before it is changed.

A comparison of a model with what was made of it would otherwise compare the latter with itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx_common.messages import copy_of

if TYPE_CHECKING:
    from onnx import ModelProto


onnx = mod.lazy_import("onnx")

_OWN_PACKAGE = f"{__name__.partition('.')[0]}."


def makes_new_model(source: Any) -> bool:
    """Return whether only the caller has the model that `source` makes.

    That is known of this package's loaders, by their attribute `makes_new_model`. Any other
    callable, a subclass of one of them included, may return a model that it keeps.
    """
    is_ours = type(source).__module__.startswith(_OWN_PACKAGE)
    return is_ours and bool(getattr(source, "makes_new_model", False))


def own_model(source: Deferred[ModelProto], copy: bool | None = None) -> ModelProto:
    """Return a model that may be changed.

    Args:
        source: the model, or a loader that makes it.
        copy: False to change the model in place, shared or not (default: a model that no other code
            has is not copied, any other is).
    """
    model = evaluate(source)
    if copy is False or makes_new_model(source):
        return model
    return copy_of(model)


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
