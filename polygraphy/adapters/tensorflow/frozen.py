"""Loads frozen graphs: a `GraphDef` whose weights are constants."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader
from polygraphy.adapters.os.paths import readable_file, translated_os_errors
from polygraphy.adapters.tensorflow.errors import translated_errors
from polygraphy.adapters.tensorflow.graphs import final_tensors, graph_from_definition
from polygraphy.adapters.tensorflow.module import tensorflow_module
from polygraphy.domain.errors import ModelError
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.adapters.tensorflow.module import GraphAndOutputs


graph_from_frozen: Callable[..., GraphAndOutputs]


@mod.export(funcify=True)
class GraphFromFrozen(BaseLoader):
    """Loads a TensorFlow graph from a file that holds a `GraphDef` (.pb, .graphdef)."""

    def __init__(self, path: str) -> None:
        """Name the file."""
        self._path = path

    def call_impl(self) -> GraphAndOutputs:
        """Return the graph, and the names of its outputs: the tensors that nothing in it uses.

        Raises:
            FileError: the file is missing or empty.
            ModelError: it holds no `GraphDef`, or is a folder.
            BackendError: the graph uses an operator that this TensorFlow does not have.
        """
        if Path(self._path).is_dir():
            raise ModelError(
                f"The folder {self._path} holds neither a SavedModel (saved_model.pb) nor a"
                " checkpoint (NAME.index), and a frozen graph is a file.",
                path=self._path,
            )
        path = readable_file(self._path, "Model")
        definition = tensorflow_module().compat.v1.GraphDef()
        G_LOGGER.info(f"Loading TensorFlow graph: {path.absolute()}")
        with translated_os_errors(path, "read"):
            content = path.read_bytes()
        with translated_errors("load", path):
            definition.ParseFromString(content)
        if not definition.node:
            raise ModelError(
                f"{path} holds no TensorFlow graph.",
                path=path,
                hint="The saved_model.pb of a SavedModel is loaded by naming its folder.",
            )
        graph = graph_from_definition(definition, path)
        return graph, final_tensors(graph)
