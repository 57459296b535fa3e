"""Finding out the shapes of a model's tensors without running it."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["ShapeInference"]


class ShapeInference(Protocol):
    """Infers data types and shapes."""

    def infer(self, model: Any) -> Any:
        """Return a model in which more tensors have a data type and a shape; `model` (an
        ``onnx.ModelProto``) stays as it is.

        Raises:
            MissingDependencyError: a package that this takes is not installed.
            BackendError: the model holds something that is not understood.
        """
