"""Where inputs and results are kept between runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeVar, Union

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ResultStore", "ResultWriter", "Stored"]

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

PathOrFile = Union[str, "Path", IO[Any]]


class ResultWriter(Protocol[T_contra]):
    """Takes one item after another; what was added is kept when the `with` block around it ends
    without an error.
    """

    def add(self, item: T_contra) -> None:
        """Append one item."""


class Stored(Protocol):
    """What a file or folder holds, looked into without reading its arrays.

    Attributes:
        kind: `dict` for feed dictionaries, `RunResults` or `AccuracyResults`.
        runs: name of each runner, and how many iterations it has; of feed dictionaries there is one
            run, whose name is empty; of accuracy results there is none.
    """

    kind: type
    runs: tuple[tuple[str, int], ...]

    def iterations(self) -> Iterator[Any]:
        """Yield feed dictionaries, or RunResults of one iteration each, in which a runner that has
        no more iterations has none. May be called again.
        """

    def value(self) -> Any:
        """Return everything in one piece; feed dictionaries as a list."""


class ResultStore(Protocol):
    """Saves and loads what this package produces: feed dictionaries, run results, accuracy results,
    replays.

    A path with a file extension is one file; a path without is a folder that holds one file per
    iteration. A file is either written whole or left as it was.
    """

    def save(self, value: Any, dest: PathOrFile) -> None:
        """Write `value` to one file; FileError when that cannot be done."""

    def load(self, source: PathOrFile, kind: type[T]) -> T:
        """Read one file; FileError when it is missing, damaged, or does not hold a `kind`."""

    def dumps(self, value: Any) -> str:
        """Return `value` as JSON text."""

    def loads(self, text: str, kind: type[T]) -> T:
        """Read JSON text; FileError when it is damaged or does not hold a `kind`."""

    def writer(self, dest: str | Path, kind: type[T]) -> AbstractContextManager[ResultWriter[T]]:
        """Open a file or folder for writing one item per iteration, in bounded memory where the
        format allows it.
        """

    def add_comparison(self, dest: str | Path, record: Mapping[str, Any]) -> None:
        """Add what a comparison found, in plain values by output, to results that were saved to one
        file; FileError when that cannot be done.
        """

    def iterate(self, source: str | Path, kind: type[T]) -> Iterator[T]:
        """Yield the items of a file or folder, one per iteration, lazily; what is missing is told
        at the call.
        """

    def look_into(self, source: str | Path) -> Stored:
        """Find out what a file or folder holds; FileError when it is missing, damaged, or nothing
        that consists of arrays or verdicts.
        """
