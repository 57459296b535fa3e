"""Lets TensorRT run parts of a TensorFlow graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.tensorflow.errors import translated_errors
from polygraphy.adapters.tensorflow.graphs import graph_from_definition, op_name
from polygraphy.adapters.tensorflow.module import tensorflow_module
from polygraphy.domain.errors import BackendError
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.adapters.tensorflow.module import GraphAndOutputs


use_tf_trt: Callable[..., GraphAndOutputs]


@mod.export(funcify=True)
class UseTfTrt(BaseLoader):
    """Replaces parts of a TensorFlow graph by TensorRT engines, with TensorFlow's own converter.

    TensorFlow's packages hold it up to 2.17, on Linux with CUDA; those for the CPU never did.
    """

    def __init__(
        self,
        graph: Deferred[GraphAndOutputs],
        max_workspace_size: int | None = None,
        fp16: bool | None = None,
        int8: bool | None = None,
        max_batch_size: int | None = None,
        is_dynamic_op: bool = False,
        minimum_segment_size: int | None = None,
    ) -> None:
        """Describe the engines; what is None is left to TensorFlow.

        Args:
            graph: a graph and the names of its outputs, or a loader that makes them.
            max_workspace_size: bytes that TensorRT may use as scratch memory.
            fp16: whether engines may compute in float16.
            int8: whether engines may compute in int8, in place of `fp16`.
            max_batch_size: the largest batch of engines that are built at once.
            is_dynamic_op: whether engines are built when the graph runs, for the shapes that come.
            minimum_segment_size: the fewest operations that become an engine.
        """
        self._graph = graph
        self._options = {
            "max_workspace_size_bytes": max_workspace_size,
            "max_batch_size": max_batch_size,
            "minimum_segment_size": minimum_segment_size,
            "precision_mode": "INT8" if int8 else "FP16" if fp16 else None,
            "is_dynamic_op": is_dynamic_op,
        }

    def call_impl(self) -> GraphAndOutputs:
        """Return the graph with engines in it; BackendError where TensorFlow has no TensorRT."""
        graph, outputs = evaluate(self._graph)
        converter = _converter()
        options = {name: value for name, value in self._options.items() if value is not None}
        with graph.as_default(), translated_errors("give TensorRT parts of"):
            definition = converter(
                input_graph_def=graph.as_graph_def(),
                nodes_denylist=[op_name(name) for name in outputs],
                **options,
            ).convert()
        engines = sum(node.op == "TRTEngineOp" for node in definition.node)
        G_LOGGER.info(f"TensorRT runs {engines} parts of the TensorFlow graph")
        return graph_from_definition(definition), list(outputs)


def _converter() -> Any:
    """Return TensorFlow's converter for graphs.

    Raises:
        BackendError: this TensorFlow was built without.
    """
    tf = tensorflow_module()
    if not tf.sysconfig.get_build_info().get("is_tensorrt_build"):
        raise BackendError(
            f"TensorFlow {tf.__version__} was built without TensorRT, so it cannot hand parts of"
            " the graph to it.",
            backend="tensorflow",
            hint="TensorFlow 2.17 with CUDA is the last that was; or convert the model to ONNX and"
            " use --trt.",
        )
    from tensorflow.python.compiler.tensorrt.trt_convert import TrtGraphConverter

    return TrtGraphConverter
