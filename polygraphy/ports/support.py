"""Whether a backend supports a model, and taking models apart to find out where it does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from polygraphy.domain.capability import ModelNode, Problem

__all__ = ["ModelParts", "SupportChecker"]


class SupportChecker(Protocol):
    """Asks a backend about an ONNX model, without building anything. Models are
    ``onnx.ModelProto`` objects, which stay as they are.
    """

    def problems(self, model: Any) -> list[Problem]:
        """Return what the backend says against a model; nothing if it supports the model.

        Raises:
            BackendError: the backend is missing, or cannot be asked.
        """

    def groups(self, model: Any) -> list[tuple[list[int], bool]]:
        """Return groups of positions of nodes, and of each whether it is known to be supported; of
        the others parts may be. Nodes that are in no group are not supported.
        """


class ModelParts(Protocol):
    """Takes ONNX models apart."""

    def nodes(self, model: Any) -> list[ModelNode]:
        """Return the nodes of a model's graph, in order."""

    def extract(self, model: Any, nodes: Sequence[int]) -> Any:
        """Return a model of some of the nodes, by position; what they read from others becomes its
        inputs, and what others read from them its outputs.
        """

    def save(
        self,
        model: Any,
        path: str,
        *,
        external_data_path: str | None = None,
        size_threshold: int | None = None,
        all_tensors_to_one_file: bool | None = None,
    ) -> None:
        """Write a model to a file; see `polygraphy.backend.onnx.SaveOnnx`.

        Raises:
            FileError: it cannot be written.
        """
