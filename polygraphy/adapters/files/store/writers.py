"""Writes one item per iteration, in memory that does not grow with their number."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from polygraphy.adapters.files.codecs.annotations import ENDING, PLAIN_MEMBER
from polygraphy.adapters.files.codecs.plain_results import plain_results
from polygraphy.adapters.files.formats.torch_codec import is_tensor
from polygraphy.adapters.files.json.content_error import ContentError, content_errors_named
from polygraphy.adapters.files.json.json_writer import JsonList, write_json
from polygraphy.adapters.files.store import json_io
from polygraphy.adapters.os.paths import atomic_file, translated_os_errors
from polygraphy.domain.errors import FileError, UsageError
from polygraphy.domain.results.results import RunResults

_SPOOL_IN_MEMORY_BYTES = 1 << 20


class _Abandoned(Exception):
    """Says to `atomic_file` that the file is not to be kept."""


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """Do as `atomic_file`, but leave an OSError of the block alone: it may be of another file."""
    opened = atomic_file(path)
    stream = opened.__enter__()
    try:
        yield stream
    except BaseException:
        with suppress(_Abandoned):
            opened.__exit__(_Abandoned, _Abandoned(), None)
        raise
    opened.__exit__(None, None, None)


class _Writer:
    """What the writers share: after an error nothing is kept, even if it was caught."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._has_failed = False

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Surround every write; name the file in what goes wrong."""
        path = self._path
        if self._has_failed:
            raise FileError(f"{path} is not written: an earlier item could not be.", path=path)
        self._has_failed = True
        with content_errors_named(f"save to {path}", path), translated_os_errors(path, "write"):
            yield
        self._has_failed = False

    def _finish(self) -> None:
        with self._writing():
            pass


class FeedFileWriter(_Writer):
    """Writes feed dictionaries to one file: a list."""

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        super().__init__(path)
        with self._writing():
            self._feeds = JsonList(stream.write)

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[FeedFileWriter]:
        """Open a file that takes the place of `path` when the block ends without an error."""
        with _replacing(path) as stream:
            writer = cls(path, stream)
            yield writer
            writer._finish()

    def add(self, item: Mapping[str, Any]) -> None:
        """Write one feed dictionary; FileError when that cannot be done."""
        with self._writing():
            self._feeds.add(_plain_feed(item))

    def _finish(self) -> None:
        with self._writing():
            self._feeds.close()


class ResultsFileWriter(_Writer):
    """Writes results to one file.

    In the file, all iterations of a runner stand together. So only those of the first runner are
    written where they belong; those of each other one wait in a temporary file beside it. After
    them the outputs of the first iteration are listed in plain JSON, for other readers.
    """

    def __init__(self, path: Path, stream: IO[bytes], resources: ExitStack) -> None:
        super().__init__(path)
        self._write = stream.write
        self._stream = stream
        self._resources = resources
        self._names: list[str] | None = None
        self._waiting: list[IO[bytes]] = []
        self._iterations: list[JsonList] = []
        self._plain: dict[str, Any] = {}
        with self._writing():
            self._write(b'{\n    "lst": ')
            self._runs = JsonList(self._write, depth=1)

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[ResultsFileWriter]:
        """Open a file that takes the place of `path` when the block ends without an error."""
        with _replacing(path) as stream, ExitStack() as resources:
            writer = cls(path, stream, resources)
            yield writer
            writer._finish()

    def add(self, item: RunResults) -> None:
        """Write the iterations in `item`, whose runners must be those of the items before.

        Raises:
            UsageError: the runners are others.
            FileError: they cannot be written.
        """
        with self._writing():
            if self._names is None:
                self._names = item.keys()
                self._plain = plain_results(item)
                self._start()
            if item.keys() != self._names:
                raise UsageError(
                    f"Results of runners {self._names} cannot go on with those of {item.keys()}."
                )
            for iterations, (_, added) in zip(self._iterations, item):
                for iteration in added:
                    iterations.add(iteration)

    def _start(self) -> None:
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
        self._runs.begin_element()
        run = JsonList(self._write, depth=2)
        run.add(name)
        run.begin_element()
        return run

    def _finish(self) -> None:
        with self._writing():
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
        super().__init__(path)
        self._files: list[Path] = []

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[FolderWriter]:
        """Make the folder if it is not there, and open it for writing."""
        was_there = path.is_dir()
        with translated_os_errors(path, "make the folder"):
            path.mkdir(parents=True, exist_ok=True)
        writer = cls(path)
        try:
            yield writer
            writer._finish()
        except BaseException:
            writer._remove(and_folder=not was_there)
            raise

    def add(self, item: Mapping[str, Any] | RunResults) -> None:
        """Write one file, named after the number of items before; FileError when it cannot be."""
        with self._writing():
            file = self._path / f"{len(self._files):010}.json"
            self._files.append(file)
            json_io.save(item if isinstance(item, RunResults) else _plain_feed(item), file)

    def _remove(self, *, and_folder: bool) -> None:
        with suppress(OSError):
            for file in self._files:
                file.unlink(missing_ok=True)
            if and_folder:
                self._path.rmdir()


def _plain_feed(feed: Mapping[str, Any]) -> dict[str, Any]:
    """Return a feed dictionary of arrays, whatever kind of mapping it was."""
    plain = {}
    for name, array in feed.items():
        if not hasattr(array, "__array__"):
            kind = type(array).__name__
            message = f"input {name!r} is of type {kind!r}, not an array"
            raise ContentError(message, hint="Convert it with numpy.asarray.")
        plain[name] = array if is_tensor(array) else np.asarray(array)
    return plain
