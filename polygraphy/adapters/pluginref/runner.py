"""Runs ONNX models with references for some operators."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.common.loader import Deferred, evaluate
from polygraphy.adapters.common.runner import BaseRunner
from polygraphy.adapters.pluginref.operators import evaluator_of
from polygraphy.adapters.pluginref.references import OP_REGISTRY, Reference
from polygraphy.domain.datatype import DataType
from polygraphy.domain.errors import BackendError, PolygraphyException, UsageError
from polygraphy.domain.metadata import TensorMetadata
from polygraphy.domain.model_io import check_has_outputs, check_is_tensor
from polygraphy.mod.scripts import run_script

if TYPE_CHECKING:
    import onnx_graphsurgeon
    from onnx import ModelProto
    from onnx.reference import ReferenceEvaluator

__all__ = ["PluginRefRunner"]

graphsurgeon = mod.lazy_import("onnx_graphsurgeon")
numpy = mod.lazy_import("numpy")
onnx = mod.lazy_import("onnx")

_now = time.perf_counter


@mod.export()
class PluginRefRunner(BaseRunner):
    """Runs an ONNX model in NumPy: operators that have a reference by that, the others in the
    reference evaluator of the onnx package, so that a model with a single plugin runs whole.
    """

    outputs_are_fresh = True

    def __init__(
        self,
        graph: Deferred[onnx_graphsurgeon.Graph | ModelProto],
        name: str | None = None,
        references: Mapping[str, Reference] | str | None = None,
    ) -> None:
        """Wrap a model.

        Args:
            graph: an ONNX-GraphSurgeon graph, an ONNX model, or a loader that makes one of them
                when the runner is activated.
            name: see `BaseRunner`.
            references: functions by type of operator, which take precedence over `OP_REGISTRY`; or
                the path of a script that registers them with
                `polygraphy.backend.pluginref.register`, which is run when the runner is activated.
        """
        super().__init__(name=name, prefix="pluginref-runner")
        self._graph = graph
        self._references = references
        self._evaluator: ReferenceEvaluator | None = None

    def activate_impl(self) -> None:
        """Load the model, and look up the implementation of every node.

        Raises:
            BackendError: an operator has neither a reference nor an implementation.
        """
        own = self._references
        if isinstance(own, str):
            run_script(own)
            own = None
        model = _model(evaluate(self._graph))
        check_has_outputs(model.graph.output)
        with _translated_errors("load"):
            self._evaluator = evaluator_of(model, {**OP_REGISTRY, **(own or {})})

    def deactivate_impl(self) -> None:
        """Let go of the model."""
        self._evaluator = None

    def get_input_metadata_impl(self) -> TensorMetadata:
        """Describe the inputs of the graph; initialisers that older models list there are none."""
        assert self._evaluator is not None
        graph = self._evaluator.proto_.graph
        initialised = {tensor.name for tensor in graph.initializer}
        metadata = TensorMetadata()
        for value in graph.input:
            if value.name not in initialised:
                check_is_tensor(
                    value.name, (value.type.WhichOneof("value") or "").removesuffix("_type")
                )
                tensor = value.type.tensor_type
                metadata.add(
                    value.name, DataType.from_dtype(tensor.elem_type, "onnx"), _shape(tensor)
                )
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
        # References hand out views of the feed and of the weights.
        owned = (output if isinstance(output, list) else numpy.array(output) for output in outputs)
        return dict(zip(self._evaluator.output_names, owned))


def _model(graph: Any) -> ModelProto:
    """Return an ONNX model of whatever was given."""
    if isinstance(graph, onnx.ModelProto):
        return graph  # type: ignore[no-any-return]
    if type(graph).__module__.partition(".")[0] == "onnx_graphsurgeon":
        return graphsurgeon.export_onnx(graph)  # type: ignore[no-any-return]
    raise UsageError(
        "Plugin references run an ONNX model or an ONNX-GraphSurgeon graph, not a"
        f" {type(graph).__name__}."
    )


def _shape(tensor: Any) -> list[Any] | None:
    if not tensor.HasField("shape"):
        return None
    return [
        dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None)
        for dim in tensor.shape.dim
    ]


@contextmanager
def _translated_errors(doing: str) -> Iterator[None]:
    """Turn whatever a reference raises into a BackendError: references are anybody's code."""
    try:
        yield
    except (PolygraphyException, MemoryError):
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        is_missing = isinstance(error, NotImplementedError) or "implementation" in text
        raise BackendError(
            f"Plugin references could not {doing} the model: {type(error).__name__}: {text}",
            backend="pluginref",
            hint=(
                "Unsupported operator: give it a reference with"
                " polygraphy.backend.pluginref.register."
                if is_missing
                else ""
            ),
        ) from error
