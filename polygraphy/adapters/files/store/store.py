"""The store of this package: JSON files, compatible with other versions of Polygraphy."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import zip_longest
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

from polygraphy.adapters.files.formats.binary import SUFFIXES, TENSORS, tensors_of, write_tensors
from polygraphy.adapters.files.formats.blobs import holds_blobs
from polygraphy.adapters.files.json.json_codec import (
    ContentError,
    decode_tree,
    marker_of,
    translate_content_errors,
)
from polygraphy.adapters.files.store import json_io
from polygraphy.adapters.files.store.json_io import (
    PathOrFile,
    description_of,
    expect,
    kind_error,
    parse_path,
)
from polygraphy.adapters.files.store.writers import (
    FeedFileWriter,
    FolderWriter,
    ResultsFileWriter,
    annotate,
    decode_feed,
    decode_results,
    files_of,
    forget_written,
    iterate_feeds,
    iterate_results,
    not_empty_error,
    runs_in,
    split_feeds,
)
from polygraphy.adapters.os.paths import (
    atomic_file,
    create_temporary_folder,
    ensure_parent,
    is_abandoned,
    is_claim,
    is_empty_file,
    translate_os_errors,
)
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.errors import FileError, UsageError
from polygraphy.domain.ports import ResultWriter
from polygraphy.domain.results.results import RunResults
from polygraphy.logger import G_LOGGER
from polygraphy.ports.models import read_tensor

_WHAT = "saved data"


class StoredData:
    """Implements the port `StoredItems`: keeps the structure of a single file, and nothing of the
    files in a folder."""

    def __init__(self, path: Path) -> None:
        """Read the structure of a file, or of all files in a folder.

        Raises:
            FileError: it is missing, empty, damaged, or holds neither inputs nor results nor
                verdicts; or the files of a folder contain different kinds of data.
        """
        self._files = files_of(path, _WHAT)
        self._tree: Any = None
        with translate_os_errors(path, "read"):
            trees = map(self._parse_file, self._files)
            first = next(trees)
            self.kind = self._kind_of(first)
            self.runs = self._count_iterations(first, trees)
        if len(self._files) == 1:
            self._tree = first

    def _parse_file(self, file: Path) -> Any:
        """Return the JSON tree of a file; raise FileError if it is damaged."""
        with translate_content_errors(f"load {file}", file):
            return parse_path(file, f"File of {_WHAT}")

    def _kind_of(self, tree: Any) -> type:
        """Return the type that a JSON tree encodes: results, accuracy results, or dict for input
        data.
        """
        file = self._files[0]
        with translate_content_errors(f"load {file}", file):
            marker = marker_of(tree)
            if marker is not None:
                for kind in (RunResults, AccuracyResults):
                    if marker == kind.__name__:
                        return kind
                raise kind_error(tree, object)
            split_feeds(tree)
        return dict

    def _count_iterations(self, first: Any, further: Iterator[Any]) -> tuple[tuple[str, int], ...]:
        """Return the number of iterations of each runner in all files; input data are named ""."""
        names, counts = self._runner_counts(self._files[0], first)
        for file, tree in zip(self._files[1:], further):
            more_names, extra_names = self._runner_counts(file, tree)
            if names != more_names:
                with translate_content_errors(f"load {file}", file):
                    raise ContentError(
                        f"it contains {more_names}, but earlier files contain {names}"
                    )
            counts = [sum(pair) for pair in zip(counts, extra_names)]
        return tuple(zip(names, counts))

    def _runner_counts(self, file: Path, tree: Any) -> tuple[list[str], list[int]]:
        """Return the names of the runners, and the number of iterations of each."""
        with translate_content_errors(f"load {file}", file):
            if self.kind is RunResults:
                runs = runs_in(tree)
                return [name for name, _ in runs], [len(iterations) for _, iterations in runs]
            if self.kind is AccuracyResults:
                expect(decode_tree(tree), AccuracyResults, tree)
                return [], []
            return [""], [len(split_feeds(tree))]

    def iterations(self) -> Iterator[Any]:
        """Yield the stored iterations, one after the other."""
        for file in self._files:
            tree = self._parse_file(file) if self._tree is None else self._tree
            with translate_content_errors(f"load {file}", file), translate_os_errors(file, "read"):
                yield from self._decode_iterations(tree)

    def _decode_iterations(self, tree: Any) -> Iterator[Any]:
        """Yield the decoded iterations of a JSON tree."""
        if self.kind is dict:
            yield from map(decode_feed, split_feeds(tree))
            return
        runs = runs_in(tree)
        for step in zip_longest(*(iterations for _, iterations in runs)):
            named = [(name, value) for (name, _), value in zip(runs, step)]
            present = decode_results([(name, value) for name, value in named if value is not None])
            decoded = iter(present)
            yield RunResults(
                next(decoded) if value is not None else (name, []) for name, value in named
            )

    def value(self) -> Any:
        """Return all stored data as one object."""
        if self._tree is None and self.kind is not AccuracyResults:
            steps = list(self.iterations())
            return RunResults.concat(steps) if self.kind is RunResults else steps
        file, tree = self._files[0], self._tree
        with translate_content_errors(f"load {file}", file), translate_os_errors(file, "read"):
            if tree is None:
                raise ContentError("accuracy results cannot be split into several files")
            if self.kind is dict:
                return [decode_feed(feed) for feed in split_feeds(tree)]
            return expect(decode_tree(tree), self.kind, tree)


def save_tensors(item: Mapping[str, Any] | RunResults, path: Path) -> None:
    """Write one iteration to one file, completely or not at all; raise FileError if that fails."""
    with translate_content_errors(f"save to {path}", path):
        tensors, description = tensors_of(item)
        with atomic_file(path) as stream:
            write_tensors(stream, tensors, description)


class TensorWriter:
    """Writes one file per iteration to a temporary folder next to the target.

    At the end, a single file is moved to the path; several files become a folder of that name.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        """Set the target path, and the temporary folder."""
        self._path = path
        self._folder = folder
        self._files: list[Path] = []
        self._has_failed = False

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[TensorWriter]:
        """Yield a writer; after an error, nothing that it wrote remains."""
        target = Path(os.path.realpath(ensure_parent(path)))  # A symbolic link remains a link.
        with translate_os_errors(path, "write"):
            lock, folder = create_temporary_folder(target)
        try:
            writer = cls(target, folder)
            yield writer
            writer._publish()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if lock is not None:
                os.close(lock)

    def add(self, item: Mapping[str, Any] | RunResults) -> None:
        """Write one iteration; raise FileError if that fails."""
        if self._has_failed:
            message = f"{self._path} was not written, because an earlier item failed."
            raise FileError(message, path=self._path)
        self._has_failed = True
        file = self._folder / f"{len(self._files):010}{TENSORS}"
        with translate_content_errors(f"save to {self._path}", self._path):
            tensors, description = tensors_of(item)
            with translate_os_errors(self._path, "write"), file.open("wb") as stream:
                write_tensors(stream, tensors, description)
                stream.flush()
                os.fsync(stream.fileno())
        self._files.append(file)
        self._has_failed = False

    def _publish(self) -> None:
        """Move the written file or folder to its path; raise FileError if an item failed."""
        if self._has_failed:
            message = f"{self._path} was not written, because an earlier item failed."
            raise FileError(message, path=self._path)
        with translate_os_errors(self._path, "write"):
            if len(self._files) == 1 and not self._path.is_dir():
                self._files[0].replace(self._path)
                return
            self._folder.chmod(0o777 & ~_file_mask())
            self._replace_by_folder()

    def _replace_by_folder(self) -> None:
        """Move the written folder to its path, in place of an empty folder or a file."""
        if not self._path.is_file():
            self._folder.replace(self._path)
            return
        aside = self._path.with_name(f"{self._folder.name}.old")
        self._path.replace(aside)
        try:
            self._folder.replace(self._path)
        except BaseException:
            aside.replace(self._path)
            raise
        with suppress(OSError):
            aside.unlink()


def _file_mask() -> int:
    """Return the file mode mask of the process."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


_INPUT = re.compile(r"input_(\d+)\.pb")
_SET = re.compile(r"test_data_set_(\d+)")


def data_sets_in(path: Path) -> list[Path]:
    """Return the folders of input sets in a folder, or the folder itself if it is one.
    The result is empty for other folders.
    """
    if not path.is_dir():
        return []
    if _files_by_number(path, _INPUT):
        return [path]
    return [folder for folder in _files_by_number(path, _SET) if _files_by_number(folder, _INPUT)]


def iterate_data_sets(folders: list[Path]) -> Iterator[dict[str, Any]]:
    """Yield a feed dictionary per folder.
    A tensor without a name is named after its file, and belongs to the input at its position.

    Raises:
        FileError: a file is damaged, or does not contain a tensor.
    """
    for folder in folders:
        feed = {}
        for file in _files_by_number(folder, _INPUT):
            name, array = read_tensor(file)
            feed[name or file.stem] = array
        yield feed


class StoredDataSets:
    """Implements the port `StoredItems` for folders of input sets; each contains one iteration."""

    kind: type = dict

    def __init__(self, folders: list[Path]) -> None:
        """Set the folders; their files are read during iteration."""
        self._folders = folders
        self.runs: tuple[tuple[str, int], ...] = (("", len(folders)),)

    def iterations(self) -> Iterator[dict[str, Any]]:
        """Yield a feed dictionary per folder; raise FileError if a file is damaged."""
        return iterate_data_sets(self._folders)

    def value(self) -> list[dict[str, Any]]:
        """Return all stored input sets."""
        return list(self.iterations())


def _files_by_number(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    """Return the files of a folder that match a pattern, by their number."""
    if not folder.is_dir():
        return []
    with translate_os_errors(folder, "read the folder"):
        numbered = [
            (int(match[1]), entry)
            for entry in folder.iterdir()
            if (match := pattern.fullmatch(entry.name))
        ]
    return [entry for _, entry in sorted(numbered)]


T = TypeVar("T")


class FileResultStore:
    """Saves to and loads from JSON files; implements the port `ResultStore`.

    A path with an extension, or of an existing empty file, is one file. A path without one, or of
    an existing folder, is a folder of files ``0000000000.json``, ``0000000001.json``, ..., one per
    iteration.

    Data of a single iteration have a second form, ``.safetensors``, which is written and read
    faster; several iterations become a folder of that name. ``.npz`` and ``.npy`` files are read,
    and as input data folders ``test_data_set_*`` of the ONNX project.
    """

    def save(self, value: Any, dest: PathOrFile) -> None:
        """Write `value` to one file, completely or not at all.

        Raises:
            FileError: the file cannot be written, or the value has no form in JSON.
        """
        _check_is_written(dest)
        G_LOGGER.info(f"Saving {description_of(type(value))} to {json_io.name_of(dest)}")
        if _is_for_tensors(dest):
            save_tensors(_single_iteration(value, dest), Path(str(dest)))
            return
        json_io.save(value, dest)
        if isinstance(dest, (str, PathLike)):
            forget_written(Path(dest))

    def load(self, source: PathOrFile, kind: type[T]) -> T:
        """Return the object of a kind from one file.

        Raises:
            FileError: it is missing, damaged, or does not hold a `kind`.
        """
        G_LOGGER.progress(f"Loading {description_of(kind)} from {json_io.name_of(source)}")
        return json_io.load(source, kind)

    def dumps(self, value: Any) -> str:
        """Return `value` as JSON text; raise FileError if JSON cannot represent it."""
        return json_io.dumps(value)

    def loads(self, text: str, kind: type[T]) -> T:
        """Return the object of a kind from JSON text; raise FileError if it is damaged."""
        return json_io.loads(text, kind)

    def add_comparison(self, dest: str | Path, record: Mapping[str, Any]) -> None:
        """Add the record of a comparison to a JSON file of results,
        as its member ``comparison_results``; other kinds of files are unchanged.

        Raises:
            FileError: the file is not there, was not written here, or cannot be written.
        """
        path = Path(dest)
        is_json = not _is_folder_path(path) and not _is_for_tensors(path)
        if is_json and (path.is_file() or not path.exists()):
            annotate(path, {"comparison_results": record})

    def writer(self, dest: str | Path, kind: type[T]) -> AbstractContextManager[ResultWriter[T]]:
        """Return a writer of one item per iteration to a file or folder, in constant memory.

        Args:
            dest: the path to write. A file is replaced when the block ends without an error. A
                folder must be empty, if it is there.
            kind: `RunResults`, or `dict` for feed dictionaries.

        Raises:
            FileError: at the call, if the path cannot be written.
            UsageError: the items are of a different kind.
        """
        _check_is_iterable(kind)
        path = Path(dest)
        _check_is_written(path)
        _check_is_free(path)
        G_LOGGER.info(f"Saving {description_of(kind)} to {dest}")
        if _is_for_tensors(path):
            return cast("AbstractContextManager[ResultWriter[T]]", TensorWriter.open(path))
        if _is_folder_path(path):
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
            FileError: at the call, if the file (or the first file of a folder) is missing, damaged
                or of a different kind; during iteration, if a later file or an array is.
            UsageError: the items are of a different kind.
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
            "Iterator[T]", _log_first(items, f"Loading {description_of(kind)} from {source}")
        )

    def look_into(self, source: str | Path) -> StoredData | StoredDataSets:
        """Return the data of a file or folder, opened for reading.

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
                f"{path} contains raw bytes, without data types and shapes.",
                path=path,
                hint="Convert it with the model: polygraphy run MODEL --onnxrt --load-inputs PATH"
                " --save-inputs inputs.json",
            )
        return StoredData(path)


def _log_first(items: Iterator[Any], message: str) -> Iterator[Any]:
    """Yield items, and log a message before the first."""
    G_LOGGER.progress(message)
    yield from items


def _check_is_iterable(kind: type) -> None:
    """Raise UsageError for a kind of value that has no iterations."""
    if kind not in (dict, RunResults):
        message = f"A {kind.__name__} does not consist of iterations."
        raise UsageError(message, hint="Save or load it as a whole.")


def _check_is_written(dest: PathOrFile) -> None:
    """Raise for an extension that is read but not written."""
    suffix = Path(dest).suffix.lower() if isinstance(dest, (str, PathLike)) else ""
    if suffix in SUFFIXES and suffix != TENSORS:
        raise FileError(
            f"Could not save to {dest}: {suffix} files can be read, but not written.",
            path=dest,
            hint=f"Save as .json or {TENSORS}.",
        )


def _is_for_tensors(dest: PathOrFile) -> bool:
    """Return whether a path ends with the suffix for tensor files."""
    return isinstance(dest, (str, PathLike)) and Path(dest).suffix.lower() == TENSORS


def _single_iteration(value: Any, dest: PathOrFile) -> Any:
    """Return results, or the only feed dictionary of a list of one."""
    if isinstance(value, (list, tuple)) and not isinstance(value, RunResults) and len(value) == 1:
        [value] = value
    if not isinstance(value, (dict, RunResults)):
        raise FileError(
            f"Could not save to {dest}: a {TENSORS} file stores the results or input data of one"
            " iteration.",
            path=dest,
            hint="Save it as .json.",
        )
    return value


def _is_folder_path(path: Path) -> bool:
    """Return whether a path is a folder, or would become one:
    it has no suffix, and is neither a device nor an empty file."""
    # For example, /dev/stdout.
    is_device = path.exists() and not path.is_dir() and not path.is_file()
    return path.is_dir() or not (path.suffix or is_device or is_empty_file(path))


def _check_is_free(path: Path) -> None:
    """Raise if a folder cannot be written to: it is not empty, or is a file."""
    ensure_parent(path)
    if not path.exists() or not _is_folder_path(path):
        return
    if not path.is_dir():
        raise FileError(
            f"{path} is a file, but a path without an extension must be a folder.",
            path=path,
            hint="Add an extension such as .json, or choose a different folder.",
        )
    with translate_os_errors(path, "read the folder"):
        content = next(path.iterdir(), None)
    # An ended process may leave the first file claimed; see FolderWriter.
    if content is not None and not (is_claim(content) and is_abandoned(content)):
        raise not_empty_error(path, content.name)
