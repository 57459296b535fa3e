"""Writes ONNX models, with large weights in files beside them.

Replaces a model and its weight files by new ones, so that a killed process leaves a consistent
pair.

Several files cannot be renamed at once. If a weight file exists, the new weights are first written
beside it under a second name, and a model that reads them there replaces the old one: from then on,
the new pair is complete. Then the old weights are replaced, and then the model by one that refers
to their final name. The second name is removed; after a kill, the next save removes it.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Union

from polygraphy import mod
from polygraphy.adapters.base.loader import BaseLoader, Deferred
from polygraphy.adapters.onnx.storage.elements import (
    elements,
    external_files,
    is_stripped,
    location_of,
)
from polygraphy.adapters.onnx.storage.model import load_structure, serialize_model
from polygraphy.adapters.onnx.storage.parsing import (
    BYTES,
    MODEL,
    PARTS,
    RAW_DATA,
    TENSOR,
    encode_varint,
    message_fields,
)
from polygraphy.adapters.onnx.storage.weights import (
    MARK,
    Place,
    all_tensors,
    byte_size,
    copy_stored,
    is_external,
    is_stored,
    makes_new_model,
    skeleton,
)
from polygraphy.adapters.onnx_common.loadable import evaluate_model
from polygraphy.adapters.onnx_common.messages import copy_of
from polygraphy.adapters.os.paths import (
    StagedFile,
    atomic_file,
    is_abandoned,
    is_empty_file,
    lock_folder,
    short_name,
    stage_file,
)
from polygraphy.domain.errors import FileError, ModelError, UsageError
from polygraphy.logger import G_LOGGER
from polygraphy.termination import defer_signals

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto


if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

    Piece = Union[bytes, TensorProto]


onnx = mod.lazy_import("onnx")

_LARGEST = (1 << 31) - 1
"""The size of the largest message that protobuf reads, in bytes."""


def write_model(model: ModelProto, stream: IO[bytes]) -> None:
    """Write a model as one message that includes stored weights.

    Raises:
        ModelError: it would be larger than the format allows.
        FileError: the file of a stored weight has changed, or cannot be read any more.
    """
    content = serialize_model(model)
    marks = [match.start() for match in re.finditer(re.escape(MARK.encode()), content)]
    if not marks:
        stream.write(content)
        return
    pieces, size = _WeightInserter(content, marks).message(0, len(content), MODEL)
    if size > _LARGEST:
        raise ModelError(
            f"The model cannot be serialized: it would have {size} bytes.",
            hint="Above 2 GiB, save it with external weights.",
        )
    for piece in pieces:
        if isinstance(piece, bytes):
            stream.write(piece)
        else:
            copy_stored(piece, stream)


class _WeightInserter:
    """Inserts stored weights into the bytes of a message, and updates the lengths around them."""

    def __init__(self, content: bytes, marks: list[int]) -> None:
        """Set the message, and the positions of stored weights in it."""
        self._content = content
        self._marks = marks

    def message(self, start: int, end: int, kind: int) -> tuple[list[Piece], int]:
        """Return the pieces of a message, and their total length."""
        if kind == TENSOR:
            return self._tensor(start, end)
        pieces: list[Piece] = []
        copied, size, parts = start, end - start, PARTS[kind]
        for number, wire, begin, inner, after in message_fields(self._content, start, end):
            if number not in parts or wire != BYTES or not self._has_mark(inner, after):
                continue
            encoded, length = self.message(inner, after, parts[number])
            head = encode_varint(number << 3 | BYTES) + encode_varint(length)
            pieces += [self._content[copied:begin] + head, *encoded]
            size += len(head) + length - (after - begin)
            copied = after
        pieces.append(self._content[copied:end])
        return pieces, size

    def _has_mark(self, start: int, end: int) -> bool:
        """Return whether a range of the message contains a stored weight."""
        at = bisect_left(self._marks, start)
        return at < len(self._marks) and self._marks[at] < end

    def _tensor(self, start: int, end: int) -> tuple[list[Piece], int]:
        """Return the pieces of a tensor, with its elements, and their total length."""
        tensor: TensorProto = onnx.TensorProto.FromString(self._content[start:end])
        if not is_stored(tensor):  # The mark was found in other data of the file.
            return [self._content[start:end]], end - start
        bare = copy_of(tensor)
        bare.ClearField("external_data")
        bare.ClearField("data_location")
        content = bare.SerializeToString()
        # Insert the field where protobuf would write it, so that the file equals a model that was
        # never split.
        location = next(
            (
                begin
                for number, _, begin, _, _ in message_fields(content, 0, len(content))
                if number > RAW_DATA
            ),
            len(content),
        )
        length = byte_size(tensor)
        head = content[:location] + encode_varint(RAW_DATA << 3 | BYTES) + encode_varint(length)
        return [head, tensor, content[location:]], len(head) + length + len(content) - location


_CLONE = 0x40049409  # The number of Linux's ioctl FICLONE.
_CHUNK = 1 << 22
_SECOND_NAME = re.compile(r"(.+)\.[a-z0-9_]{8}\.new")


def with_former_files(files: Collection[Path]) -> set[Path]:
    """Return weight files, and the final paths of those with temporary names."""
    paths = (file.with_name(match[1]) for file in files if (match := _match_temporary_name(file)))
    return {*files, *paths}


def _match_temporary_name(file: Path) -> re.Match[str] | None:
    """Return the match if a file has a temporary name; else None."""
    return _SECOND_NAME.fullmatch(file.name)


def replace_together(
    path: Path,
    bare: ModelProto,
    model: StagedFile,
    weights: Mapping[str, StagedFile],
    former: Collection[Path],
) -> None:
    """Move a model and its weights to their final paths.

    Args:
        path: the file of the model.
        bare: the unmodified model written there.
        model: the staged file of the model.
        weights: the staged files of its weights, by their names in the model.
        former: the weight files of the replaced model.

    Raises:
        OSError: a file cannot be moved; the model at the path is then consistent.
    """
    for staged in (*weights.values(), model):
        staged.finish()
    # Two processes that save the same model at once would mix their files.
    with lock_folder(model.target.parent):
        _replace_all(path, bare, model, weights, former)


def _replace_all(
    path: Path,
    bare: ModelProto,
    model: StagedFile,
    weights: Mapping[str, StagedFile],
    former: Collection[Path],
) -> None:
    """Move finished files to their final paths; see `replace_together`."""
    replaced = {name: weight for name, weight in weights.items() if weight.target.exists()}
    fresh = [weight for name, weight in weights.items() if name not in replaced]
    if not replaced or model.part is None:
        with defer_signals():
            for staged in (*fresh, *replaced.values(), model):
                staged.place()
        return
    second: dict[str, Path] = {}
    try:
        for name, staged in replaced.items():
            second[name] = _stage_beside(path.parent / name, staged)
        with stage_file(path) as between:
            _write_naming(bare, {name: file.name for name, file in second.items()}, between)
            between.finish()
            with defer_signals():
                for staged in fresh:
                    staged.place()
                between.place()
                # The model that was just placed needs these files until the new model is in place,
                # so an error must not remove them.
                paths, second = second, {}
                for staged in (*replaced.values(), model):
                    staged.place()
                second = paths
    finally:
        for file in second.values():
            with suppress(OSError):
                file.unlink()
    for file in former:
        if _match_temporary_name(file):
            with suppress(OSError):
                file.unlink()
    for staged in weights.values():
        _remove_leftovers(staged.target)


def _stage_beside(path: Path, staged: StagedFile) -> Path:
    """Copy weights to a file beside their final path, and return its path.

    It is a copy, or a link if there is no room for one: readers refuse weights with several links.
    It is not synced, because it is only needed between two renames.
    """
    assert staged.part is not None
    prefix = f"{short_name(path)}."
    descriptor, new_name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=".new")
    name = Path(new_name)
    try:
        with os.fdopen(descriptor, "wb") as copy, staged.part.open("rb") as source:
            if not _clone_file(source, copy):
                shutil.copyfileobj(source, copy, _CHUNK)
        shutil.copymode(staged.part, name)
    except BaseException as error:
        name.unlink()
        if not isinstance(error, OSError):
            raise
        os.link(staged.part, name)
    return name


def _clone_file(source: IO[bytes], copy: IO[bytes]) -> bool:
    """Make a file share the content of another; return False if the file system cannot."""
    try:
        import fcntl

        fcntl.ioctl(copy.fileno(), _CLONE, source.fileno())
    except (ImportError, OSError):
        return False
    return True


def _write_naming(bare: ModelProto, names: Mapping[str, str], staged: StagedFile) -> None:
    """Write a model that refers to other weight files."""
    model: ModelProto = copy_of(bare)
    for tensor in all_tensors(model):
        if not is_external(tensor) or is_stored(tensor) or location_of(tensor) not in names:
            continue
        for entry in tensor.external_data:
            if entry.key == "location":
                folder = PurePosixPath(entry.value).parent
                entry.value = str(folder / names[entry.value])
    write_model(model, staged.stream)


def _remove_leftovers(target: Path) -> None:
    """Remove files with temporary names that are no longer needed."""
    with suppress(OSError):
        for file in target.parent.iterdir():
            match = _match_temporary_name(file)
            if match and match[1] == short_name(target) and is_abandoned(file):
                file.unlink()


save_onnx: Callable[..., ModelProto]

numpy_helper = mod.lazy_import("onnx.numpy_helper")

_LIMIT = 2_000_000_000  # Limit in bytes: protobuf supports 2 GiB, which includes nodes and names.
_DEFAULT_THRESHOLD = 1024
_LARGE = 1 << 20
# Weights that start at a multiple of this number can be mapped into memory on every system.
_PAGE = 1 << 16
_WORD = 64


@mod.export(funcify=True)
class SaveOnnx(BaseLoader):
    """Writes an ONNX model to a file and returns it."""

    @property
    def makes_new_model(self) -> bool:
        """Return whether only the caller has the model; see `ownership`."""
        return makes_new_model(self._model)

    def __init__(
        self,
        model: Deferred[ModelProto],
        path: str,
        external_data_path: str | None = None,
        size_threshold: int | None = None,
        all_tensors_to_one_file: bool | None = None,
    ) -> None:
        """Set the model and the paths to write.

        Args:
            model: the model, or a loader that returns it.
            path: the file.
            external_data_path: the file for weights, relative to the model's folder; an empty text
                means the model's file name with ``.data`` appended. Weights stay in the model
                unless this is given, or they take 2 GB.
            size_threshold: weights with more bytes are written to that file (default: 1024).
            all_tensors_to_one_file: whether all weights are written to one file (default: True);
                otherwise each gets its own file, with the name of the weight appended.
        """
        self._model = model
        self._path = path
        self._external_data_path = external_data_path
        self._threshold = _DEFAULT_THRESHOLD if size_threshold is None else size_threshold
        self._one_file = all_tensors_to_one_file is not False

    def call_impl(self) -> ModelProto:
        """Write the model atomically, and return it unchanged.

        Raises:
            FileError: a file cannot be written.
            UsageError: the file for weights is the model itself, is outside its folder, contains
                weights that the model still needs, or exists and may belong to another model.
            ModelError: the model is too large even without its weights.
        """
        model = evaluate_model(self._model)
        path = Path(self._path)
        G_LOGGER.info(f"Saving ONNX model to: {path.absolute()}")
        external = self._external_data_path
        if external is None and has_to_be_split(model):
            external = ""
            G_LOGGER.warning(
                "The weights of the model take 2 GB or more. They are saved next to it, in"
                f" {path.name}.data."
            )
        if external is None:
            with atomic_file(path) as stream:
                write_model(model, stream)
            return model
        location = external or f"{path.name}.data"
        _check_location(model, path, location)
        with ExitStack() as files:
            staged = files.enter_context(stage_file(path))
            weights = _WeightFiles(path, location, files, one_file=self._one_file)
            bare = skeleton(
                model,
                lambda tensor: weights.add(tensor) if self._is_external(tensor) else None,
            )
            write_model(bare, staged.stream)
            replace_together(path, bare, staged, weights.staged, weights.replaceable)
        return model

    def _is_external(self, tensor: TensorProto) -> bool:
        """Return whether a weight is written to an external file."""
        return byte_size(tensor) > self._threshold and not is_stripped(tensor)


def save_model(model: ModelProto, path: str) -> None:
    """Write a model of any size, with weights in a file beside it if necessary."""
    SaveOnnx(model, path, external_data_path="").call_impl()


class _WeightFiles:
    """The weight files of a saved model; each is opened when its first weight is written.

    Attributes:
        staged: the files, by their names in the model.
        replaceable: the weight files of the replaced model.
    """

    def __init__(self, model: Path, location: str, files: ExitStack, *, one_file: bool) -> None:
        """Set the paths of the files."""
        self._model = model
        self._folder = model.parent
        self.replaceable = _files_of(model)
        self._location = location
        self._files = files
        self._one_file = one_file
        self.staged: dict[str, StagedFile] = {}

    def add(self, tensor: TensorProto) -> Place:
        """Append the elements of a tensor to its file; return the file name, offset and length."""
        location = self._location if self._one_file else self._own_location(tensor.name)
        if location not in self.staged:
            path = self._folder / location
            is_taken = path.exists() and not is_empty_file(path)
            if is_taken and path.resolve() not in with_former_files(self.replaceable):
                raise UsageError(
                    f"The weights cannot be saved in {path}: the file exists and does not belong"
                    f" to {self._model}. It may belong to a different model.",
                    hint="Choose a different file, or remove that one.",
                )
            self.staged[location] = self._files.enter_context(stage_file(path))
        stream = self.staged[location].stream
        content = None if is_stored(tensor) else _content(tensor)
        length = byte_size(tensor) if content is None else len(content)
        stream.write(bytes(-stream.tell() % (_PAGE if length >= _LARGE else _WORD)))
        entry = (location, stream.tell(), length)
        if content is None:
            copy_stored(tensor, stream)
        else:
            stream.write(content)
        return entry

    def _own_location(self, name: str) -> str:
        """Return an unused file name for a weight."""
        plain = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)
        location, count = f"{self._location}.{plain}", 1
        while location.lower() in map(str.lower, self.staged):
            location, count = f"{self._location}.{plain}.{count}", count + 1
        return location


def has_to_be_split(model: ModelProto) -> bool:
    """Return whether a model is too large for a single file."""
    return _constants_size(model) >= _LIMIT


def _constants_size(model: ModelProto) -> int:
    """Return the bytes of the constants that are saved with the model:
    those in memory, and those in files while it is edited.
    """
    return sum(
        byte_size(tensor)
        for tensor in all_tensors(model)
        if not is_stripped(tensor) and (not is_external(tensor) or is_stored(tensor))
    )


def _files_of(path: Path) -> set[Path]:
    """Return the weight files of the model that `path` contains now, if there is one."""
    if not path.exists():
        return set()
    try:
        named = external_files(load_structure(path))
    except (FileError, ModelError):  # The replaced file need not be a model.
        return set()
    return {(path.parent / location).resolve() for location in named}


def _content(tensor: TensorProto) -> bytes:
    """Return the elements of a tensor as bytes in the layout of the format."""
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    raw: bytes = numpy_helper.from_array(elements(tensor)).raw_data
    return raw


def _check_location(model: ModelProto, path: Path, location: str) -> None:
    """Raise if saving would overwrite weights that are not loaded."""
    folder = path.parent.resolve()
    target = (folder / location).resolve()
    if target == path.resolve():
        raise UsageError(f"The weights cannot be saved in the model file {path} itself.")
    if Path(location).is_absolute() or not target.is_relative_to(folder):
        raise UsageError(
            f"The weights cannot be saved in {location}: it is outside the folder of the model,"
            f" {folder}.",
            hint="Use a path relative to that folder.",
        )
    if location in external_files(model):
        raise UsageError(
            f"Saving weights in {location} would overwrite weights of the model that are not"
            " loaded.",
            hint="Load the external data, or choose a different file.",
        )
