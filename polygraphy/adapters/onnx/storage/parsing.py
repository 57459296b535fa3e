"""Checks of every ONNX model when it is read, such as invalid text and sizes.

The bytes of protobuf messages: reading and writing fields.

The numbers of `PARTS` are those of the fields in onnx.proto.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from re import Pattern
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Union

from polygraphy.domain.errors import ModelError, NotFetchedError, PolygraphyException

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto


# Names of protobuf's errors. The onnx package chooses the parser (binary, text or JSON) by the
# extension of the file.
_UNREADABLE = ("DecodeError", "ParseError", "UnicodeDecodeError")
_REASON_WIDTH = 200
_TOO_DEEP = "MaxDepth"
_LFS = b"version https://git-lfs"


@contextmanager
def translate_errors(source: object) -> Iterator[None]:
    """Convert a protobuf error inside the block to ModelError with the name of the source."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ not in _UNREADABLE:
            raise
        if _TOO_DEEP in str(error):
            raise ModelError(
                f"{source} contains subgraphs that are nested too deeply for protobuf: its limit"
                " is 100 messages, about 30 graphs.",
                path=source,
                hint="Export it with fewer nested branches and loops, or with functions.",
            ) from error
        if _is_pointer(source):
            raise NotFetchedError(
                f"{source} is a Git LFS pointer file: the model was not fetched.",
                path=source,
                hint="Fetch it: git lfs pull.",
            ) from error
        reason = shorten(str(error), _REASON_WIDTH)  # The message may quote the whole file.
        raise ModelError(
            f"ONNX model is invalid: {source} is truncated, damaged, or not an ONNX model."
            f" ({reason})",
            path=source,
            hint="Export or download it again.",
        ) from error


def _is_pointer(source: object) -> bool:
    """Return whether a file is a Git LFS pointer."""
    try:
        with Path(str(source)).open("rb") as stream:
            return stream.read(len(_LFS)) == _LFS
    except (OSError, ValueError):  # The model may have no file.
        return False


def check_graph(model: ModelProto, source: object) -> None:
    """Raise ModelError if a newly read model is invalid.

    Raises:
        ModelError: it has no graph (protobuf accepts nearly every file), or a name in it is not
            valid text, which protobuf does not check.
    """
    if not model.graph.node and not model.graph.output:
        raise ModelError(f"ONNX model is invalid: {source} contains no graph.", path=source)
    names: list[str] = []
    _collect_names(model.graph, names)
    for function in model.functions:
        names += (function.name, function.domain, *function.input, *function.output)
        _collect_node_names(function.node, names)
    decode_texts(names)


def _collect_names(graph: GraphProto, names: list[str]) -> None:
    """Append the names in a graph to a list."""
    for listed in (graph.input, graph.output, graph.value_info, graph.initializer):
        names.extend(value.name for value in listed)
    names.extend(initializer.values.name for initializer in graph.sparse_initializer)
    _collect_node_names(graph.node, names)


def _collect_node_names(nodes: Any, names: list[str]) -> None:
    """Append the names in nodes to a list."""
    for node in nodes:
        names += (node.name, node.op_type, node.domain)
        names.extend(node.input[:])
        names.extend(node.output[:])
        for attribute in node.attribute[:]:
            names.append(attribute.name)
            if attribute.HasField("g"):
                _collect_names(attribute.g, names)
            for inner in attribute.graphs:
                _collect_names(inner, names)


def decode_text(value: str) -> str:
    """Return a string of a message; raise ModelError if it is invalid."""
    return value if isinstance(value, str) else decode_texts((value,))[0]


def decode_texts(values: Iterable[str]) -> tuple[str, ...]:
    """Return strings of a message; raise ModelError if one is invalid."""
    strings = tuple(values)
    check_texts(strings)
    return strings


def check_texts(values: tuple[str | bytes, ...]) -> None:
    """Raise ModelError if a string of a message is invalid.

    Raises:
        ModelError: a string is invalid.
    """
    try:
        "".join(values)  # type: ignore[arg-type]
    except TypeError:
        wrong = next(value for value in values if isinstance(value, bytes))
        raise ModelError(
            f"ONNX model is invalid: the name {wrong!r} is not UTF-8, so the model is damaged.",
            hint="Export or download it again.",
        ) from None


BYTES = 2
"""The wire type of what has a length in front of it."""
DEEPEST = 100  # The depth that protobuf supports.
FIXED = {1: 8, 5: 4}
"""Size in bytes of the wire types with a fixed size."""
_GRAPH, NODE, _ATTRIBUTE, TENSOR, _SPARSE, _FUNCTION, MODEL = range(7)
PARTS: Mapping[int, Mapping[int, int]] = {
    _GRAPH: {1: NODE, 5: TENSOR, 15: _SPARSE},
    NODE: {5: _ATTRIBUTE},
    _ATTRIBUTE: {5: TENSOR, 6: _GRAPH, 10: TENSOR, 11: _GRAPH},
    TENSOR: {},
    _SPARSE: {1: TENSOR, 2: TENSOR},
    _FUNCTION: {7: NODE},
    MODEL: {7: _GRAPH, 25: _FUNCTION},
}
"""Fields of a message that are or contain tensors, with the kind of each, by kind of message."""
RAW_DATA = 9

_OP_TYPE = 4
_LARGE = 1 << 20

Content = Union[mmap.mmap, bytes]


class MalformedError(Exception):
    """Raised if bytes are not a message."""


def message_fields(
    content: Content, start: int, end: int
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield number, wire type, start, content position and end of each field."""
    at = start
    while at < end:
        begin = at
        tag, at = _varint(content, at)
        number, wire = tag >> 3, tag & 7
        inner = at
        if wire == 0:
            _, at = _varint(content, at)
        elif wire == BYTES:
            length, inner = _varint(content, at)
            at = inner + length
            if length > _LARGE and not isinstance(content, bytes):
                # Pages around the data remain mapped, and would add up to half of the weights.
                content.madvise(mmap.MADV_DONTNEED)
        elif wire in FIXED:
            at += FIXED[wire]
        else:
            raise MalformedError
        if at > end or number == 0:
            raise MalformedError
        yield number, wire, begin, inner, at


def _varint(content: Content, at: int) -> tuple[int, int]:
    """Return a number and the position after it."""
    byte = content[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = content[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
        if shift > 63:
            raise MalformedError


def encode_field(number: int, content: bytes) -> bytes:
    """Return the serialized form of a field that holds bytes."""
    return encode_varint(number << 3 | BYTES) + encode_varint(len(content)) + content


def encode_varint(value: int) -> bytes:
    """Return a number in the encoding of the format."""
    varint = bytearray()
    while value > 0x7F:
        varint.append(value & 0x7F | 0x80)
        value >>= 7
    varint.append(value)
    return bytes(varint)


def names_pattern(names: Iterable[str]) -> Pattern[bytes]:
    """Return a pattern that finds any of some names in bytes, faster than parsing the fields."""
    return re.compile(b"|".join(re.escape(name.encode()) for name in sorted(names)))


def operators(path: Path, named: Pattern[bytes]) -> Iterator[str]:
    """Yield the operators in the graph of a model file, without those in subgraphs.

    Args:
        path: the file.
        named: a pattern for the bytes of a node, such as its type; nodes without a match are
            skipped.

    Raises:
        MalformedError, IndexError: the file is not a message.
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as file:
        for number, wire, _, start, end in message_fields(file, 0, len(file)):
            if wire == BYTES and PARTS[MODEL].get(number) == _GRAPH:
                yield from _operators_in_range(file, start, end, named)


def _operators_in_range(
    file: mmap.mmap, start: int, end: int, named: Pattern[bytes]
) -> Iterator[str]:
    """Yield the operators in a part of a file."""
    for number, wire, _, begin, after in message_fields(file, start, end):
        if wire != BYTES or PARTS[_GRAPH].get(number) != NODE:
            continue
        if not named.search(file, begin, after):
            continue
        for part, kind, _, inner, close in message_fields(file, begin, after):
            if part == _OP_TYPE and kind == BYTES:
                yield file[inner:close].decode("utf-8", "replace")


_DIMS, _DATA_TYPE = 1, 2
_CODES = {2, 3, 21, 22, 25, 26}
"""The numbers of the integer types of up to eight bits in onnx.proto."""


def has_integer_matrices(path: Path) -> bool:
    """Return whether a graph has a weight with several axes in integers of up to eight bits.

    Args:
        path: the file of the model.

    Raises:
        MalformedError, IndexError: the file is not a message.
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as file:
        return any(
            PARTS[_GRAPH].get(part) == TENSOR and _is_integer_matrix(file, begin, after)
            for number, wire, _, start, end in message_fields(file, 0, len(file))
            if wire == BYTES and PARTS[MODEL].get(number) == _GRAPH
            for part, kind, _, begin, after in message_fields(file, start, end)
            if kind == BYTES
        )


def _is_integer_matrix(file: mmap.mmap, start: int, end: int) -> bool:
    """Return whether a tensor has several axes and an integer type of up to eight bits."""
    axes = 0
    for number, wire, _, begin, after in message_fields(file, start, end):
        if number == _DIMS:
            # Packed in one field, or a field each; only the last byte of a size is below 128.
            axes += sum(byte < 0x80 for byte in file[begin:after]) if wire == BYTES else 1
        elif number == _DATA_TYPE:
            return wire == 0 and file[begin] in _CODES and axes > 1
    return False


_MODEL_GRAPH, _INPUT, _NAME, _TYPE, _TENSOR_TYPE, _SHAPE = 7, 11, 1, 2, 1, 2


def inputs_of_known_rank(model: Any) -> Collection[str]:
    """Return the inputs with a shape; empty if the model cannot be read.

    Args:
        model: an ``onnx.ModelProto``, its bytes, or its path.
    """
    if hasattr(model, "graph"):
        return {
            value.name for value in model.graph.input if value.type.tensor_type.HasField("shape")
        }
    try:
        if isinstance(model, (bytes, bytearray)):
            return _inputs_with_shape(bytes(model))
        with (
            Path(model).open("rb") as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        ):
            return _inputs_with_shape(mapped)
    except (OSError, ValueError, MalformedError, IndexError):
        return ()


def _inputs_with_shape(content: Content) -> set[str]:
    """Return the names of the inputs with a shape in serialized bytes."""
    ranked: set[str] = set()
    for graph in _field_ranges(content, 0, len(content), _MODEL_GRAPH):
        for start, end in _field_ranges(content, *graph, _INPUT):
            if _has_field(content, start, end, (_TYPE, _TENSOR_TYPE, _SHAPE)):
                names = _field_ranges(content, start, end, _NAME)
                ranked.update(content[at:stop].decode("utf-8", "replace") for at, stop in names)
    return ranked


def _field_ranges(content: Content, start: int, end: int, number: int) -> list[tuple[int, int]]:
    """Return the start and end of each field with a number."""
    return [
        (inner, after)
        for found_index, wire, _, inner, after in message_fields(content, start, end)
        if found_index == number and wire == BYTES
    ]


def _has_field(content: Content, start: int, end: int, numbers: tuple[int, ...]) -> bool:
    """Return whether a message has a field at a path of field numbers."""
    if not numbers:
        return True
    parts = _field_ranges(content, start, end, numbers[0])
    return any(_has_field(content, inner, after, numbers[1:]) for inner, after in parts)


_PACKAGES = frozenset({"google", "onnx"})
_SYMPTOMS = (IndexError, KeyError, OverflowError, RuntimeError, TypeError, ValueError)
"""Errors that the package's C++ and Python code raises for invalid models."""


def without_context(text: str) -> str:
    """Return a message in one line, without the context that onnx appends."""
    return text.partition("==> Context:")[0].strip()


def one_line(error: BaseException) -> str:
    """Return an error in one line: without the context that onnx appends, and for a failed C++
    assertion only its reason.
    """
    text = without_context(" ".join(str(error).split()))
    if "Assertion" in text:
        text = text.rpartition("failed: ")[2]
    for prefix in ("[ShapeInferenceError] ", "[TypeInferenceError] "):
        text = text.removeprefix(prefix)
    return text or type(error).__name__


@contextmanager
def translate_onnx_errors(
    failed: str, kind: type[PolygraphyException] = ModelError, hint: str = ""
) -> Iterator[None]:
    """Convert errors of the onnx package inside the block to errors of this package.

    Args:
        failed: the failed operation, the beginning of the message.
        kind: the class of the error.
        hint: the advice.
    """
    try:
        yield
    except PolygraphyException:
        raise
    except Exception as error:
        package = type(error).__module__.partition(".")[0]
        # protobuf's implementations define their classes in other modules.
        is_foreign = package in _PACKAGES or type(error).__name__ in ("DecodeError", "EncodeError")
        if not is_foreign and not isinstance(error, _SYMPTOMS):
            raise
        raise kind(f"{failed}: {one_line(error)}", hint=hint) from error
