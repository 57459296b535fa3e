"""Loads SavedModels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader
from polygraphy.adapters.tensorflow.errors import translated_errors
from polygraphy.adapters.tensorflow.freezing import frozen_function
from polygraphy.adapters.tensorflow.module import tensorflow_module
from polygraphy.domain.errors import FileError, ModelError, UnknownNameError
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.adapters.tensorflow.module import GraphAndOutputs


graph_from_saved_model: Callable[..., GraphAndOutputs]

_DEFAULT_SIGNATURE = "serving_default"


@mod.export(funcify=True)
class GraphFromSavedModel(BaseLoader):
    """Loads a TensorFlow graph from the folder of a SavedModel, of TensorFlow 1 or 2."""

    def __init__(
        self, path: str, signature: str | None = None, tags: Sequence[str] | None = None
    ) -> None:
        """Name the folder.

        Args:
            path: the folder that holds ``saved_model.pb``.
            signature: which of its functions is run
                (default: ``serving_default``, or else the only one).
            tags: which of its graphs is loaded
                (default: the one for serving, or else the only one).
        """
        self._path = path
        self._signature = signature
        self._tags = tags

    def call_impl(self) -> GraphAndOutputs:
        """Return the graph of one signature, its variables turned into constants, and the names of
        its outputs. They are called as the signature calls them, the inputs of TensorFlow 1 as in
        the graph.

        Raises:
            FileError: there is no such folder.
            ModelError: it holds no SavedModel, or one without signatures.
            UnknownNameError: there is no such signature.
        """
        path = _folder(self._path)
        tf = tensorflow_module()
        G_LOGGER.info(f"Loading SavedModel: {path.absolute()}")
        with translated_errors("load", path):
            model = tf.saved_model.load(str(path), tags=self._tags and list(self._tags))
        function = self._chosen(model, path)
        with translated_errors("load", path):
            return frozen_function(function, _output_names(function))

    def _chosen(self, model: Any, path: Path) -> Any:
        signatures = getattr(model, "signatures", {})
        if not signatures:
            raise ModelError(
                f"The SavedModel {path} has no signature, so nothing in it can be run.",
                path=path,
                hint="Save it with tf.saved_model.save(model, path, signatures=...).",
            )
        only = next(iter(signatures)) if len(signatures) == 1 else _DEFAULT_SIGNATURE
        wanted = only if self._signature is None else self._signature
        if wanted not in signatures:
            raise UnknownNameError(f"In {path}, the signature", wanted, sorted(signatures))
        return signatures[wanted]


def _folder(name: str) -> Path:
    path = Path(name)
    if path.name in ("saved_model.pb", "saved_model.pbtxt"):
        path = path.parent
    if not path.is_dir():
        raise FileError(
            f"SavedModel {path} is no folder." if path.exists() else f"{path} does not exist.",
            path=path,
            hint="Name the folder that holds saved_model.pb.",
        )
    if not any((path / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt")):
        raise ModelError(f"The folder {path} holds no saved_model.pb.", path=path)
    return path


def _output_names(function: Any) -> dict[str, str]:
    """Return what the signature calls its outputs, by tensor of the function."""
    structured = function.structured_outputs
    if not isinstance(structured, dict):
        return {}
    tensors = function.outputs
    return dict(zip((tensor.name for tensor in tensors), sorted(structured)))
