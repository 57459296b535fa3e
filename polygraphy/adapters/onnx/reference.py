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
from polygraphy.adapters.onnx.elements import elements, is_stripped
from polygraphy.adapters.onnx.facts import OnnxFactFinder
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.facts import Facts, ModelFacts
from polygraphy.domain.metadata import TensorMetadata
from polygraphy.domain.model_io import check_has_outputs, check_is_tensor

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
        self._facts: Facts = ModelFacts()

    def activate_impl(self) -> None:
        """Load the model and look up the implementation of every node."""
        model = evaluate(self._model)
        _check_weights(model)
        check_has_outputs(model.graph.output)
        with _translated_errors("load"):
            self._evaluator = onnx_reference.ReferenceEvaluator(model)
        self._facts = OnnxFactFinder().find(self._evaluator.proto_)

    def get_model_facts(self) -> Facts:
        """Return what the model tells: the evaluator computes in the data types of its tensors."""
        return self._facts

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
                check_is_tensor(
                    value.name, (value.type.WhichOneof("value") or "").removesuffix("_type")
                )
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
        results = dict(zip(self._evaluator.output_names, outputs))
        del outputs
        # Implementations hand out views of the feed and of the weights. They are copied one after
        # the other, so that no more than one output is there twice.
        for name, output in results.items():
            if not isinstance(output, list):
                results[name] = numpy.array(output)
        return results


def _check_weights(model: ModelProto) -> None:
    for tensor in model.graph.initializer:
        if is_stripped(tensor):
            elements(tensor)  # Raises, and says what to do.


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
