"""Who computes the parts of a model that depend on no input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ConstantEvaluator"]


class ConstantEvaluator(Protocol):
    """Computes tensors of an ONNX model without inputs; constant folding asks for it."""

    def evaluate(self, model: Any, outputs: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
        """Compute tensors.

        Args:
            model: an `onnx.ModelProto` whose graph has no inputs.
            outputs: the names of the graph outputs to compute.

        Returns:
            One array per name.

        Raises:
            BackendError: an operator is not implemented, or fails.
        """
