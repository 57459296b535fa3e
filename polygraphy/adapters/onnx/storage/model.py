"""Loads ONNX models and turns them into bytes.

Reads the structure of a model file and leaves its weights where they are.

Nearly all of a model file is the bytes of its weights. This module maps the file into memory and
builds the same model without them: each large weight refers to its position in the file, in the
form that the format has for external weights. So a model of any size, even above protobuf's limit
of 2 GiB, is read in the time that its structure takes.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx.storage.elements import (
    external_files,
    load_external_data,
    store_external_data,
)
from polygraphy.adapters.onnx.storage.parsing import (
    BYTES,
    DEEPEST,
    MODEL,
    PARTS,
    RAW_DATA,
    TENSOR,
    MalformedError,
    check_graph,
    encode_field,
    message_fields,
    translate_errors,
)
from polygraphy.adapters.onnx_common.loadable import evaluate_model
from polygraphy.adapters.os.paths import readable_file, translate_os_errors
from polygraphy.domain.errors import FileError, ModelError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.models import LayerSketch

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto, ValueInfoProto


onnx = mod.lazy_import("onnx")

_SMALL_FILE = 8 << 20
_SMALL = 4096
"""Parts of at most this many bytes are copied unchanged."""


def load_structure(path: str | Path) -> ModelProto:
    """Return a model without its large weights, and without those in other files.

    Raises:
        FileError: the file is missing, a folder, empty or cannot be read.
        ModelError: the file is not an ONNX model, or is truncated.
    """
    path = readable_file(path, "Model")
    with translate_os_errors(path, "read"), path.open("rb") as stream:
        if path.stat().st_size <= _SMALL_FILE:
            content = stream.read()
        else:
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                content = _without_weights(mapped, path)
    with translate_errors(path):
        model: ModelProto = onnx.load_from_string(content)
    if not model.graph.node and not model.graph.output and not model.graph.initializer:
        raise ModelError(f"ONNX model is invalid: {path} contains no graph.", path=path)
    return model


def _without_weights(mapped: mmap.mmap, path: Path) -> bytes:
    """Return the bytes of a model without large weights."""
    try:
        return _MessageCopier(mapped, path.name).message(0, len(mapped), PARTS[MODEL], 0)
    except (MalformedError, IndexError) as error:
        raise ModelError(
            f"ONNX model is invalid: {path} is truncated, damaged, or not an ONNX model.",
            path=path,
            hint="Export or download it again.",
        ) from error


class _MessageCopier:
    """Copies a message without its large weights; unchanged segments are copied in one piece."""

    def __init__(self, mapped: mmap.mmap, name: str) -> None:
        """Set the mapped file, and its name for weights."""
        self._mapped = mapped
        self._name = name

    def message(self, start: int, end: int, parts: Mapping[int, int], depth: int) -> bytes:
        """Return the bytes of a message without the large weights in its `parts`."""
        pieces, copied = [], start
        for number, wire, begin, inner, after in message_fields(self._mapped, start, end):
            kind = parts.get(number)
            if kind is None or wire != BYTES or after - inner <= _SMALL or depth >= DEEPEST:
                continue
            tensor = (
                self._tensor(inner, after)
                if kind == TENSOR
                else self.message(inner, after, PARTS[kind], depth + 1)
            )
            pieces += [self._mapped[copied:begin], encode_field(number, tensor)]
            copied = after
        pieces.append(self._mapped[copied:end])
        return b"".join(pieces)

    def _tensor(self, start: int, end: int) -> bytes:
        """Return the bytes of a tensor, without its elements if it is large."""
        for number, wire, begin, inner, after in message_fields(self._mapped, start, end):
            if number == RAW_DATA and wire == BYTES and after - inner > _SMALL:
                location = {"location": self._name, "offset": inner, "length": after - inner}
                entries = b"".join(
                    encode_field(
                        13, encode_field(1, key.encode()) + encode_field(2, str(value).encode())
                    )
                    for key, value in location.items()
                )
                remaining = self._mapped[start:begin] + self._mapped[after:end]
                # The last bytes encode the field `data_location = EXTERNAL`.
                return remaining + entries + b"\x70\x01"
        return self._mapped[start:end]


bytes_from_onnx: Callable[..., bytes]
onnx_from_bytes: Callable[..., ModelProto]
onnx_from_path: Callable[..., ModelProto]


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
        """Create a loader of the model in a file.

        Args:
            path: the model.
            external_data_dir: folder of its external weights, if not beside it.
            ignore_external_data: whether weights in other files are not loaded.
            map_weights: whether large weights stay in their files, which must not change, until
                their elements are needed. This takes far less memory, but only this package can
                edit, check and save such a model.
        """
        self._path = path
        self._external_data_dir = external_data_dir
        self._ignore_external_data = bool(ignore_external_data)
        self._map_weights = bool(map_weights)

    def call_impl(self) -> ModelProto:
        """Return the loaded model.

        Raises:
            FileError: the file, or a file with its weights, is missing, or the latter lies outside
                the folder.
            ModelError: the file is not an ONNX model, or is truncated.
        """
        path = readable_file(self._path, "Model")
        G_LOGGER.progress(f"Loading model: {path.absolute()}")
        # In a cache, models and weights can be links to another folder, so accept weights there.
        trusted = [] if self._external_data_dir else [path.resolve().parent]
        folder = Path(self._external_data_dir or path.parent)
        if self._map_weights and _is_binary(path):
            model = load_structure(path)
            other_folder = None if self._ignore_external_data else folder
            store_external_data(model, path, other_folder, trusted=trusted)
        else:
            with translate_errors(path):
                model = onnx.load(str(path), load_external_data=False)
            if not self._ignore_external_data:
                load_external_data(model, folder, trusted=trusted)
        check_graph(model, path)
        return model


def _is_binary(path: Path) -> bool:
    """Return whether the onnx package reads a file as binary, by its extension."""
    form = onnx.serialization.registry.get_format_from_file_extension(path.suffix)
    return form in (None, "protobuf")


@mod.export(funcify=True)
class OnnxFromBytes(BaseLoader):
    """Reads a serialized ONNX model."""

    makes_new_model = True

    def __init__(self, serialized_onnx: Deferred[bytes]) -> None:
        """Create a loader of a serialized model, or of the bytes that a loader returns."""
        self._serialized = serialized_onnx

    def call_impl(self) -> ModelProto:
        """Return the model; raise ModelError if the bytes are invalid."""
        with translate_errors("the given bytes"):
            model: ModelProto = onnx.load_from_string(evaluate(self._serialized))
        check_graph(model, "the given bytes")
        return model


@mod.export(funcify=True)
class BytesFromOnnx(BaseLoader):
    """Serializes an ONNX model."""

    def __init__(self, model: Deferred[ModelProto]) -> None:
        """Create a loader that serializes a model, or the model from a loader."""
        self._model = model

    def call_impl(self) -> bytes:
        """Return the bytes; raise ModelError above 2 GiB, the limit of the format."""
        return serialize_model(evaluate_model(self._model))


def serialize_model(model: ModelProto) -> bytes:
    """Return the bytes of a model; raise ModelError above 2 GiB, the limit of the format."""
    try:
        serialized: bytes = model.SerializeToString()
    except Exception as error:  # The implementations of protobuf raise different classes.
        raise ModelError(
            f"The model cannot be serialized: {error}",
            hint="Above 2 GiB, save it with external weights.",
        ) from error
    return serialized


helper = mod.lazy_import("onnx.helper")


def load_onnx(path: str, *, maps_weights: bool = False) -> ModelProto:
    """Return the model in a file, with its weights; see the port."""
    return OnnxFromPath(path, map_weights=maps_weights).call_impl()


def weight_files(path: str) -> list[str]:
    """Return the paths of the files beside a model that hold its weights."""
    folder = readable_file(path, "Model").parent
    return [str(folder / name) for name in external_files(load_structure(path))]


def parse_onnx(content: bytes) -> ModelProto:
    """Return the model in serialized bytes."""
    return OnnxFromBytes(content).call_impl()


def sketch_onnx(
    name: str,
    layers: list[LayerSketch],
    inputs: dict[str, tuple[Any, tuple[int, ...]]],
    outputs: dict[str, tuple[Any, tuple[int, ...]]],
) -> ModelProto:
    """Return a model that a viewer can show but no backend can run; see the port."""
    nodes = [
        helper.make_node(op_type, list(takes), list(gives), name=node_name, **attributes)
        for node_name, op_type, attributes, takes, gives in layers
    ]
    graph = helper.make_graph(
        nodes,
        name or "network",
        [_value(key, *described) for key, described in inputs.items()],
        [_value(key, *described) for key, described in outputs.items()],
    )
    model: ModelProto = helper.make_model(graph)
    return model


def _value(name: str, dtype: Any, shape: tuple[int, ...]) -> ValueInfoProto:
    """Return the declaration of a tensor."""
    dims = [None if dim < 0 else dim for dim in shape]
    value: ValueInfoProto = helper.make_tensor_value_info(name, dtype.onnx(), dims)
    return value


def read_tensor(path: str | Path) -> tuple[str, np.ndarray[Any, Any]]:
    """Return the name and the elements of an ``onnx.TensorProto`` in a file."""
    file = readable_file(path, "Tensor")
    with translate_os_errors(file, "read"):
        content = file.read_bytes()
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(content)
        if not tensor.data_type:
            raise ValueError("it has no data type")
        return str(tensor.name), onnx.numpy_helper.to_array(tensor)
    except Exception as error:  # The implementations of protobuf raise different classes.
        raise FileError(
            f"Could not load {file}: it is not an ONNX tensor ({error}).",
            path=file,
            hint="Sequences and optional values are not supported.",
        ) from error
