"""Python objects through a socket, large arrays through memory that both processes map.

Nothing of it has a name in a file system, so nothing remains if a process is killed. The memory is
private to the reader: it may write to the arrays, and the sender does not see that.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
import struct
import tempfile
from array import array
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import accumulate
from typing import Any

from polygraphy.adapters.onnx_common.loadable import loadable_form

_HEADER = struct.Struct("<?Q")
"""Whether the parts are in memory, and the number of bytes of their sizes, which follow."""
_LARGE = 1 << 16
"""Bytes from which a message goes through memory: mapping that takes longer than copying less."""
_ALIGNMENT = 64
_WRITTEN_AT_ONCE = 1 << 30
"""Bytes: Linux writes at most 2 GiB in a call."""


class _Pickler(pickle.Pickler):
    """Pickles models in their serialized form, without an additional copy."""

    def __init__(
        self, file: io.BytesIO, parts: list[pickle.PickleBuffer], exit_stack: ExitStack
    ) -> None:
        """Set the list for large parts, and the stack that removes files."""
        super().__init__(file, protocol=5, buffer_callback=parts.append)
        self._held = exit_stack

    def reducer_override(self, value: Any) -> Any:
        """Return how to pickle a model in its serialized form; NotImplemented for other values."""
        if isinstance(value, type) or not hasattr(value, "SerializeToString"):
            return NotImplemented
        source = self._held.enter_context(loadable_form(value))
        if isinstance(source, str):  # Models above protobuf's limit are exchanged as a path.
            return _load_model, (source,)
        return _parse_model, (type(value), pickle.PickleBuffer(source))


def _parse_model(kind: Any, serialized: Any) -> Any:
    """Return a model from its serialized form."""
    return kind.FromString(serialized)


def _load_model(path: str) -> Any:
    """Return the ONNX model of a file."""
    import onnx

    return onnx.load(path)


class Message:
    """An object for another process, valid inside a `with` block until it was read there."""

    def __init__(self, value: Any) -> None:
        """Pickle an object."""
        self._held = ExitStack()
        self._parts: list[pickle.PickleBuffer] = []
        file = io.BytesIO()
        try:
            _Pickler(file, self._parts, self._held).dump(value)
        except BaseException:
            self._held.close()
            raise
        self._pickled = file.getbuffer()

    def __enter__(self) -> Message:
        """Return the message, whose files exist until the end of the block."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Remove the files of the message."""
        self.close()

    def close(self) -> None:
        """Remove the files of models that are too large for a message."""
        self._held.close()

    def send(self, channel: socket.socket) -> None:
        """Write the message to a socket.

        Raises:
            OSError: the reader has ended, or there is not enough memory.
        """
        parts = [self._pickled, *(part.raw() for part in self._parts)]
        sizes = array("Q", [part.nbytes for part in parts])
        is_shared = sum(sizes) >= _LARGE
        header = _HEADER.pack(is_shared, len(sizes) * sizes.itemsize)
        starts = _start_positions(sizes)
        if not is_shared:
            content = bytearray(starts[-1] + sizes[-1])
            for part, start in zip(parts, starts):
                content[start : start + part.nbytes] = part
            channel.sendall(b"".join([header, sizes.tobytes(), content]))
            return
        with _memory_file() as memory:
            for part, start in zip(parts, starts):
                _write_part(memory.fileno(), part, start)
            sent = socket.send_fds(channel, [header], [memory.fileno()])
            channel.sendall(header[sent:] + sizes.tobytes())


def receive(channel: socket.socket) -> list[memoryview]:
    """Return the parts of a message, which `load` converts to an object.

    Raises:
        EOFError: the writer has ended.
        OSError: the connection failed.
    """
    header, descriptors, _, _ = socket.recv_fds(channel, _HEADER.size, 1)
    try:
        remaining_bytes = _read_bytes(channel, _HEADER.size - len(header))
        is_shared, length = _HEADER.unpack(header + remaining_bytes)
        sizes = array("Q", bytes(_read_bytes(channel, length)))
        starts = _start_positions(sizes)
        total = starts[-1] + sizes[-1]
        content: Any = (
            mmap.mmap(descriptors[0], total, access=mmap.ACCESS_COPY)
            if is_shared
            else _read_bytes(channel, total)
        )
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    view = memoryview(content)
    return [view[start : start + size] for start, size in zip(starts, sizes)]


def load(message: Sequence[memoryview]) -> Any:
    """Return the object of a message; its classes must be importable."""
    # Unpickling is safe, because the data is from our own process, through a private socket.
    return pickle.loads(message[0], buffers=message[1:])


def _start_positions(sizes: Sequence[int]) -> list[int]:
    """Return the start positions of parts of these sizes, aligned for their elements."""
    ends = accumulate(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)
    return [0, *ends][:-1]


def _memory_file() -> Any:
    """Return an open file in memory, or a temporary file if the system has none."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("polygraphy"), "wb", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _write_part(descriptor: int, part: memoryview, start: int) -> None:
    """Write bytes to a file from a position."""
    written = 0
    os.ftruncate(descriptor, start + part.nbytes)
    while written < part.nbytes:
        piece = part[written : written + _WRITTEN_AT_ONCE]
        written += os.pwrite(descriptor, piece, start + written)


def _read_bytes(channel: socket.socket, size: int) -> bytearray:
    """Return a number of bytes in new memory, so that arrays over them are writable."""
    content = bytearray(size)
    view = memoryview(content)
    while view:
        count = channel.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return content
