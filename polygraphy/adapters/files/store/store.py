"""The store of this package: JSON files that other versions of Polygraphy read, and the reverse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

from polygraphy.adapters.files.codecs.annotations import annotate
from polygraphy.adapters.files.formats.binary import SUFFIXES, TENSORS
from polygraphy.adapters.files.formats.blobs import holds_blobs
from polygraphy.adapters.files.formats.data_sets import (
    StoredDataSets,
    data_sets_in,
    iterate_data_sets,
)
from polygraphy.adapters.files.store import json_io
from polygraphy.adapters.files.store.iterations import iterate_feeds, iterate_results
from polygraphy.adapters.files.store.json_io import PathOrFile
from polygraphy.adapters.files.store.kinds import description_of
from polygraphy.adapters.files.store.stored import StoredData
from polygraphy.adapters.files.store.tensor_writer import TensorWriter, save_tensors
from polygraphy.adapters.files.store.writers import FeedFileWriter, FolderWriter, ResultsFileWriter
from polygraphy.adapters.os.paths import ensure_parent, is_empty_file, translated_os_errors
from polygraphy.domain.asked import ResultWriter
from polygraphy.domain.errors import FileError, UsageError
from polygraphy.domain.results.results import RunResults
from polygraphy.logger import G_LOGGER

T = TypeVar("T")


class FileResultStore:
    """Saves to and loads from JSON files; implements the port `ResultStore`.

    A path with an extension, or of an empty file that is there, is one file. A path without one,
    or of a folder that is there, is a folder of files ``0000000000.json``, ``0000000001.json``,
    ..., one per iteration.

    Data of a single iteration have a second form, ``.safetensors``, which is written and read
    faster; several iterations become a folder of that name. ``.npz`` and ``.npy`` files are read,
    and as input data folders ``test_data_set_*`` of the ONNX project.
    """

    def save(self, value: Any, dest: PathOrFile) -> None:
        """Write `value` to one file, whole or not at all.

        Raises:
            FileError: the file cannot be written, or the value has no form in JSON.
        """
        _check_is_written(dest)
        G_LOGGER.info(f"Saving {description_of(type(value))} to {json_io.name_of(dest)}")
        if _is_for_tensors(dest):
            save_tensors(_one_iteration(value, dest), Path(str(dest)))
        else:
            json_io.save(value, dest)

    def load(self, source: PathOrFile, kind: type[T]) -> T:
        """Read one file.

        Raises:
            FileError: it is missing, damaged, or does not hold a `kind`.
        """
        G_LOGGER.info(f"Loading {description_of(kind)} from {json_io.name_of(source)}")
        return json_io.load(source, kind)

    def dumps(self, value: Any) -> str:
        """Return `value` as JSON text; FileError when it has no form in JSON."""
        return json_io.dumps(value)

    def loads(self, text: str, kind: type[T]) -> T:
        return json_io.loads(text, kind)

    def add_comparison(self, dest: str | Path, record: Mapping[str, Any]) -> None:
        """Add what a comparison found to a JSON file of results, as its member
        ``comparison_results``. Folders, devices and files of nothing but tensors have no place for
        it, so they stay as they are.

        Raises:
            FileError: the file is not there, was not written here, or cannot be written.
        """
        path = Path(dest)
        is_json = not _is_folder(path) and not _is_for_tensors(path)
        if is_json and (path.is_file() or not path.exists()):
            annotate(path, {"comparison_results": record})

    def writer(self, dest: str | Path, kind: type[T]) -> AbstractContextManager[ResultWriter[T]]:
        """Open a file or folder to write one item per iteration, in memory of a constant size.

        Args:
            dest: where to write. A file is replaced when the block ends without an error. A folder
                must be empty, if it is there.
            kind: `RunResults`, or `dict` for feed dictionaries.

        Raises:
            FileError: at the call, when it cannot be written there.
            UsageError: the items are of another kind.
        """
        _check_is_iterable(kind)
        path = Path(dest)
        _check_is_written(path)
        _check_is_free(path)
        G_LOGGER.info(f"Saving {description_of(kind)} to {dest}")
        if _is_for_tensors(path):
            return cast("AbstractContextManager[ResultWriter[T]]", TensorWriter.open(path))
        if _is_folder(path):
            return cast("AbstractContextManager[ResultWriter[T]]", FolderWriter.open(path))
        opened = ResultsFileWriter.open(path) if kind is RunResults else FeedFileWriter.open(path)
        return cast("AbstractContextManager[ResultWriter[T]]", opened)

    def iterate(self, source: str | Path, kind: type[T]) -> Iterator[T]:
        """Yield the items of a file or folder, one per iteration; only one is in memory.

        Args:
            source: a file, or a folder, whose files ``*.json`` are read in the order of their
                names.
            kind: `RunResults`, or `dict` for feed dictionaries.

        Raises:
            FileError: at the call, when what is there (in a folder the first file) is missing,
                damaged or something else. While iterating, when a further file or an array is.
            UsageError: the items are of another kind.
        """
        _check_is_iterable(kind)
        path = Path(source)
        data_sets = data_sets_in(path) if kind is dict else []
        items: Iterator[Any]
        if data_sets:
            items = iterate_data_sets(data_sets)
        else:
            items = iterate_results(path) if kind is RunResults else iterate_feeds(path)
        return cast(
            "Iterator[T]", _announced(items, f"Loading {description_of(kind)} from {source}")
        )

    def look_into(self, source: str | Path) -> StoredData | StoredDataSets:
        """Find out what a file or folder holds.

        Raises:
            FileError: it is missing, empty, damaged, or holds neither inputs nor results nor
                verdicts.
        """
        path = Path(source)
        data_sets = data_sets_in(path)
        if data_sets:
            return StoredDataSets(data_sets)
        if holds_blobs(path):
            raise FileError(
                f"{path} holds bare bytes, whose data types and shapes only a model tells.",
                path=path,
                hint="polygraphy run MODEL --onnxrt --load-inputs PATH --save-inputs inputs.json"
                " tells them, and inputs.json can be read.",
            )
        return StoredData(path)


def _announced(items: Iterator[Any], message: str) -> Iterator[Any]:
    """Log when the first item is asked for: files are checked long before they are used."""
    G_LOGGER.info(message)
    yield from items


def _check_is_iterable(kind: type) -> None:
    if kind not in (dict, RunResults):
        message = f"A {kind.__name__} does not consist of iterations."
        raise UsageError(message, hint="Save or load it as a whole.")


def _check_is_written(dest: PathOrFile) -> None:
    """Complain about extensions of files that are only read here."""
    suffix = Path(dest).suffix.lower() if isinstance(dest, (str, PathLike)) else ""
    if suffix in SUFFIXES and suffix != TENSORS:
        raise FileError(
            f"Could not save to {dest}: {suffix} files are read here, but not written.",
            path=dest,
            hint=f"Save as .json or {TENSORS}.",
        )


def _is_for_tensors(dest: PathOrFile) -> bool:
    return isinstance(dest, (str, PathLike)) and Path(dest).suffix.lower() == TENSORS


def _one_iteration(value: Any, dest: PathOrFile) -> Any:
    """Return results, or the feed dictionary that is meant by a list of one."""
    if isinstance(value, (list, tuple)) and not isinstance(value, RunResults) and len(value) == 1:
        [value] = value
    if not isinstance(value, (dict, RunResults)):
        raise FileError(
            f"Could not save to {dest}: a {TENSORS} file takes results, or the input data, of one"
            " iteration.",
            path=dest,
            hint="Save it as .json.",
        )
    return value


def _is_folder(path: Path) -> bool:
    is_device = path.exists() and not path.is_dir() and not path.is_file()  # As /dev/stdout.
    return path.is_dir() or not (path.suffix or is_device or is_empty_file(path))


def _check_is_free(path: Path) -> None:
    """Complain about a folder that is not empty, or is none, before anything is computed for it."""
    ensure_parent(path)
    if not path.exists() or not _is_folder(path):
        return
    if not path.is_dir():
        raise FileError(
            f"{path} is a file, but a path without an extension names a folder.",
            path=path,
            hint="Add an extension such as .json, or name another folder.",
        )
    with translated_os_errors(path, "read the folder"):
        content = next(path.iterdir(), None)
    if content is not None:
        raise FileError(
            f"The folder {path} is not empty: {content.name} is in it.",
            path=path,
            hint="Empty it, or name another folder.",
        )
