"""Converts TensorFlow graphs to ONNX, with tf2onnx."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx_common.messages import all_nodes
from polygraphy.adapters.tensorflow.errors import translated_errors
from polygraphy.adapters.tensorflow.graphs import input_tensors, pruned
from polygraphy.adapters.tensorflow.module import tensorflow_module
from polygraphy.domain.errors import BackendError
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import ModelProto

    from polygraphy.adapters.tensorflow.module import GraphAndOutputs


onnx_from_tf_graph: Callable[..., ModelProto]

_DEFAULT_OPSET = 11

onnx = mod.lazy_import("onnx")
tf2onnx = mod.lazy_import("tf2onnx>=1.16", requires=["onnx"])


@mod.export(funcify=True)
class OnnxFromTfGraph(BaseLoader):
    """Converts a TensorFlow graph to an ONNX model."""

    makes_new_model = True

    def __init__(
        self,
        graph: Deferred[GraphAndOutputs],
        opset: int | None = None,
        optimize: bool | None = None,
    ) -> None:
        """Describe the conversion.

        Args:
            graph: a graph and the names of its outputs, or a loader that makes them.
            opset: the version of the standard's operators (default: 11).
            optimize: whether tf2onnx simplifies the model (default: it does).
        """
        self._graph = graph
        self._opset = _DEFAULT_OPSET if opset is None else opset
        self._optimize = optimize is None or optimize

    def call_impl(self) -> ModelProto:
        """Return the model; its inputs and outputs are called like the graph's, ``x:0``.

        Raises:
            BackendError: tf2onnx cannot convert an operator, or does not know the opset.
        """
        graph, outputs = evaluate(self._graph)
        tensorflow_module()
        # Where it is talkative, so is every module of it, whatever TensorFlow's level is.
        level = logging.INFO if G_LOGGER.is_enabled_for(G_LOGGER.VERBOSE) else logging.ERROR
        logging.getLogger("tf2onnx").setLevel(level)
        inputs = [tensor.name for tensor in input_tensors(graph)]
        G_LOGGER.info(f"Converting the TensorFlow graph to ONNX, opset {self._opset}")
        with translated_errors("convert"):
            converted = _converted(graph, self._opset, inputs, list(outputs))
            if self._optimize:
                converted = tf2onnx.optimizer.optimize_graph(converted)
            model: ModelProto = converted.make_model("Converted from TensorFlow by tf2onnx")
        _refuse_foreign_operators(model)
        return model


def _converted(graph: Any, opset: int, inputs: list[str], outputs: list[str]) -> Any:
    """Return tf2onnx's own graph. What the outputs do not need is left away before: it might not be
    convertible.
    """
    tf = tensorflow_module()
    definition = pruned(graph.as_graph_def(), outputs)
    needed = tf.Graph()
    with needed.as_default():
        tf.graph_util.import_graph_def(definition, name="")
        return tf2onnx.tfonnx.process_tf_graph(
            needed, opset=opset, input_names=inputs, output_names=outputs
        )


def _refuse_foreign_operators(model: ModelProto) -> None:
    """Refuse a model in which operators of TensorFlow are left: tf2onnx only mentions them."""
    foreign = {
        node.op_type
        for node in all_nodes(model.graph)
        if not node.domain and not onnx.defs.has(node.op_type)
    }
    if foreign:
        raise BackendError(
            f"tf2onnx cannot convert these operators of TensorFlow: {', '.join(sorted(foreign))}.",
            backend="tensorflow",
            hint="Choose outputs before them, or a later opset.",
        )
