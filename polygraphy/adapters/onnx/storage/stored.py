"""Weights that stay where they are stored while a model is edited.

A weight that no edit looks at need not be read at all: its tensor says where its bytes are, in the
form that the standard has for weights in other files, and saving the model copies them
from file to file. What an edit computes from such weights goes to a temporary file, so that it
takes no memory either.

A reference names its file by a word that is made up in each process, so that no model that was
read from somewhere can hold one: those are only made here, for files that may be read.

Who else has a model: one that other code has is copied before it is changed.

A comparison of a model with what was made of it would otherwise compare the latter with itself.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from attrs import frozen

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred, evaluate
from polygraphy.adapters.onnx_common.messages import copy_of
from polygraphy.adapters.os.paths import translated_os_errors
from polygraphy.domain.errors import FileError

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto, TensorProto


numpy = mod.lazy_import("numpy")
onnx = mod.lazy_import("onnx")

MARK = f"kept-by-polygraphy-{secrets.token_hex(8)}-"
"""What the location of every such weight begins with."""
_CHUNK = 1 << 20
_EXTERNAL = 1  # The value of `TensorProto.EXTERNAL`, which every tensor is compared with.


@frozen
class StoredFile:
    """A file as it is when a model is read from it.

    Attributes:
        path: the file.
        size: how many bytes it has.
        identity: what changes when it is written or replaced.
    """

    path: Path
    size: int
    identity: tuple[int, ...]

    @classmethod
    def of(cls, path: Path) -> StoredFile:
        """Return the file as it is now; FileError when it cannot be looked at."""
        with translated_os_errors(path, "read"):
            status = path.stat()
            return cls(path.resolve(), status.st_size, _identity(status))

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Open the file; FileError when it is not the same any more."""
        with translated_os_errors(self.path, "read"):
            stream = self.path.open("rb")
        with stream:
            if _identity(os.fstat(stream.fileno())) != self.identity:
                raise FileError(
                    f"{self.path} has changed since the model was read from it, whose weights it"
                    " holds.",
                    path=self.path,
                    hint="Edit the model again.",
                )
            yield stream


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class _Temporary:
    """A file that is gone when the process ends, whatever ends it."""

    def __init__(self) -> None:
        # The process ends before it is closed.
        self._stream: Any = tempfile.TemporaryFile(prefix="polygraphy-")  # noqa: SIM115

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        yield self._stream

    def append(self, content: Any) -> int:
        """Write something at the end, and return where that is."""
        with translated_os_errors(tempfile.gettempdir(), "keep weights in the temporary folder"):
            start = int(self._stream.seek(0, os.SEEK_END))
            self._stream.write(content)
            self._stream.flush()
        return start


_sources: list[StoredFile | _Temporary] = []
"""The files that weights are in."""
_numbers: dict[StoredFile, int] = {}
_temporary: list[int] = []
"""The number of the temporary file, once there is one."""


def is_stored(tensor: TensorProto) -> bool:
    """Return whether the elements of a weight are where it was read from."""
    if tensor.data_location != _EXTERNAL or not tensor.external_data:
        return False
    return str(tensor.external_data[0].value).startswith(MARK)


def refer(tensor: TensorProto, source: StoredFile, offset: int, length: int) -> None:
    """Let a weight say that its elements are in a file."""
    if source not in _numbers:
        _numbers[source] = len(_sources)
        _sources.append(source)
    _refer(tensor, _numbers[source], offset, length)


def _refer(tensor: TensorProto, number: int, offset: int, length: int) -> None:
    del tensor.external_data[:]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", f"{MARK}{number}"), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


def keep(tensor: TensorProto, array: np.ndarray[Any, Any]) -> None:
    """Give a weight other elements, which go to a temporary file; those that it has must have been
    cleared.

    Args:
        tensor: the weight, of the shape and the type of the array.
        array: elements that take whole bytes.

    Raises:
        FileError: there is no room in the temporary folder.
    """
    if not _temporary:
        with translated_os_errors(tempfile.gettempdir(), "write to the temporary folder"):
            _sources.append(_Temporary())
        _temporary.append(len(_sources) - 1)
    [number] = _temporary
    source: Any = _sources[number]
    plain = numpy.ascontiguousarray(array if sys.byteorder == "little" else array.byteswap())
    start = source.append(plain.reshape(-1).view(numpy.uint8))
    _refer(tensor, number, start, plain.nbytes)


def _place(tensor: TensorProto) -> tuple[StoredFile | _Temporary, int, int]:
    location, offset, length = (entry.value for entry in tensor.external_data)
    return _sources[int(location[len(MARK) :])], int(offset), int(length)


def stored_bytes(tensor: TensorProto, *, changing: bool = False) -> np.ndarray[Any, Any]:
    """Return the bytes of a stored weight, mapped from its file.

    Args:
        tensor: the weight.
        changing: whether the array may be written to; the file stays as it is.

    Raises:
        FileError: the file has changed, or cannot be read any more.
    """
    source, offset, length = _place(tensor)
    made: np.ndarray[Any, Any] = numpy.zeros(0, numpy.uint8)
    if length:
        with source.opened() as stream:
            mapped = numpy.memmap(stream, numpy.uint8, "c" if changing else "r", offset, (length,))
            made = mapped.view(numpy.ndarray)
    return made


def load_stored(tensor: TensorProto) -> None:
    """Read the elements of a weight if it is a stored one; raises as `stored_bytes` does."""
    if is_stored(tensor):
        content = stored_bytes(tensor).tobytes()
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
        tensor.raw_data = content


def copy_stored(tensor: TensorProto, stream: IO[bytes]) -> int:
    """Copy the bytes of a stored weight to where a stream is, and return how many there are; raises
    as `stored_bytes` does.
    """
    source, offset, length = _place(tensor)
    with source.opened() as given:
        copied = _copied_by_system(given, offset, length, stream)
        given.seek(offset + copied)
        while copied < length:
            chunk = given.read(min(_CHUNK, length - copied))
            if not chunk:
                raise FileError(f"The file of weight {tensor.name!r} has become shorter.")
            stream.write(chunk)
            copied += len(chunk)
    return length


def _copied_by_system(given: IO[bytes], offset: int, length: int, stream: IO[bytes]) -> int:
    """Copy from file to file without the bytes coming here, as far as the system can; return how
    many it has copied.
    """
    if not hasattr(os, "copy_file_range") or not stream.seekable():
        return 0
    stream.flush()
    copied = 0
    with suppress(OSError):  # Not between these file systems; a full disk shows again right away.
        while copied < length:
            count = os.copy_file_range(
                given.fileno(), stream.fileno(), length - copied, offset + copied
            )
            if not count:
                break
            copied += count
    stream.seek(0, os.SEEK_END)
    return copied


_OWN_PACKAGE = f"{__name__.partition('.')[0]}."


def makes_new_model(source: Any) -> bool:
    """Return whether only the caller has the model that `source` makes.

    That is known of this package's loaders, by their attribute `makes_new_model`. Any other
    callable, a subclass of one of them included, may return a model that it keeps.
    """
    is_ours = type(source).__module__.startswith(_OWN_PACKAGE)
    return is_ours and bool(getattr(source, "makes_new_model", False))


def own_model(source: Deferred[ModelProto], copy: bool | None = None) -> ModelProto:
    """Return a model that may be changed.

    Args:
        source: the model, or a loader that makes it.
        copy: False to change the model in place, shared or not (default: a model that no other code
            has is not copied, any other is).
    """
    model = evaluate(source)
    if copy is False or makes_new_model(source):
        return model
    return copy_of(model)


class BaseLoadOnnxCopy(BaseLoader):
    """The base of a loader that changes a model: `load` returns one that it may change."""

    def __init__(self, model: Deferred[ModelProto], copy: bool | None = None) -> None:
        """Keep what to load.

        Args:
            model: the model, or a loader that makes it.
            copy: False to change a given model in place (default: it stays as it is).
        """
        self._model = model
        self._copy = copy

    def load(self) -> ModelProto:
        """Return the model, or a copy of it."""
        return own_model(self._model, self._copy)
