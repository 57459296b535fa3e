"""Writes and reads one item per iteration, in memory that does not grow with their number.

Results as plain JSON values, for readers that do not use this package.

They are saved in a file of results beside the arrays, under ``inference_results``: by kind of
runner and by output the elements of small arrays as nested lists, and statistics of large ones.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from polygraphy.adapters.files.formats.binary import TENSORS
from polygraphy.adapters.files.formats.lazy import StoredArrays, is_unread
from polygraphy.adapters.files.formats.torch_codec import is_tensor
from polygraphy.adapters.files.json.json_codec import (
    ContentError,
    decode_tree,
    marker_of,
    translate_content_errors,
)
from polygraphy.adapters.files.json.json_writer import JsonList, write_json
from polygraphy.adapters.files.store import json_io
from polygraphy.adapters.files.store.json_io import description_of, kind_error, parse_path
from polygraphy.adapters.os.paths import atomic_file, claim_file, translate_os_errors
from polygraphy.domain.arithmetic import summarize
from polygraphy.domain.errors import FileError, UsageError
from polygraphy.domain.results.results import IterationResult, RunResults, kind_of_runner

LARGEST_LISTED = 10_000
"""Arrays of more elements are described by statistics."""


def plain_results(results: RunResults) -> dict[str, dict[str, Any]]:
    """Return the first iteration of every runner as JSON values; equal runner names get numbers."""
    plain: dict[str, dict[str, Any]] = {}
    counts: dict[str, int] = {}
    for name, iterations in results:
        kind = kind_of_runner(name)
        counts[kind] = counts.get(kind, 0) + 1
        label = kind if counts[kind] == 1 else f"{kind}-{counts[kind]}"
        plain[label] = {
            name: _array_values(np.asarray(array))
            for name, array in (iterations[0] if iterations else {}).items()
            # Types whose elements can be listed; PyTorch tensors remain unchanged.
            if isinstance(array, (np.ndarray, np.generic)) and not is_tensor(array)
        }
    return plain


def _array_values(array: np.ndarray[Any, Any]) -> Any:
    """Return an array as nested lists, or its statistics if it is large."""
    if array.size > LARGEST_LISTED:
        return _statistics(array)
    if array.dtype.kind == "c":
        # JSON lacks complex numbers, so write pairs of numbers.
        return np.stack([array.real, array.imag], axis=-1).tolist()
    if array.dtype.kind in "biufU":
        return array.tolist()
    if array.dtype.kind in "OSMm":
        return array.astype(str).tolist()
    # Elements of ml_dtypes' narrow types become Python numbers.
    return array.astype(np.float64).tolist()


def _statistics(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return the shape, data type and statistics of an array."""
    summary = summarize(array, quantiles=())
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "min": _python_number(summary.min),
        "max": _python_number(summary.max),
        "mean": _python_number(summary.mean),
        "std": _python_number(summary.std),
        "median": _python_number(summary.median),
        "nan": summary.nan,
        "inf": summary.posinf + summary.neginf,
    }


def _python_number(value: Any) -> int | float:
    """Return a NumPy number as int or float."""
    return int(value) if isinstance(value, (int, np.integer)) else float(value)


_SAVED: dict[str, tuple[int, int, int]] = {}
"""The files of results that this process wrote, as device, inode and time by absolute path."""

PLAIN_MEMBER = b',\n    "inference_results": '
"""The text before the outputs in plain values."""

ENDING = b',\n    "polygraphy_class": "RunResults"\n}'
"""The end of a results file that this package wrote."""


def annotate(path: Path, facts: Mapping[str, Any]) -> None:
    """Add members to the JSON object in a file of results, which is replaced in one step.

    Raises:
        FileError: the file is not there, was not written here, cannot be written, or another
            process has replaced it.
    """
    with translate_os_errors(path, "read"):
        size = path.stat().st_size
        with path.open("rb") as source:
            saved = _SAVED.pop(os.path.realpath(path), None)
            if saved is not None and saved != _identity(os.fstat(source.fileno())):
                raise FileError(
                    f"Cannot append to {path}: another process has replaced it.", path=path
                )
            source.seek(max(size - len(ENDING), 0))
            if source.read() != ENDING:
                raise FileError(
                    f"Cannot append to {path}: it does not end like saved results.",
                    path=path,
                )
            source.seek(0)
            with atomic_file(path) as target:
                shutil.copyfileobj(source, target, 1 << 20)
                target.seek(size - len(ENDING), os.SEEK_SET)
                target.truncate()
                _write_facts(facts, target.write, path)
                target.write(ENDING)
    _remember(path)


def forget_written(path: Path) -> None:
    """Forget which process wrote a file of results, because it is replaced on purpose."""
    _SAVED.pop(os.path.realpath(path), None)


def _remember(path: Path) -> None:
    """Remember that this process wrote a file of results."""
    with suppress(OSError):  # A pipe that the reader closed has no status.
        _SAVED[os.path.realpath(path)] = _identity(path.stat())


def _identity(found: os.stat_result) -> tuple[int, int, int]:
    """Return the device, the inode and the time of a file."""
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _write_facts(facts: Mapping[str, Any], write: Any, path: Path) -> None:
    """Write facts as members of a JSON object."""
    with translate_content_errors(f"save to {path}", path):
        for name, fact in facts.items():
            write(f',\n    "{name}": '.encode("ascii"))
            write_json(fact, write, depth=1)


_SPOOL_IN_MEMORY_BYTES = 1 << 20


class _AbandonedWrite(Exception):
    """Raised to make `atomic_file` discard the file."""


@contextmanager
def _replace_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that replaces another at the end of the block.
    OSErrors of the block are not translated.
    """
    opened = atomic_file(path)
    stream = opened.__enter__()
    try:
        yield stream
    except BaseException:
        with suppress(_AbandonedWrite):
            opened.__exit__(_AbandonedWrite, _AbandonedWrite(), None)
        raise
    opened.__exit__(None, None, None)


class _Writer:
    """Base class of writers: after an error nothing is kept, even if the caller caught it."""

    def __init__(self, path: Path) -> None:
        """Set the path for messages."""
        self._path = path
        self._has_failed = False

    @contextmanager
    def _guard_write(self) -> Iterator[None]:
        """Surround every write, and name the file in errors."""
        path = self._path
        if self._has_failed:
            raise FileError(f"{path} was not written, because an earlier item failed.", path=path)
        self._has_failed = True
        with translate_content_errors(f"save to {path}", path), translate_os_errors(path, "write"):
            yield
        self._has_failed = False

    def _finish(self) -> None:
        """Finish the file; raise an error if an earlier item failed."""
        with self._guard_write():
            pass


class FeedFileWriter(_Writer):
    """Writes feed dictionaries to one file: a list."""

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        """Write the start of the list."""
        super().__init__(path)
        with self._guard_write():
            self._feeds = JsonList(stream.write)

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[FeedFileWriter]:
        """Yield a writer to a file that replaces `path` when the block ends without an error."""
        with _replace_file(path) as stream:
            writer = cls(path, stream)
            yield writer
            writer._finish()

    def add(self, item: Mapping[str, Any]) -> None:
        """Write one feed dictionary; raise FileError if that fails."""
        with self._guard_write():
            self._feeds.add(_plain_feed(item))

    def _finish(self) -> None:
        """Write the end of the list; raise an error if an item failed."""
        with self._guard_write():
            self._feeds.close()


class ResultsFileWriter(_Writer):
    """Writes results to one file.

    The file contains the iterations runner by runner. Only those of the first runner are written
    there at once; those of other runners are first written to temporary files beside it. After them
    the outputs of the first iteration are listed in plain JSON, for other readers.
    """

    def __init__(self, path: Path, stream: IO[bytes], resources: ExitStack) -> None:
        """Set the file, and the resources that hold temporary files."""
        super().__init__(path)
        self._write = stream.write
        self._stream = stream
        self._resources = resources
        self._names: list[str] | None = None
        self._waiting: list[IO[bytes]] = []
        self._iterations: list[JsonList] = []
        self._plain: dict[str, Any] = {}
        with self._guard_write():
            self._write(b'{\n    "lst": ')
            self._runs = JsonList(self._write, depth=1)

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[ResultsFileWriter]:
        """Yield a writer to a file that replaces `path` when the block ends without an error."""
        with _replace_file(path) as stream, ExitStack() as resources:
            writer = cls(path, stream, resources)
            yield writer
            writer._finish()
        _remember(path)

    def add(self, item: RunResults) -> None:
        """Write the iterations in `item`, whose runners must be those of earlier items.

        Raises:
            UsageError: the runners differ from those of earlier items.
            FileError: they cannot be written.
        """
        with self._guard_write():
            if self._names is None:
                self._names = item.keys()
                self._plain = plain_results(item)
                self._start_runs()
            if item.keys() != self._names:
                raise UsageError(
                    f"Results of runners {self._names} cannot be followed by results of"
                    f" {item.keys()}."
                )
            for iterations, (_, added) in zip(self._iterations, item):
                for iteration in added:
                    iterations.add(iteration)

    def _start_runs(self) -> None:
        """Open the list of iterations of each runner;
        the first goes to the file, others to temporary files.
        """
        for index, name in enumerate(self._names or []):
            if index == 0:
                self._run = self._begin_run(name)
                write = self._write
            else:
                folder = str(self._path.resolve().parent)
                spool = self._resources.enter_context(
                    tempfile.SpooledTemporaryFile(  # noqa: SIM115 - all are closed together
                        _SPOOL_IN_MEMORY_BYTES, dir=folder
                    )
                )
                self._waiting.append(spool)
                write = spool.write
            self._iterations.append(JsonList(write, depth=3))

    def _begin_run(self, name: str) -> JsonList:
        """Write the start of a run, and return the list for its iterations."""
        self._runs.begin_element()
        run = JsonList(self._write, depth=2)
        run.add(name)
        run.begin_element()
        return run

    def _finish(self) -> None:
        """Join the iterations of all runners in the file; raise an error if an item failed."""
        with self._guard_write():
            for iterations in self._iterations:
                iterations.close()
            if self._names:
                self._run.close()
                for name, spool in zip(self._names[1:], self._waiting):
                    run = self._begin_run(name)
                    spool.seek(0)
                    shutil.copyfileobj(spool, self._stream, 1 << 20)
                    run.close()
            self._runs.close()
            if self._plain:
                self._write(PLAIN_MEMBER)
                write_json(self._plain, self._write, depth=1)
            self._write(ENDING)


class FolderWriter(_Writer):
    """Writes one file per item to a folder; after an error, it removes them again."""

    def __init__(self, path: Path) -> None:
        """Set the folder to write to."""
        super().__init__(path)
        self._files: list[Path] = []

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[FolderWriter]:
        """Create the folder if it does not exist, and yield a writer to it."""
        was_there = path.is_dir()
        with translate_os_errors(path, "create the folder"):
            path.mkdir(parents=True, exist_ok=True)
        writer = cls(path)
        try:
            with writer._claim():
                yield writer
                writer._finish()
        except BaseException:
            writer._remove_files(and_folder=not was_there)
            raise

    @contextmanager
    def _claim(self) -> Iterator[None]:
        """Create the first file, so that only one of several processes writes to the folder.

        Raises:
            FileError: another process has created it.
        """
        file = self._file_at(0)
        with ExitStack() as stack:
            with translate_os_errors(self._path, "write"):
                try:
                    stack.enter_context(claim_file(file))
                except FileExistsError as error:
                    raise not_empty_error(self._path, file.name) from error
            yield

    def _file_at(self, number: int) -> Path:
        """Return the path of the file for an item."""
        return self._path / f"{number:010}.json"

    def add(self, item: Mapping[str, Any] | RunResults) -> None:
        """Write one file, named after its position; raise FileError if that fails."""
        with self._guard_write():
            file = self._file_at(len(self._files))
            self._files.append(file)
            json_io.save(item if isinstance(item, RunResults) else _plain_feed(item), file)

    def _remove_files(self, *, and_folder: bool) -> None:
        """Remove the written files, and optionally the folder."""
        with suppress(OSError):
            for file in self._files:
                file.unlink(missing_ok=True)
            if and_folder:
                self._path.rmdir()


def not_empty_error(folder: Path, name: str) -> FileError:
    """Return the error that a folder to write to contains something."""
    return FileError(
        f"The folder {folder} is not empty: it contains {name}.",
        path=folder,
        hint="Empty it, or choose a different folder.",
    )


def _plain_feed(feed: Mapping[str, Any]) -> dict[str, Any]:
    """Return a feed as a dictionary of arrays."""
    plain = {}
    for name, array in feed.items():
        if not hasattr(array, "__array__"):
            kind = type(array).__name__
            message = f"input {name!r} is of type {kind!r}, not an array"
            raise ContentError(message, hint="Convert it with numpy.asarray.")
        plain[name] = array if is_tensor(array) else np.asarray(array)
    return plain


T = TypeVar("T")

Split = Callable[[Any], list[Any]]
"""Takes the tree of a file and returns one tree per iteration."""

Decode = Callable[[Any], T]
"""Decodes an iteration from such a tree."""

_READABLE = (
    "Supported input data: .json, .safetensors, .npy, .npz, .pb, .pt, .bin, .raw and images. For"
    " other formats, use --data-loader-script."
)


def iterate_feeds(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the feed dictionaries in a file or a folder.

    Raises:
        FileError: at the call, if the file (or the first file of a folder) is missing, empty,
            truncated or of another kind; during iteration, if a later file or an array is damaged.
    """
    return _read_iterations(path, dict, split_feeds, decode_feed)


def iterate_results(path: Path) -> Iterator[RunResults]:
    """Yield results one iteration at a time; see `iterate_feeds`."""
    return _read_iterations(path, RunResults, split_results, decode_results)


def _read_iterations(path: Path, kind: type, split: Split, decode: Decode[T]) -> Iterator[T]:
    """Yield the iterations of a file, or of all files in a folder.
    The first file is checked at once.
    """
    files = files_of(path, description_of(kind))
    return _decode_files(files, _iterations_in(files[0], kind, split), kind, split, decode)


def files_of(path: Path, description: str) -> list[Path]:
    """Return a file, or the files of a folder in order.
    Raise FileError for a folder without files."""
    if not path.is_dir():
        return [path]
    with translate_os_errors(path, "read the folder"):
        files = sorted(path.glob("*.json")) or sorted(path.glob(f"*{TENSORS}"))
    if not files:
        message = (
            f"The folder {path} contains no {description}: it has no *.json or *{TENSORS} file."
        )
        is_input = description == description_of(dict)
        raise FileError(message, path=path, hint=_READABLE if is_input else "")
    return files


def _iterations_in(file: Path, kind: type, split: Split) -> list[Any]:
    """Return the undecoded iterations of a file; raise ContentError if there are none."""
    with _name_file_in_errors(file):
        try:
            iterations = split(parse_path(file, f"File of {description_of(kind)}", kind))
        except ContentError as error:
            if kind is dict and file.suffix.lower() != ".json":
                error.hint = error.hint or _READABLE
            raise
        if not iterations:
            raise ContentError("it contains no iterations")
    return iterations


def _decode_files(
    files: list[Path], pending: list[Any], kind: type, split: Split, decode: Decode[T]
) -> Iterator[T]:
    """Yield the decoded iterations of files."""
    for index, file in enumerate(files):
        if index > 0:
            pending = _iterations_in(file, kind, split)
        pending.reverse()
        while pending:  # Remove it from the list: the last iteration closes the file.
            with _name_file_in_errors(file):
                iteration = decode(pending.pop())
            yield iteration


def _name_file_in_errors(file: Path) -> AbstractContextManager[object]:
    """Return a context that names the file in errors."""
    named = ExitStack()
    named.enter_context(translate_content_errors(f"load {file}", file))
    named.enter_context(translate_os_errors(file, "read"))
    return named


def split_feeds(tree: Any) -> list[Any]:
    """Return the trees of feed dictionaries; raise ContentError if there are none."""
    # A file in a folder contains one iteration, not a list.
    iterations = tree if isinstance(tree, list) else [tree]
    if any(not isinstance(feed, dict) or marker_of(feed) is not None for feed in iterations):
        raise kind_error(tree, dict)
    return iterations


def decode_feed(tree: Any) -> dict[str, Any]:
    """Return the arrays of one feed dictionary; raise ContentError if one is damaged."""
    feed: dict[str, Any] = decode_tree(tree)
    if is_unread(feed):
        return StoredArrays(feed)
    for name, array in feed.items():
        if not isinstance(array, np.ndarray) and not is_tensor(array):
            raise ContentError(
                f"input {name!r} is of type {type(array).__name__!r}, not an array",
                hint="Save NumPy arrays, with polygraphy.json.save_json.",
            )
    return feed


def split_results(tree: Any) -> list[Any]:
    """Return, for each iteration, a list of ``(runner name, tree of its outputs)``."""
    runs = runs_in(tree)
    counts = [(name, len(iterations)) for name, iterations in runs]
    if len({count for _, count in counts}) > 1:
        raise ContentError(f"its runners have different numbers of iterations: {counts}")
    names = [name for name, _ in runs]
    return [list(zip(names, step)) for step in zip(*(iterations for _, iterations in runs))]


def runs_in(tree: Any) -> list[tuple[str, list[Any]]]:
    """Return runner names and the trees of their iterations.
    Raise ContentError if there are none."""
    if marker_of(tree) != RunResults.__name__:
        raise kind_error(tree, RunResults)
    try:
        return [(str(name), list(iterations)) for name, iterations in tree["lst"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ContentError(f"the RunResults in it is damaged: {error}") from error


def decode_results(step: Any) -> RunResults:
    """Return the results of one iteration, from pairs of a runner name and the tree of its
    outputs."""
    results = RunResults((name, [decode_tree(tree)]) for name, tree in step)
    for name, (iteration,) in results:
        if not isinstance(iteration, IterationResult):
            kind = type(iteration).__name__
            raise ContentError(f"{kind} found where an iteration of {name!r} is expected")
    return results
