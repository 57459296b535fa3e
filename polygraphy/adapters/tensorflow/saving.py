"""Saves TensorFlow graphs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx_common.messages import all_nodes
from polygraphy.adapters.os.paths import atomic_file, ensure_parent, translate_os_errors
from polygraphy.adapters.tensorflow.graphs import (
    graph_from_definition,
    input_tensors,
    op_name,
    prune_graph,
)
from polygraphy.adapters.tensorflow.module import tensorflow_module, translate_errors
from polygraphy.domain.errors import BackendError
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    import tensorflow
    from onnx import ModelProto

    from polygraphy.adapters.tensorflow.module import GraphAndOutputs


use_tf_trt: Callable[..., GraphAndOutputs]


@mod.export(funcify=True)
class UseTfTrt(BaseLoader):
    """Replaces parts of a TensorFlow graph with TensorRT engines, using TensorFlow's converter.

    TensorFlow packages contain it up to 2.17, on Linux with CUDA. CPU packages never contained it.
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
        """Set the options of TensorRT engines in the graph; None means TensorFlow's default.

        Args:
            graph: a graph and the names of its outputs, or a loader that returns them.
            max_workspace_size: bytes that TensorRT may use as scratch memory.
            fp16: whether engines may compute in float16.
            int8: whether engines may compute in int8, in place of `fp16`.
            max_batch_size: the largest batch of engines that are built at once.
            is_dynamic_op: whether engines are built when the graph runs, for the shapes of the
                data.
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
        """Return the graph with engines in it; raise BackendError if TensorFlow has no TensorRT."""
        graph, outputs = evaluate(self._graph)
        converter = _converter()
        options = {name: value for name, value in self._options.items() if value is not None}
        with graph.as_default(), translate_errors("run TensorRT on parts of"):
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
        BackendError: this TensorFlow was built without TensorRT.
    """
    tf = tensorflow_module()
    if not tf.sysconfig.get_build_info().get("is_tensorrt_build"):
        raise BackendError(
            f"TensorFlow {tf.__version__} was built without TensorRT, so --tftrt cannot be used.",
            backend="tensorflow",
            hint="Use TensorFlow 2.17 or earlier, built with CUDA, or convert the model to ONNX"
            " and use --trt.",
        )
    from tensorflow.python.compiler.tensorrt.trt_convert import TrtGraphConverter

    return TrtGraphConverter


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
        """Set the graph, and the options of the conversion.

        Args:
            graph: a graph and the names of its outputs, or a loader that returns them.
            opset: the version of the standard's operators (default: 11).
            optimize: whether tf2onnx simplifies the model (default: True).
        """
        self._graph = graph
        self._opset = _DEFAULT_OPSET if opset is None else opset
        self._optimize = optimize is None or optimize

    def call_impl(self) -> ModelProto:
        """Return the model; its inputs and outputs have the names in the graph, ``x:0``.

        Raises:
            BackendError: tf2onnx cannot convert an operator, or does not support the opset.
        """
        graph, outputs = evaluate(self._graph)
        tensorflow_module()
        # Set the level of tf2onnx for all of its modules, regardless of TensorFlow's level.
        level = logging.INFO if G_LOGGER.is_enabled_for(G_LOGGER.VERBOSE) else logging.ERROR
        logging.getLogger("tf2onnx").setLevel(level)
        inputs = [tensor.name for tensor in input_tensors(graph)]
        G_LOGGER.info(f"Converting the TensorFlow graph to ONNX, opset {self._opset}")
        with translate_errors("convert"):
            converted = _convert_graph(graph, self._opset, inputs, list(outputs))
            if self._optimize:
                converted = tf2onnx.optimizer.optimize_graph(converted)
            model: ModelProto = converted.make_model("Converted from TensorFlow by tf2onnx")
        _refuse_foreign_operators(model)
        return model


def _convert_graph(graph: Any, opset: int, inputs: list[str], outputs: list[str]) -> Any:
    """Return the converted graph of tf2onnx.
    Nodes that no output needs are removed first, because they might not be convertible."""
    tf = tensorflow_module()
    definition = prune_graph(graph.as_graph_def(), outputs)
    needed = tf.Graph()
    with needed.as_default():
        tf.graph_util.import_graph_def(definition, name="")
        return tf2onnx.tfonnx.process_tf_graph(
            needed, opset=opset, input_names=inputs, output_names=outputs
        )


def _refuse_foreign_operators(model: ModelProto) -> None:
    """Raise BackendError if TensorFlow operators remain in a model, because tf2onnx only warns
    about them."""
    foreign = {
        node.op_type
        for node in all_nodes(model.graph)
        if not node.domain and not onnx.defs.has(node.op_type)
    }
    if foreign:
        raise BackendError(
            f"tf2onnx cannot convert these operators of TensorFlow: {', '.join(sorted(foreign))}.",
            backend="tensorflow",
            hint="Choose outputs before these operators, or a later opset.",
        )


save_graph: Callable[..., GraphAndOutputs]


@mod.export(funcify=True)
class SaveGraph(BaseLoader):
    """Saves a TensorFlow graph and returns it."""

    def __init__(
        self,
        graph: Deferred[GraphAndOutputs],
        path: str | None = None,
        tensorboard_dir: str | None = None,
        engine_dir: str | None = None,
    ) -> None:
        """Set the graph and the paths to write.

        Args:
            graph: a graph and the names of its outputs, or a loader that returns them.
            path: the file for the frozen graph, a `GraphDef`.
            tensorboard_dir: the folder for TensorBoard.
            engine_dir: the folder for the serialized TensorRT engines in the graph, with one file
                per engine.
        """
        self._graph = graph
        self._path = path
        self._tensorboard_dir = tensorboard_dir
        self._engine_dir = engine_dir

    def call_impl(self) -> GraphAndOutputs:
        """Write the files, and return the graph unchanged.
        Raise FileError if one cannot be written.
        """
        graph, outputs = evaluate(self._graph)
        if self._path is not None:
            # Remove nodes that do not lead to the outputs, because a plain graph has no list of
            # outputs.
            content = prune_graph(graph.as_graph_def(), outputs).SerializeToString(
                deterministic=True
            )
            G_LOGGER.info(f"Saving TensorFlow graph to {Path(self._path).absolute()}")
            with atomic_file(self._path) as stream:
                stream.write(content)
        if self._tensorboard_dir is not None:
            _save_for_tensorboard(graph, self._tensorboard_dir)
        if self._engine_dir is not None:
            _save_engines(graph, self._engine_dir)
        return graph, outputs


def _save_for_tensorboard(graph: tensorflow.Graph, folder: str) -> None:
    """Write a graph as an event file of TensorBoard into a folder."""
    v1 = tensorflow_module().compat.v1
    G_LOGGER.info(f"Saving the graph for TensorBoard to {Path(folder).absolute()}")
    with translate_os_errors(folder, "write"):
        ensure_parent(Path(folder) / "graph")
        with translate_errors("save"), graph.as_default():
            v1.summary.FileWriter(folder, graph).close()


def _save_engines(graph: tensorflow.Graph, folder: str) -> None:
    """Save the engines of `TRTEngineOp` nodes, except those that are built when the graph runs."""
    nodes = [node for node in graph.as_graph_def().node if node.op == "TRTEngineOp"]
    for node in nodes:
        if engine := node.attr["serialized_segment"].s:
            path = Path(folder) / f"{node.name.replace('/', '_')}.engine"
            G_LOGGER.info(f"Saving TensorRT engine to {path.absolute()}")
            with atomic_file(path) as stream:
                stream.write(engine)
    if not nodes:
        G_LOGGER.warning("The TensorFlow graph contains no TensorRT engine to save.")
