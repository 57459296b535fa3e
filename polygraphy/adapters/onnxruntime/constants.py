"""Computes constant tensors with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from polygraphy.adapters.onnx_common.omitted import with_all_results
from polygraphy.adapters.onnxruntime.errors import translated_errors
from polygraphy.adapters.onnxruntime.session import load_session, session_options, terminable

if TYPE_CHECKING:
    import numpy as np


class OnnxrtConstantEvaluator:
    """Computes tensors of an ONNX model without inputs, one session per call."""

    def evaluate(self, model: Any, outputs: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
        """Compute `outputs`; BackendError when ONNX Runtime has no implementation."""
        options = session_options("disable")
        with translated_errors("evaluate"):
            serialized = with_all_results(model).SerializeToString()
            session = load_session(serialized, options, ["CPUExecutionProvider"])
            computed = terminable(lambda options: session.run(list(outputs), {}, options))
            return dict(zip(outputs, computed))
