"""The weights of an ONNX model: finding them, sizing them, and models without them; and weights
that stay where they are stored while a model is edited.

A protobuf message is limited to 2 GiB, and every access to the bytes of a weight copies them. So
sizes are computed from shapes, and a model without its large weights is rebuilt instead of copied.

A weight that no edit reads is never loaded: its tensor refers to its file, in the form of the
standard for external weights, and saving copies the bytes from file to file. New elements of such
weights are written to a temporary file, so that they need no memory either.

The name of the file in a reference is a word chosen at random in each process, so that a model from
elsewhere cannot contain one: only this module creates references, for files that may be read.

Ownership: a model that other code also has is copied before it is changed. Otherwise, comparing a
model with its edited version would compare the latter with itself.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from math import ceil, prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from attrs import frozen

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.onnx.storage.parsing import (
    BYTES,
    FIXED,
    check_texts,
    encode_field,
    encode_varint,
)
from polygraphy.adapters.onnx_common.loadable import evaluate_model
from polygraphy.adapters.onnx_common.messages import copy_of, graphs_of
from polygraphy.adapters.os.paths import translate_os_errors
from polygraphy.domain.errors import FileError
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, ModelProto, TensorProto

numpy = mod.lazy_import("numpy")
onnx = mod.lazy_import("onnx")

MARK = f"kept-by-polygraphy-{secrets.token_hex(8)}-"
"""Prefix of the location of a weight that stays in its file."""
_CHUNK = 1 << 20


@frozen
class StoredFile:
    """The state of a file when a model was read from it.

    Attributes:
        path: the file.
        size: size in bytes.
        identity: a value that changes whenever the file is written or replaced.
    """

    path: Path
    size: int
    identity: tuple[int, ...]

    @classmethod
    def of(cls, path: Path) -> StoredFile:
        """Return the file in its current state; raise FileError if it cannot be accessed."""
        with translate_os_errors(path, "read"):
            status = path.stat()
            return cls(path.resolve(), status.st_size, _identity(status))

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the file; raise FileError if it changed."""
        with translate_os_errors(self.path, "read"):
            stream = self.path.open("rb")
        with stream:
            if _identity(os.fstat(stream.fileno())) != self.identity:
                raise FileError(
                    f"{self.path}, which contains weights of the model, changed after the model was"
                    " loaded.",
                    path=self.path,
                    hint="Edit the model again.",
                )
            yield stream


def _identity(status: os.stat_result) -> tuple[int, ...]:
    """Return the values that identify the state of a file."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class _TemporaryFile:
    """A temporary file that is deleted when the process ends, in any way."""

    def __init__(self) -> None:
        """Create the file."""
        # The process may end before the file is closed.
        self._stream: Any = tempfile.TemporaryFile(prefix="polygraphy-")  # noqa: SIM115

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Yield the stream of the temporary file."""
        yield self._stream

    def append(self, content: Any) -> int:
        """Write bytes at the end, and return their offset."""
        with translate_os_errors(tempfile.gettempdir(), "store weights in the temporary folder"):
            start = int(self._stream.seek(0, os.SEEK_END))
            self._stream.write(content)
            self._stream.flush()
        return start


_sources: list[StoredFile | _TemporaryFile] = []
"""The files that weights are in."""
_numbers: dict[StoredFile, int] = {}
_temporary: list[int] = []
"""The number of the temporary file, once there is one."""


def is_stored(tensor: TensorProto) -> bool:
    """Return whether the elements of a weight are still in the file it was read from."""
    if tensor.data_location != _EXTERNAL or not tensor.external_data:
        return False
    return str(tensor.external_data[0].value).startswith(MARK)


def refer(tensor: TensorProto, source: StoredFile, offset: int, length: int) -> None:
    """Make a weight refer to elements in a file."""
    if source not in _numbers:
        _numbers[source] = len(_sources)
        _sources.append(source)
    _refer(tensor, _numbers[source], offset, length)


def _refer(tensor: TensorProto, number: int, offset: int, length: int) -> None:
    """Make a weight refer to a numbered source."""
    del tensor.external_data[:]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", f"{MARK}{number}"), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


def replace_weight(tensor: TensorProto, array: np.ndarray[Any, Any]) -> None:
    """Replace the elements of a weight, and write them to a temporary file.
    The old ones must have been cleared.

    Args:
        tensor: the weight, of the shape and the type of the array.
        array: elements that take whole bytes.

    Raises:
        FileError: the temporary folder is full.
    """
    if not _temporary:
        with translate_os_errors(tempfile.gettempdir(), "write to the temporary folder"):
            _sources.append(_TemporaryFile())
        _temporary.append(len(_sources) - 1)
    [number] = _temporary
    source: Any = _sources[number]
    plain = numpy.ascontiguousarray(array if sys.byteorder == "little" else array.byteswap())
    start = source.append(plain.reshape(-1).view(numpy.uint8))
    _refer(tensor, number, start, plain.nbytes)


def _place(tensor: TensorProto) -> tuple[StoredFile | _TemporaryFile, int, int]:
    """Return the file, the offset and the number of bytes of a stored weight."""
    location, offset, length = (entry.value for entry in tensor.external_data)
    return _sources[int(location[len(MARK) :])], int(offset), int(length)


def map_weight_bytes(tensor: TensorProto, *, is_writable: bool = False) -> np.ndarray[Any, Any]:
    """Return the bytes of a stored weight, mapped from its file.

    Args:
        tensor: the weight.
        is_writable: whether the array may be written to; the file does not change.

    Raises:
        FileError: the file has changed, or cannot be read any more.
    """
    source, offset, length = _place(tensor)
    array: np.ndarray[Any, Any] = numpy.zeros(0, numpy.uint8)
    if length:
        with source.open() as stream:
            mapped = numpy.memmap(
                stream, numpy.uint8, "c" if is_writable else "r", offset, (length,)
            )
            array = mapped.view(numpy.ndarray)
    return array


def load_stored(tensor: TensorProto) -> None:
    """Read the elements of a stored weight.
    Do nothing for others; raises as `map_weight_bytes` does.
    """
    if is_stored(tensor):
        content = map_weight_bytes(tensor).tobytes()
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
        tensor.raw_data = content


def copy_stored(tensor: TensorProto, stream: IO[bytes]) -> int:
    """Copy the bytes of a stored weight to a stream, and return their number.
    It raises as `map_weight_bytes` does.
    """
    source, offset, length = _place(tensor)
    with source.open() as opened:
        copied = _copy_by_system(opened, offset, length, stream)
        opened.seek(offset + copied)
        while copied < length:
            chunk = opened.read(min(_CHUNK, length - copied))
            if not chunk:
                raise FileError(f"The file of weight {tensor.name!r} was truncated.")
            stream.write(chunk)
            copied += len(chunk)
    return length


def _copy_by_system(source: IO[bytes], offset: int, length: int, stream: IO[bytes]) -> int:
    """Copy from file to file inside the operating system; return the number of copied bytes,
    which may be less than the whole.
    """
    if not hasattr(os, "copy_file_range") or not stream.seekable():
        return 0
    stream.flush()
    copied = 0
    # Some file systems do not support `copy_file_range`. A full disk is reported by the next write.
    with suppress(OSError):
        while copied < length:
            count = os.copy_file_range(
                source.fileno(), stream.fileno(), length - copied, offset + copied
            )
            if not count:
                break
            copied += count
    stream.seek(0, os.SEEK_END)
    return copied


_OWN_PACKAGE = f"{__name__.partition('.')[0]}."


def makes_new_model(source: Any) -> bool:
    """Return whether only the caller has the model that `source` returns.

    Loaders of this package state it in their attribute `makes_new_model`. Any other callable,
    including a subclass of them, may return a model that it keeps.
    """
    is_ours = type(source).__module__.startswith(_OWN_PACKAGE)
    return is_ours and bool(getattr(source, "makes_new_model", False))


def own_model(source: Deferred[ModelProto], copy: bool | None = None) -> ModelProto:
    """Return a model that may be changed.

    Args:
        source: the model, or a loader that returns it.
        copy: False to change the model in place, even if it is shared (default: copy it if other
            code may have it).
    """
    model: ModelProto = evaluate_model(source)
    if copy is False or makes_new_model(source):
        return model
    return copy_of(model)


class BaseLoadOnnxCopy(BaseLoader):
    """Base class of loaders that change a model: `load` returns one that may be changed."""

    def __init__(self, model: Deferred[ModelProto], copy: bool | None = None) -> None:
        """Set the model, and whether to copy it.

        Args:
            model: the model, or a loader that returns it.
            copy: False to change a given model in place (default: it is not changed).
        """
        self._model = model
        self._copy = copy

    def load(self) -> ModelProto:
        """Return the model, or a copy of it."""
        return own_model(self._model, self._copy)


# The numbers are part of the file format (onnx.proto), so `onnx` itself is not needed to know them.
_NUMBERS = {
    DataType.FLOAT32: 1,
    DataType.UINT8: 2,
    DataType.INT8: 3,
    DataType.UINT16: 4,
    DataType.INT16: 5,
    DataType.INT32: 6,
    DataType.INT64: 7,
    DataType.STRING: 8,
    DataType.BOOL: 9,
    DataType.FLOAT16: 10,
    DataType.FLOAT64: 11,
    DataType.UINT32: 12,
    DataType.UINT64: 13,
    DataType.COMPLEX64: 14,
    DataType.COMPLEX128: 15,
    DataType.BFLOAT16: 16,
    DataType.FLOAT8E4M3FN: 17,
    DataType.FLOAT8E4M3FNUZ: 18,
    DataType.FLOAT8E5M2: 19,
    DataType.FLOAT8E5M2FNUZ: 20,
    DataType.UINT4: 21,
    DataType.INT4: 22,
    DataType.FLOAT4: 23,
    DataType.FLOAT8E8M0: 24,
    DataType.UINT2: 25,
    DataType.INT2: 26,
}
_ENTRIES = {number: entry for entry, number in _NUMBERS.items()}


class OnnxDataTypes:
    """Converts between this package's data types and ONNX's numbers."""

    def to_native(self, entry: DataTypeEntry) -> Any:
        """Return the number of a data type."""
        return _NUMBERS.get(entry)

    def from_native(self, dtype: Any) -> DataTypeEntry | None:
        """Return this package's data type; None for unknown numbers."""
        try:
            return _ENTRIES.get(int(dtype))
        except (TypeError, ValueError):
            return None


SMALL = 1024
"""Weights up to this many bytes may be shapes or sizes, whose values other shapes depend on."""

_TYPES = OnnxDataTypes()
_EXTERNAL = 1
"""The value of `TensorProto.EXTERNAL`, which is compared with for every tensor of a model."""
DATA_FIELDS = frozenset(
    {
        "raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data",
        "uint64_data", "external_data", "data_location",
    }
)  # fmt: skip

_VARINT, _GROUP_END = 0, 4  # Wire types.

Place = tuple[str, int, int]
"""File of a weight's bytes relative to the model's folder, offset and length."""


def all_graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and all its subgraphs, from the outside to the inside."""
    yield graph
    for node in graph.node:
        for inner in graphs_of(node):
            yield from all_graphs(inner)


def load_weights(model: ModelProto) -> ModelProto:
    """Return a model with all weights in memory.
    It is a copy if some were in a file, because backends that receive messages cannot read them."""
    if not any(map(is_stored, all_tensors(model))):
        return model
    weights: ModelProto = copy_of(model)
    for tensor in all_tensors(weights):
        load_stored(tensor)
    return weights


def all_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield every constant tensor of a model: initializers and attributes, in all graphs and
    functions.
    """
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _node_tensors(function.node)


def _graph_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """Yield all weights of a graph, including sparse ones and those in nodes."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Any) -> Iterator[TensorProto]:
    """Yield the tensors in the attributes and subgraphs of nodes."""
    for node in nodes:
        for attribute in node.attribute[:]:
            if attribute.HasField("t"):
                yield attribute.t
            elif attribute.HasField("g"):
                yield from _graph_tensors(attribute.g)
            else:
                yield from attribute.tensors
                for inner in attribute.graphs:
                    yield from _graph_tensors(inner)


def byte_size(tensor: TensorProto) -> int:
    """Return the number of bytes of the elements of a tensor; 0 for strings and unknown types."""
    entry = _TYPES.from_native(tensor.data_type)
    return 0 if entry is None else ceil(prod(tensor.dims) * entry.itemsize)


def is_external(tensor: TensorProto) -> bool:
    """Return whether the elements are in another file, and are not loaded."""
    return bool(tensor.data_location == _EXTERNAL)


def weights_size(model: ModelProto) -> int:
    """Return the number of bytes of the constants that are in memory."""
    return sum(byte_size(tensor) for tensor in all_tensors(model) if not is_external(tensor))


def without_large_weights(model: ModelProto) -> ModelProto:
    """Return a model that differs only in its initializers of more than `SMALL` bytes:
    they refer to a file that does not exist.
    """

    def external_location(tensor: TensorProto) -> Place | None:
        """Return file name, offset and length for a large weight; None for a small one."""
        size = byte_size(tensor)
        return ("left-out", 0, size) if size > SMALL else None

    return skeleton(model, external_location)


def skeleton(model: ModelProto, place_of: Callable[[TensorProto], Place | None]) -> ModelProto:
    """Return a model with initializers replaced by references to files, as `place_of` decides.
    The original is unchanged.

    Args:
        model: the model.
        place_of: returns file name, offset and length for the elements of an initializer, or
            None to keep them in the model. It is not called for initializers in other files.
    """
    new_model: ModelProto = onnx.ModelProto()
    copy_fields(model, new_model, "graph")
    _copy_graph(model.graph, new_model.graph, place_of)
    return new_model


def _copy_graph(
    graph: GraphProto, new_graph: GraphProto, place_of: Callable[[TensorProto], Place | None]
) -> None:
    """Copy a graph, with some of its initializers elsewhere."""
    copy_fields(graph, new_graph, "initializer", "node")
    for tensor in graph.initializer:
        where = None if is_external(tensor) and not is_stored(tensor) else place_of(tensor)
        copied = new_graph.initializer.add()
        if where is None:
            copied.CopyFrom(tensor)
        else:
            copy_fields(tensor, copied, *DATA_FIELDS)
            copied.data_location = onnx.TensorProto.EXTERNAL
            for key, value in zip(("location", "offset", "length"), where):
                copied.external_data.add(key=key, value=str(value))
    for node in graph.node:
        copied_node = new_graph.node.add()
        if not graphs_of(node):
            copied_node.CopyFrom(node)
            continue
        copy_fields(node, copied_node, "attribute")
        for attribute in node.attribute[:]:
            copied_attribute = copied_node.attribute.add()
            copy_fields(attribute, copied_attribute, "g", "graphs")
            if attribute.HasField("g"):
                _copy_graph(attribute.g, copied_attribute.g, place_of)
            for inner in attribute.graphs:
                _copy_graph(inner, copied_attribute.graphs.add(), place_of)


def copy_fields(source: Any, target: Any, *but: str) -> None:
    """Copy the set fields of a message, except some.
    Fields from later versions of the format are copied too.

    Raises:
        ModelError: a text is not UTF-8.
    """
    try:
        _copy_known_fields(source, target, but)
    except UnicodeDecodeError as error:
        check_texts((error.object,))
        raise
    unknown = _unknown_fields()(source)
    if len(unknown):
        target.MergeFromString(b"".join(map(_as_bytes, unknown)))


def _copy_known_fields(source: Any, target: Any, but: tuple[str, ...]) -> None:
    """Copy the set fields of a message that this version knows, except some."""
    for described in source.DESCRIPTOR.fields:
        name = described.name
        if name in but:
            continue
        value = getattr(source, name)
        if hasattr(value, "extend"):
            getattr(target, name).extend(value)
        elif described.message_type is not None:
            if source.HasField(name):
                getattr(target, name).CopyFrom(value)
        elif source.HasField(name):
            setattr(target, name, value)


@cache
def _unknown_fields() -> Callable[[Any], Any]:
    """Return a function that lists the unknown fields of a message.
    It is looked up once, because every node of a model may be asked.
    """
    try:
        from google.protobuf.unknown_fields import (  # type: ignore[import-untyped, unused-ignore]
            UnknownFieldSet,
        )
    except ImportError:  # The module has a different name before protobuf 4.21.
        return lambda message: message.UnknownFields()
    unknownfieldset: Callable[[Any], Any] = UnknownFieldSet
    return unknownfieldset


def _as_bytes(unknown: Any) -> bytes:
    """Return an unknown field as the bytes that were read."""
    number, wire, data = unknown.field_number, unknown.wire_type, unknown.data
    tag = encode_varint(number << 3 | wire)
    if wire == _VARINT:
        return tag + encode_varint(data)
    if wire == BYTES:
        return encode_field(number, data)
    if wire in FIXED:
        return tag + int(data).to_bytes(FIXED[wire], "little")
    return tag + b"".join(map(_as_bytes, data)) + encode_varint(number << 3 | _GROUP_END)
