"""Shapes by rote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class FakeShapeInference:
    """Gives what a function makes of a copy of the model, or fails.

    Attributes:
        models: the models that were given.
    """

    def __init__(
        self,
        change: Callable[[Any], None] | None = None,
        error: Exception | None = None,
    ) -> None:
        """Set what is done to the copy, or what is raised instead."""
        self.models: list[Any] = []
        self._change = change
        self._error = error

    def infer(self, model: Any) -> Any:
        """Return a changed copy of the model."""
        self.models.append(model)
        if self._error is not None:
            raise self._error
        copied = type(model)()
        copied.CopyFrom(model)
        if self._change is not None:
            self._change(copied)
        return copied
