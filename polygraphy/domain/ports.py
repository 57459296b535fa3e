"""Ports that the domain itself calls; `polygraphy.wiring` binds them.

Ports that one file of the domain asks alone, or that take a value of the domain, stand there:
`DataTypeConverter`, `Spool`, `PerceptualDistance`, `read_graph`, `results_html`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeVar, Union

from polygraphy.binding import port

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np


T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

PathOrFile = Union[str, "Path", IO[Any]]


class ResultWriter(Protocol[T_contra]):
    """Accepts one item after another; added items are kept if the `with` block ends without an
    error."""

    def add(self, item: T_contra) -> None:
        """Append one item."""


class StoredItems(Protocol):
    """The contents of a file or folder, inspected without reading its arrays.

    Attributes:
        kind: `dict` for feed dictionaries, `RunResults` or `AccuracyResults`.
        runs: name of each runner, and how many iterations it has; of feed dictionaries there is one
            run, whose name is empty; of accuracy results there is none.
    """

    kind: type
    runs: tuple[tuple[str, int], ...]

    def iterations(self) -> Iterator[Any]:
        """Yield feed dictionaries, or the RunResults of one iteration each.
        Runners without further iterations are missing. Can be called again."""

    def value(self) -> Any:
        """Return all stored data as one object; feed dictionaries as a list."""


class ResultStore(Protocol):
    """Saves and loads feed dictionaries, run results, accuracy results and replays.

    A path with a file extension is one file; a path without one is a folder with one file per
    iteration. A file is written completely or not changed at all.
    """

    def save(self, value: Any, dest: PathOrFile) -> None:
        """Write `value` to one file; raise FileError if that fails."""

    def load(self, source: PathOrFile, kind: type[T]) -> T:
        """Return the object in one file.
        Raise FileError if it is missing, damaged, or not of a `kind`.
        """

    def dumps(self, value: Any) -> str:
        """Return `value` as JSON text."""

    def loads(self, text: str, kind: type[T]) -> T:
        """Return the object in JSON text; raise FileError if it is damaged or not of a `kind`."""

    def writer(self, dest: str | Path, kind: type[T]) -> AbstractContextManager[ResultWriter[T]]:
        """Return a writer of one item per iteration to a file or folder, in bounded memory if the
        format allows it.
        """

    def add_comparison(self, dest: str | Path, record: Mapping[str, Any]) -> None:
        """Add the results of a comparison, as plain values by output, to results in one file.
        Raise FileError if that fails.
        """

    def iterate(self, source: str | Path, kind: type[T]) -> Iterator[T]:
        """Yield the items of a file or folder, one per iteration, lazily.
        A missing source is an error at the call.
        """

    def look_into(self, source: str | Path) -> StoredItems:
        """Return the contents of a file or folder.
        Raise FileError if it is missing, damaged, or has no arrays or verdicts."""


@port
def holds_blobs(source: str | Path) -> bool:
    """Return whether a path contains raw tensor data."""


@port
def iterate_blobs(source: str | Path) -> Iterator[Mapping[str, bytes]]:
    """Yield, per iteration, the bytes of each tensor; raise FileError if a file cannot be read."""


@port
def holds_pictures(source: str | Path) -> bool:
    """Return whether a path is an image, a folder of images, or a PyTorch tensor."""


@port
def sample_files(source: str | Path) -> list[str] | None:
    """Return the files that contain one sample each: images, also in class folders, and PyTorch
    tensors; None if a file may contain several."""


@port
def class_folders(source: str | Path) -> dict[str, int]:
    """Return the number of samples in each class folder of a folder.
    The result is empty if samples are in the folder itself. Hidden folders and those of tools do
    not count.
    """


@port
def iterate_pictures(
    source: str | Path, size: tuple[int, int] | None, is_gray: bool = False
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path of each file, and its arrays by name.

    An image has the shape (height, width, channels), with three colors or one channel.

    Args:
        source: a file or a folder.
        size: width and height to which pictures are brought; None for as they are.
        is_gray: whether they have one channel, of gray.

    Raises:
        FileError: a file is damaged or cannot be read.
        MissingDependencyError: what reads it is not installed.
    """


@port
def blob_writer(folder: str | Path) -> AbstractContextManager[ResultWriter[Mapping[str, Any]]]:
    """Return a writer of one feed dictionary per iteration to a folder.
    Files of earlier runs are replaced, each completely or not at all.

    Raises:
        FileError: a file cannot be written, or the name of a tensor leads out of the folder.
    """


@port
def command_line(command: str, *parts: Mapping[str, Any] | Sequence[str]) -> str:
    """Return the command line that passes these values to a command, quoted for a shell.
    It was parsed again, so that only valid lines are returned.

    Args:
        command: such as ``surgeon copy``.
        parts: values by the names of the options' rows, or words that a user typed, in the order
            of the command line. Flags that append, such as backends, may be in several parts.

    Returns:
        The command line; empty if no command line can say this.
    """


class Tensors(Protocol):
    """Converts NumPy arrays to tensors of another library, and back. Adapters are bound by the name
    of the library's top-level module."""

    def prepare(self) -> None:
        """Raise MissingDependencyError if the library is not installed."""

    def from_array(self, name: str, array: np.ndarray[Any, Any]) -> Any:
        """Return the data for an input as a tensor of the library.
        Raise InputError if it has no such type."""

    def to_array(self, tensor: Any) -> np.ndarray[Any, Any]:
        """Return a tensor as a NumPy array, copied from its device."""


class Plots(Protocol):
    """Draws the differences of two outputs, saved to a folder, shown on the screen, or both."""

    def prepare(self, path: str | None = None) -> None:
        """Raise an error if plots cannot be drawn, before anything is computed for them.

        Args:
            path: a file that one is to be saved to.

        Raises:
            MissingDependencyError: a package that this takes is not installed.
            FileError: the extension of the path names no format of pictures.
        """

    def heat_maps(
        self,
        name: str,
        value: np.ndarray[Any, Any],
        reference: np.ndarray[Any, Any],
        *,
        folder: str | None,
        show: bool,
    ) -> None:
        """Draw both outputs, and their absolute and relative difference, as images.

        Args:
            name: the title of the pictures; any text.
            value: numbers; the last two dimensions are an image, the others count images.
            reference: numbers, of the same shape.
            folder: path for the pictures; None for nowhere.
            show: whether they are shown.

        Raises:
            FileError: a picture cannot be saved.
        """

    def error_plots(
        self,
        name: str,
        value: np.ndarray[Any, Any],
        reference: np.ndarray[Any, Any],
        limits: tuple[float, float],
        *,
        folder: str | None,
        show: bool,
    ) -> None:
        """Draw the absolute and relative differences over the reference, with their limits."""

    def error_by_depth(self, lines: Mapping[str, Sequence[Any]], path: str) -> None:
        """Draw the largest differences of outputs, in the order in which a model computes them.

        Args:
            lines: the rows of outputs (`OutputRow`) by the name of each pair of runs.
            path: the file that is written; its extension says in which format.

        Raises:
            FileError: the plot cannot be saved.
        """


@port
def data_frame(records: Sequence[Mapping[str, Any]]) -> Any:
    """Return a table with a row per record.

    Raises:
        MissingDependencyError: the package that makes tables is not installed.
    """


@port
def read_config(model: str) -> Any:
    """Return the JSON of the `genai_config.json` beside a model; None if there is none."""


@port
def read_tokens(path: str) -> list[int]:
    """Return the tokens in a file, from text, JSON or an array.
    Raise FileError if it is missing, InputError for other content.
    """
