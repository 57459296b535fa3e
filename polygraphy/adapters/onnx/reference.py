"""Runs ONNX models in the reference evaluator that the `onnx` package carries: slow, in NumPy, and
true to the standard.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.common.loader import Deferred, evaluate
from polygraphy.adapters.common.runner import BaseRunner
from polygraphy.adapters.onnx.datatype import OnnxDataTypes
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.metadata import TensorMetadata

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto
    from onnx.reference import ReferenceEvaluator

__all__ = ["OnnxReferenceRunner", "ReferenceConstantEvaluator"]

onnx_reference = mod.lazy_import("onnx.reference")
numpy = mod.lazy_import("numpy")

_now = time.perf_counter


@mod.export()
class OnnxReferenceRunner(BaseRunner):
    """Runs an ONNX model in the reference evaluator."""

    outputs_are_fresh = True

    def __init__(self, model: Deferred[ModelProto], name: str | None = None) -> None:
        """Wrap a model, or a loader that makes one when the runner is activated."""
        super().__init__(name=name, prefix="onnx-runner")
        self._model = model
        self._evaluator: ReferenceEvaluator | None = None

    def activate_impl(self) -> None:
        """Load the model and look up the implementation of every node."""
        model = evaluate(self._model)
        with _translated_errors("load"):
            self._evaluator = onnx_reference.ReferenceEvaluator(model)

    def deactivate_impl(self) -> None:
        """Let go of the model."""
        self._evaluator = None

    def get_input_metadata_impl(self) -> TensorMetadata:
        """Describe the inputs of the graph; initialisers that older models list there are none."""
        assert self._evaluator is not None
        graph = self._evaluator.proto_.graph
        initialised = {tensor.name for tensor in graph.initializer}
        types = OnnxDataTypes()
        metadata = TensorMetadata()
        for value in graph.input:
            if value.name not in initialised:
                tensor = value.type.tensor_type
                metadata.add(value.name, types.from_native(tensor.elem_type), _shape(tensor))
        return metadata

    def infer_impl(self, feed_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Evaluate the graph once.

        Returns:
            One NumPy array per output; they belong to the caller.
        """
        assert self._evaluator is not None
        start = _now()
        with _translated_errors("run"), numpy.errstate(all="ignore"):
            outputs = self._evaluator.run(None, dict(feed_dict))
        self.inference_time = _now() - start
        # Implementations hand out views of the feed and of the weights.
        owned = (output if isinstance(output, list) else numpy.array(output) for output in outputs)
        return dict(zip(self._evaluator.output_names, owned))


def _shape(tensor: Any) -> list[Any] | None:
    if not tensor.HasField("shape"):
        return None
    return [
        dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None)
        for dim in tensor.shape.dim
    ]


class ReferenceConstantEvaluator:
    """Computes tensors of an ONNX model without inputs."""

    def evaluate(self, model: Any, outputs: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
        """Compute `outputs`; BackendError when the reference evaluator has no implementation."""
        with _translated_errors("evaluate"):
            values = onnx_reference.ReferenceEvaluator(model).run(list(outputs), {})
        return {name: numpy.asarray(value) for name, value in zip(outputs, values)}


@contextmanager
def _translated_errors(doing: str) -> Iterator[None]:
    """Turn whatever an implementation of an operator raises into a BackendError: they are plain
    NumPy code.
    """
    try:
        yield
    except (PolygraphyException, MemoryError):
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        missing = isinstance(error, NotImplementedError) or "implementation" in text
        raise BackendError(
            f"The ONNX reference evaluator could not {doing} the model: {type(error).__name__}:"
            f" {text}",
            backend="onnx",
            hint=(
                "Unsupported operator: the reference evaluator has none for it." if missing else ""
            ),
        ) from error
