"""Loads checkpoints of TensorFlow 1: variables, and the graph beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader
from polygraphy.adapters.tensorflow.errors import translated_errors
from polygraphy.adapters.tensorflow.freezing import frozen_session
from polygraphy.adapters.tensorflow.graphs import final_tensors, op_name
from polygraphy.adapters.tensorflow.module import tensorflow_module
from polygraphy.domain.errors import FileError, ModelError, UnknownNameError
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.adapters.tensorflow.module import GraphAndOutputs


graph_from_ckpt: Callable[..., GraphAndOutputs]


@mod.export(funcify=True)
class GraphFromCkpt(BaseLoader):
    """Loads a TensorFlow graph from a checkpoint and the ``.meta`` file beside it."""

    def __init__(self, dir: str, name: str | None = None) -> None:
        """Name the folder.

        Args:
            dir: the folder of the checkpoint.
            name: the checkpoint's name, without extension (default: the latest, by the file
                ``checkpoint`` in the folder).
        """
        self._dir = dir
        self._name = name

    def call_impl(self) -> GraphAndOutputs:
        """Return the graph, its variables turned into constants, and the names of its outputs: the
        tensors that nothing in it uses.

        Raises:
            FileError: the folder or the checkpoint is missing.
            ModelError: there is no graph beside the variables, or they do not fit together.
        """
        prefix = self._prefix()
        v1 = tensorflow_module().compat.v1
        G_LOGGER.info(f"Loading checkpoint: {prefix.absolute()}")
        graph = tensorflow_module().Graph()
        with (
            graph.as_default(),
            translated_errors("load", prefix),
            v1.Session(graph=graph) as session,
        ):
            saver = v1.train.import_meta_graph(f"{prefix}.meta", clear_devices=True)
            if saver is None:
                raise ModelError(f"{prefix}.meta does not tell how its variables were saved.")
            saver.restore(session, str(prefix))
            helpers = saver.as_saver_def()
            ignored = {op_name(helpers.save_tensor_name), op_name(helpers.filename_tensor_name)}
            return frozen_session(session, final_tensors(graph, ignored))

    def _prefix(self) -> Path:
        folder = Path(self._dir)
        if not folder.is_dir():
            raise FileError(
                f"There is no folder {folder}.",
                path=folder,
                hint="Name the folder of the checkpoint.",
            )
        prefix = folder / (self._name or self._latest(folder))
        if not prefix.with_name(f"{prefix.name}.index").is_file():
            known = sorted(path.stem for path in folder.glob("*.index"))
            raise UnknownNameError(f"In the folder {folder}, the checkpoint", prefix.name, known)
        if not prefix.with_name(f"{prefix.name}.meta").is_file():
            raise ModelError(
                f"The checkpoint {prefix} holds variables alone: there is no {prefix.name}.meta"
                " with the graph.",
                path=prefix,
                hint="Load the model where it is defined, and save it as a SavedModel.",
            )
        return prefix

    def _latest(self, folder: Path) -> str:
        latest = tensorflow_module().train.latest_checkpoint(str(folder))
        if latest is None:
            raise FileError(
                f"The folder {folder} has no file 'checkpoint' that tells the latest one.",
                path=folder,
                hint="Give the name of the checkpoint (--ckpt NAME).",
            )
        return Path(latest).name
