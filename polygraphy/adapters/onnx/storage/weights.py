"""The weights of an ONNX model: finding them, sizing them, and models without them.

A protobuf message ends at 2 GiB, and every access to the bytes of a weight copies them. So sizes
are computed from shapes, and a model without its large weights is put together again instead of
being copied whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from math import ceil, prod
from typing import TYPE_CHECKING, Any

from polygraphy import mod
from polygraphy.adapters.onnx.storage.parsing import BYTES, FIXED, as_varint, check_texts, field
from polygraphy.adapters.onnx.storage.stored import is_stored
from polygraphy.adapters.onnx_common.messages import graphs_of
from polygraphy.domain.tensors.datatype import DataType, DataTypeEntry

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto


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
    """Translates between our data types and ONNX's numbers."""

    def to_native(self, entry: DataTypeEntry) -> Any:
        """Return the number of a data type."""
        return _NUMBERS.get(entry)

    def from_native(self, dtype: Any) -> DataTypeEntry | None:
        """Return our data type; None for what is no number that is known here."""
        try:
            return _ENTRIES.get(int(dtype))
        except (TypeError, ValueError):
            return None


onnx = mod.lazy_import("onnx")

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
"""Where the bytes of a weight are: the file, seen from the model's folder, offset and length."""


def all_graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and every graph inside its nodes, from the outside to the inside."""
    yield graph
    for node in graph.node:
        for inner in graphs_of(node):
            yield from all_graphs(inner)


def all_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield every constant tensor of a model: initialisers and attributes, in all graphs and
    functions.
    """
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _node_tensors(function.node)


def _graph_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Any) -> Iterator[TensorProto]:
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
    """Return how many bytes the elements of a tensor take; 0 for strings and unknown types."""
    entry = _TYPES.from_native(tensor.data_type)
    return 0 if entry is None else ceil(prod(tensor.dims) * entry.itemsize)


def is_external(tensor: TensorProto) -> bool:
    """Return whether the elements are in another file, and have not been loaded from there."""
    return bool(tensor.data_location == _EXTERNAL)


def weights_size(model: ModelProto) -> int:
    """Return how many bytes the constant tensors take that are in memory."""
    return sum(byte_size(tensor) for tensor in all_tensors(model) if not is_external(tensor))


def without_large_weights(model: ModelProto) -> ModelProto:
    """Return a model that differs only in its initialisers of more than `SMALL` bytes: they claim
    that their elements are in a file, which there is not.
    """

    def place(tensor: TensorProto) -> Place | None:
        size = byte_size(tensor)
        return ("left-out", 0, size) if size > SMALL else None

    return skeleton(model, place)


def skeleton(model: ModelProto, place: Callable[[TensorProto], Place | None]) -> ModelProto:
    """Return a model some of whose initialisers are elsewhere; the given one stays as it is.

    Args:
        model: the model.
        place: says of an initialiser where its elements are, or None to keep them in the model.
            Initialisers whose elements have been left in another file are not asked about.
    """
    made: ModelProto = onnx.ModelProto()
    copy_fields(model, made, "graph")
    _copy_graph(model.graph, made.graph, place)
    return made


def _copy_graph(
    graph: GraphProto, made: GraphProto, place: Callable[[TensorProto], Place | None]
) -> None:
    copy_fields(graph, made, "initializer", "node")
    for tensor in graph.initializer:
        where = None if is_external(tensor) and not is_stored(tensor) else place(tensor)
        copied = made.initializer.add()
        if where is None:
            copied.CopyFrom(tensor)
        else:
            copy_fields(tensor, copied, *DATA_FIELDS)
            copied.data_location = onnx.TensorProto.EXTERNAL
            for key, value in zip(("location", "offset", "length"), where):
                copied.external_data.add(key=key, value=str(value))
    for node in graph.node:
        copied_node = made.node.add()
        if not graphs_of(node):
            copied_node.CopyFrom(node)
            continue
        copy_fields(node, copied_node, "attribute")
        for attribute in node.attribute[:]:
            copied_attribute = copied_node.attribute.add()
            copy_fields(attribute, copied_attribute, "g", "graphs")
            if attribute.HasField("g"):
                _copy_graph(attribute.g, copied_attribute.g, place)
            for inner in attribute.graphs:
                _copy_graph(inner, copied_attribute.graphs.add(), place)


def copy_fields(source: Any, target: Any, *but: str) -> None:
    """Copy the fields of a message that are set, except some; those that only later versions of
    the format know are copied, too.

    Raises:
        ModelError: a text is no UTF-8.
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
    """Return what tells the fields of a message that are not known; looked up once, because every
    node of a model may be asked.
    """
    try:
        from google.protobuf.unknown_fields import (  # type: ignore[import-untyped, unused-ignore]
            UnknownFieldSet,
        )
    except ImportError:  # Before protobuf 4.21.
        return lambda message: message.UnknownFields()
    found: Callable[[Any], Any] = UnknownFieldSet
    return found


def _as_bytes(unknown: Any) -> bytes:
    """Return a field that is not known, as it was read."""
    number, wire, data = unknown.field_number, unknown.wire_type, unknown.data
    tag = as_varint(number << 3 | wire)
    if wire == _VARINT:
        return tag + as_varint(data)
    if wire == BYTES:
        return field(number, data)
    if wire in FIXED:
        return tag + int(data).to_bytes(FIXED[wire], "little")
    return tag + b"".join(map(_as_bytes, data)) + as_varint(number << 3 | _GROUP_END)
