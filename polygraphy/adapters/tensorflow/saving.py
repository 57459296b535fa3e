"""Saves TensorFlow graphs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.os.paths import atomic_file, ensure_parent, translated_os_errors
from polygraphy.adapters.tensorflow.errors import translated_errors
from polygraphy.adapters.tensorflow.graphs import pruned
from polygraphy.adapters.tensorflow.module import tensorflow_module
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    import tensorflow

    from polygraphy.adapters.tensorflow.module import GraphAndOutputs


save_graph: Callable[..., GraphAndOutputs]


@mod.export(funcify=True)
class SaveGraph(BaseLoader):
    """Saves a TensorFlow graph, and passes it on."""

    def __init__(
        self,
        graph: Deferred[GraphAndOutputs],
        path: str | None = None,
        tensorboard_dir: str | None = None,
        engine_dir: str | None = None,
    ) -> None:
        """Set what is saved, and where.

        Args:
            graph: a graph and the names of its outputs, or a loader that makes them.
            path: the file for the frozen graph, a `GraphDef`.
            tensorboard_dir: the folder for TensorBoard.
            engine_dir: the folder for the serialised TensorRT engines in the graph, a file each.
        """
        self._graph = graph
        self._path = path
        self._tensorboard_dir = tensorboard_dir
        self._engine_dir = engine_dir

    def call_impl(self) -> GraphAndOutputs:
        """Write the files, and return the graph as it was; FileError when one cannot be written."""
        graph, outputs = evaluate(self._graph)
        if self._path is not None:
            # What leads to the outputs only: a graph alone tells them by its ends.
            content = pruned(graph.as_graph_def(), outputs).SerializeToString(deterministic=True)
            G_LOGGER.info(f"Saving TensorFlow graph to {Path(self._path).absolute()}")
            with atomic_file(self._path) as stream:
                stream.write(content)
        if self._tensorboard_dir is not None:
            _save_for_tensorboard(graph, self._tensorboard_dir)
        if self._engine_dir is not None:
            _save_engines(graph, self._engine_dir)
        return graph, outputs


def _save_for_tensorboard(graph: tensorflow.Graph, folder: str) -> None:
    v1 = tensorflow_module().compat.v1
    G_LOGGER.info(f"Saving the graph for TensorBoard to {Path(folder).absolute()}")
    with translated_os_errors(folder, "write"):
        ensure_parent(Path(folder) / "graph")
        with translated_errors("save"), graph.as_default():
            v1.summary.FileWriter(folder, graph).close()


def _save_engines(graph: tensorflow.Graph, folder: str) -> None:
    """Save the engines of `TRTEngineOp` nodes; an engine that is built when the graph runs is not
    there yet.
    """
    nodes = [node for node in graph.as_graph_def().node if node.op == "TRTEngineOp"]
    for node in nodes:
        if engine := node.attr["serialized_segment"].s:
            path = Path(folder) / f"{node.name.replace('/', '_')}.engine"
            G_LOGGER.info(f"Saving TensorRT engine to {path.absolute()}")
            with atomic_file(path) as stream:
                stream.write(engine)
    if not nodes:
        G_LOGGER.warning("The TensorFlow graph holds no TensorRT engine that could be saved.")
