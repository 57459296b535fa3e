"""Looking at what a model computes, inside it as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from polygraphy.domain.metadata import TensorMetadata

__all__ = ["TensorObserver"]


class TensorObserver(Protocol):
    """Runs an ``onnx.ModelProto`` once and tells what its tensors hold."""

    def inputs(self, model: Any) -> TensorMetadata:
        """Return what the model asks for."""

    def outputs(self, model: Any) -> list[str]:
        """Return the names of what the model gives."""

    def observe(
        self, model: Any, feed_dict: Mapping[str, Any], names: Sequence[str]
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Return the values of some tensors, wherever in the graph they are.

        Raises:
            UnknownNameError: the model has no tensor of a name.
            BackendError: the model cannot be run.
        """
