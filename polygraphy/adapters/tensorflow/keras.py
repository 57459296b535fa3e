"""Loads Keras models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile, is_zipfile

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader
from polygraphy.adapters.os.paths import readable_file
from polygraphy.adapters.tensorflow.errors import translated_errors
from polygraphy.adapters.tensorflow.freezing import frozen_function
from polygraphy.adapters.tensorflow.module import tensorflow_module
from polygraphy.adapters.tensorflow.saved_model import graph_from_saved_model
from polygraphy.domain.errors import ModelError, PolygraphyException
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from polygraphy.adapters.tensorflow.module import GraphAndOutputs


graph_from_keras: Callable[..., GraphAndOutputs]


@mod.export(funcify=True)
class GraphFromKeras(BaseLoader):
    """Loads a TensorFlow graph from a Keras model (.keras, .h5, .hdf5)."""

    def __init__(self, path: str) -> None:
        """Name the file; the folder of a SavedModel, which older releases of Keras wrote, will do
        too.
        """
        self._path = path

    def call_impl(self) -> GraphAndOutputs:
        """Return the graph of the model's inference, its weights turned into constants, and the
        names of its outputs: those of the model's inputs, and of the layers that end it.

        Layers that hold Python code (`Lambda`) are refused, as Keras does by default.

        Raises:
            FileError: the file is missing or empty.
            ModelError: it is no Keras model, or one that this release of Keras cannot load.
        """
        if Path(self._path).is_dir():
            return graph_from_saved_model(self._path)
        path = readable_file(self._path, "Model")
        tf = tensorflow_module()
        G_LOGGER.info(f"Loading Keras model: {path.absolute()}")
        if path.suffix == ".keras" and not is_zipfile(path):
            raise ModelError(
                f"{path} is no Keras file, or not all of one: those are zip archives.", path=path
            )
        with _version_named(path), translated_errors("load", path):
            model = tf.keras.models.load_model(str(path), compile=False)
        if not getattr(model, "inputs", None):
            raise ModelError(
                f"The Keras model in {path} does not tell its inputs.",
                path=path,
                hint="Build it with keras.Input, or call it once, before saving it.",
            )
        with translated_errors("load", path):
            return _graph(model)


@contextmanager
def _version_named(path: Path) -> Iterator[None]:
    """Add to an error which release of Keras wrote the file, if it is another."""
    try:
        yield
    except PolygraphyException as error:
        written, here = _version_of(path), tensorflow_module().keras.__version__
        if written is not None and written != here:
            error.hint = f"It was saved by Keras {written}, and this is Keras {here}."
        raise


def _version_of(path: Path) -> str | None:
    """Return the release of Keras that wrote a file; None where it does not tell."""
    try:
        if is_zipfile(path):
            with ZipFile(path) as archive:
                return str(json.loads(archive.read("metadata.json"))["keras_version"])
        import h5py

        with h5py.File(path) as file:
            return str(file.attrs["keras_version"])
    except (BadZipFile, KeyError, OSError, TypeError, ValueError):
        return None


def _graph(model: Any) -> GraphAndOutputs:
    tf = tensorflow_module()
    inputs, outputs = tf.nest.flatten(model.inputs), tf.nest.flatten(model.outputs)

    def infer(*tensors: Any) -> list[Any]:
        fed = tensors[0] if len(tensors) == 1 else list(tensors)
        return list(tf.nest.flatten(model(fed, training=False)))

    signature = [tf.TensorSpec(item.shape, item.dtype, name=item.name) for item in inputs]
    function = tf.function(infer, input_signature=signature).get_concrete_function()
    names = _output_names(model, len(outputs))
    return frozen_function(function, {t.name: name for t, name in zip(function.outputs, names)})


def _output_names(model: Any, count: int) -> list[str]:
    """Return the names of the layers that compute the outputs, or ``output``, ``output_1``, ..."""
    names = getattr(model, "output_names", None)
    if not names:
        names = [layer.name for layer in model.layers[-1:]]
    unique = dict.fromkeys(names)
    if len(unique) != count:
        return ["output", *(f"output_{index}" for index in range(1, count))]
    return list(unique)
