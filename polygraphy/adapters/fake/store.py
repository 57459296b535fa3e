"""Results and text files in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from io import TextIOBase
from os import PathLike
from pathlib import PurePath
from typing import IO, Any, Generic, TypeVar, Union, cast

from attrs import frozen

from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.errors import FileError, MissingFileError, UsageError
from polygraphy.domain.ports import ResultWriter
from polygraphy.domain.results.results import RunResults

T = TypeVar("T")

PathOrFile = Union[str, "PathLike[str]", IO[Any]]

_TOKEN = "memory:"


@frozen
class _Folder:
    """A folder: its items, one per iteration."""

    items: tuple[Any, ...]


class MemoryResultStore:
    """Stores copies of values in a dictionary; implements the port `ResultStore`.

    Open files and JSON text hold a token in place of the value, which only this store can read.

    Attributes:
        values: the saved values, by path; a folder is a value too.
        comparisons: the comparisons added to results, by path.
    """

    def __init__(self) -> None:
        """Create an empty store."""
        self.values: dict[str, Any] = {}
        self.comparisons: dict[str, Mapping[str, Any]] = {}
        self._tokens: dict[str, Any] = {}

    def save(self, value: Any, dest: PathOrFile) -> None:
        """Store a copy of `value`; raise FileError if the path is a folder."""
        if not isinstance(dest, (str, PathLike)):
            token = self.dumps(value)
            dest.write(token if isinstance(dest, TextIOBase) else token.encode())
            return
        if isinstance(self.values.get(_path_key(dest)), _Folder):
            raise FileError(f"{dest} is a folder.", path=dest, hint="Use the path of a file.")
        self.values[_path_key(dest)] = deepcopy(value)

    def load(self, source: PathOrFile, kind: type[T]) -> T:
        """Return a copy of a saved value; raise FileError if it is missing or not of a `kind`."""
        if not isinstance(source, (str, PathLike)):
            source.seek(0)
            token = source.read()
            return self.loads(token if isinstance(token, str) else token.decode(), kind)
        value = self._look_up(source)
        if isinstance(value, _Folder):
            raise FileError(
                f"{source} is a folder.", path=source, hint="Use the path of the file itself."
            )
        return _copy_as(value, kind, str(source))

    def dumps(self, value: Any) -> str:
        """Return the token of a copy of `value`."""
        token = f"{_TOKEN}{len(self._tokens)}"
        self._tokens[token] = deepcopy(value)
        return token

    def loads(self, text: str, kind: type[T]) -> T:
        """Return a copy of the value that a token stands for.
        Raise FileError if it is of another kind.
        """
        if text not in self._tokens:
            raise FileError("Could not read the text: it is not from this store.")
        return _copy_as(self._tokens[text], kind, "the text")

    def add_comparison(self, dest: str | PathLike[str], record: Mapping[str, Any]) -> None:
        """Store a record with results; raise FileError if there are none."""
        if not isinstance(self.values.get(_path_key(dest)), RunResults):
            raise FileError(f"{dest} contains no results.", path=dest)
        self.comparisons[_path_key(dest)] = deepcopy(record)

    def writer(
        self, dest: str | PathLike[str], kind: type[T]
    ) -> AbstractContextManager[ResultWriter[T]]:
        """Return a writer, which stores its items if its block ends without an error.

        Raises:
            FileError: at the call, when a folder is not empty, or is none.
            UsageError: the items do not belong to iterations.
        """
        _check_is_iterable(kind)
        previous = self.values.get(_path_key(dest))
        if _has_no_suffix(dest) and previous is not None:
            if not isinstance(previous, _Folder):
                raise FileError(f"{dest} is a file.", path=dest, hint="Add an extension.")
            if previous.items:
                raise FileError(f"The folder {dest} is not empty.", path=dest, hint="Empty it.")
        return self._open_writer(dest, kind)

    @contextmanager
    def _open_writer(self, dest: str | PathLike[str], kind: type[T]) -> Iterator[ResultWriter[T]]:
        """Yield a writer, and store its items at the end.
        Raise FileError if an item was refused."""
        writer: _MemoryWriter[T] = _MemoryWriter()
        yield writer
        if writer.has_failed:
            raise FileError(f"{dest} was not written, because an earlier item failed.", path=dest)
        if _has_no_suffix(dest):
            self.values[_path_key(dest)] = _Folder(tuple(writer.items))
        elif kind is RunResults:
            runs = cast("list[RunResults]", writer.items)
            self.values[_path_key(dest)] = RunResults.concat(runs)
        else:
            self.values[_path_key(dest)] = writer.items

    def iterate(self, source: str | PathLike[str], kind: type[T]) -> Iterator[T]:
        """Yield copies of the items that were saved, one per iteration.

        Raises:
            FileError: at the call, when there is none, or not of this kind.
            UsageError: the items do not belong to iterations.
        """
        _check_is_iterable(kind)
        value = self._look_up(source)
        values = value.items if isinstance(value, _Folder) else (value,)
        items = [item for value in values for item in _iterations_of(value, kind, str(source))]
        if not items:
            raise FileError(f"{source} contains no iterations.", path=source)
        return (cast("T", deepcopy(item)) for item in items)

    def look_into(self, source: str | PathLike[str]) -> _MemoryItems:
        """Return the stored data of a path.
        Raise FileError if there are none, or of no known kind."""
        value = self._look_up(source)
        items = value.items if isinstance(value, _Folder) else (value,)
        return _MemoryItems(str(source), deepcopy(items))

    def _look_up(self, source: str | PathLike[str]) -> Any:
        """Return the stored value of a path; raise MissingFileError if there is none."""
        if _path_key(source) not in self.values:
            raise MissingFileError(f"File {source} does not exist.", path=source)
        return self.values[_path_key(source)]


class _MemoryWriter(Generic[T]):
    """Collects items for a file or folder."""

    def __init__(self) -> None:
        """Start without items."""
        self.items: list[T] = []
        self.has_failed = False

    def add(self, item: T) -> None:
        """Store a copy of one item."""
        if isinstance(item, RunResults) and self.items:
            names = cast("list[RunResults]", self.items)[0].keys()
            if item.keys() != names:
                self.has_failed = True
                raise UsageError(f"Results of {names} cannot precede those of {item.keys()}.")
        self.items.append(deepcopy(item))


class _MemoryItems:
    """Implements the port `StoredItems`."""

    def __init__(self, source: str, items: tuple[Any, ...]) -> None:
        """Set the path for messages, and the stored items."""
        self._items = items
        first = items[0] if items else None
        kinds: dict[type, type] = {
            dict: dict,
            list: dict,
            RunResults: RunResults,
            AccuracyResults: AccuracyResults,
        }
        if type(first) not in kinds:
            raise FileError(f"{source} holds a {type(first).__name__}.", path=source)
        self.kind: type = kinds[type(first)]
        self.runs: tuple[tuple[str, int], ...] = ()
        if self.kind is dict:
            self.runs = (("", sum(1 for _ in self.iterations())),)
        if isinstance(first, RunResults):
            self.runs = tuple(
                (name, sum(len(item[position][1]) for item in items))
                for position, name in enumerate(first.keys())
            )

    def iterations(self) -> Iterator[Any]:
        """Yield copies of the items, one per iteration."""
        for item in self._items:
            if isinstance(item, RunResults):
                longest = max((len(its) for its in item.values()), default=0)
                for index in range(longest):
                    yield deepcopy(RunResults((name, its[index : index + 1]) for name, its in item))
            else:
                yield from deepcopy(item if isinstance(item, list) else [item])

    def value(self) -> Any:
        """Return a copy of all stored data."""
        if self.kind is dict:
            return list(self.iterations())
        copied = deepcopy(self._items)
        return RunResults.concat(copied) if self.kind is RunResults else copied[0]


def _iterations_of(value: Any, kind: type, source: str) -> Iterable[Any]:
    """Return the iterations of a stored value; raise FileError if it is of another kind."""
    if kind is RunResults and type(value) is RunResults:
        counts = {len(iterations) for iterations in value.values()}
        if len(counts) > 1:
            raise FileError(f"{source} contains different numbers of iterations.", path=source)
        return value.split()
    items = value if type(value) is list else [value]
    if kind is RunResults or any(type(item) is not dict for item in items):
        raise _kind_error(value, kind, source)
    return items


def _copy_as(value: Any, kind: type[T], source: str) -> T:
    """Return a copy of a stored value; raise FileError if it is of another kind."""
    if type(value) is kind or (kind not in (dict, list) and isinstance(value, kind)):
        return deepcopy(value)
    raise _kind_error(value, kind, source)


def _kind_error(value: Any, kind: type, source: str) -> FileError:
    """Return the FileError for a stored value of another kind."""
    message = f"{source} holds a {type(value).__name__}, not a {kind.__name__}."
    return FileError(message, path=source)


def _check_is_iterable(kind: type) -> None:
    """Raise UsageError for a kind of value that has no iterations."""
    if kind not in (dict, RunResults):
        raise UsageError(f"A {kind.__name__} does not consist of iterations.")


def _path_key(path: str | PathLike[str]) -> str:
    """Return the text of a path, which is its key."""
    return str(PurePath(path))


def _has_no_suffix(path: str | PathLike[str]) -> bool:
    """Return whether a path has no suffix, and so is a folder."""
    return not PurePath(path).suffix
