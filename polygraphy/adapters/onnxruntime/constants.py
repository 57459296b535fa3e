"""Computes constant tensors with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.common.omitted import with_all_results
from polygraphy.adapters.onnxruntime.errors import translated_errors
from polygraphy.adapters.onnxruntime.session import session_options

if TYPE_CHECKING:
    import numpy as np

__all__ = ["OnnxrtConstantEvaluator"]

onnxrt = mod.lazy_import("onnxruntime>=1.10.0")


class OnnxrtConstantEvaluator:
    """Computes tensors of an ONNX model without inputs, one session per call."""

    def evaluate(self, model: Any, outputs: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
        """Compute `outputs`; BackendError when ONNX Runtime has no implementation."""
        options = session_options("disable")
        with translated_errors("evaluate"):
            session = onnxrt.InferenceSession(
                with_all_results(model).SerializeToString(),
                sess_options=options,
                providers=["CPUExecutionProvider"],
            )
            return dict(zip(outputs, session.run(list(outputs), {})))
