"""Loads ONNX models and turns them into bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx.storage.external import load_external_data, store_external_data
from polygraphy.adapters.onnx.storage.mapped import load_structure
from polygraphy.adapters.onnx.storage.parsing import check_graph, translated_errors
from polygraphy.adapters.os.paths import readable_file
from polygraphy.domain.errors import ModelError
from polygraphy.logger import G_LOGGER

if TYPE_CHECKING:
    from onnx import ModelProto


bytes_from_onnx: Callable[..., bytes]
onnx_from_bytes: Callable[..., ModelProto]
onnx_from_path: Callable[..., ModelProto]

onnx = mod.lazy_import("onnx")


@mod.export(funcify=True)
class OnnxFromPath(BaseLoader):
    """Loads an ONNX model from a file."""

    makes_new_model = True

    def __init__(
        self,
        path: str,
        external_data_dir: str | None = None,
        ignore_external_data: bool | None = None,
        map_weights: bool | None = None,
    ) -> None:
        """Name the file.

        Args:
            path: the model.
            external_data_dir: where the files with its weights are, if not beside it.
            ignore_external_data: whether weights in other files are left out.
            map_weights: whether large weights stay in the files that they are in, which must not
                change, until something needs their elements. Only what this package offers to
                change, check and save models can handle such a model, which takes far less memory.
        """
        self._path = path
        self._external_data_dir = external_data_dir
        self._ignore_external_data = bool(ignore_external_data)
        self._map_weights = bool(map_weights)

    def call_impl(self) -> ModelProto:
        """Load the model.

        Raises:
            FileError: the file, or a file with its weights, is missing, or the latter lies outside
                the folder.
            ModelError: the file is no ONNX model, or a truncated one.
        """
        path = readable_file(self._path, "Model")
        G_LOGGER.info(f"Loading model: {path.absolute()}")
        # A model in a cache may be a link, as its weights are, to where both really lie.
        trusted = [] if self._external_data_dir else [path.resolve().parent]
        folder = Path(self._external_data_dir or path.parent)
        if self._map_weights and _is_binary(path):
            model = load_structure(path)
            others = None if self._ignore_external_data else folder
            store_external_data(model, path, others, trusted=trusted)
        else:
            with translated_errors(path):
                model = onnx.load(str(path), load_external_data=False)
            if not self._ignore_external_data:
                load_external_data(model, folder, trusted=trusted)
        check_graph(model, path)
        return model


def _is_binary(path: Path) -> bool:
    """Return whether the onnx package takes a file for a binary one, by its extension."""
    form = onnx.serialization.registry.get_format_from_file_extension(path.suffix)
    return form in (None, "protobuf")


@mod.export(funcify=True)
class OnnxFromBytes(BaseLoader):
    """Reads a serialised ONNX model."""

    makes_new_model = True

    def __init__(self, serialized_onnx: Deferred[bytes]) -> None:
        """Take the bytes, or a loader that makes them."""
        self._serialized = serialized_onnx

    def call_impl(self) -> ModelProto:
        """Return the model; ModelError when the bytes are none."""
        with translated_errors("the given bytes"):
            model: ModelProto = onnx.load_from_string(evaluate(self._serialized))
        check_graph(model, "the given bytes")
        return model


@mod.export(funcify=True)
class BytesFromOnnx(BaseLoader):
    """Serialises an ONNX model."""

    def __init__(self, model: Deferred[ModelProto]) -> None:
        """Take the model, or a loader that makes it."""
        self._model = model

    def call_impl(self) -> bytes:
        """Return the bytes; ModelError above 2 GiB, the limit of the format."""
        return serialized(evaluate(self._model))


def serialized(model: ModelProto) -> bytes:
    """Return the bytes of a model; ModelError above 2 GiB, the limit of the format."""
    try:
        made: bytes = model.SerializeToString()
    except Exception as error:  # protobuf's implementations differ in the class that they raise
        raise ModelError(
            f"The model cannot be serialised: {error}",
            hint="Above 2 GiB, save it with external weights.",
        ) from error
    return made
