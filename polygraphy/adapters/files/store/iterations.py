"""Reads one iteration after another; the arrays of all others stay in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from polygraphy.adapters.files.formats.binary import TENSORS
from polygraphy.adapters.files.formats.lazy import StoredArrays, is_unread
from polygraphy.adapters.files.formats.torch_codec import is_tensor
from polygraphy.adapters.files.json.json_codec import (
    ContentError,
    content_errors_named,
    decoded,
    marker_of,
)
from polygraphy.adapters.files.store.json_io import description_of, mismatch, parse_path
from polygraphy.adapters.os.paths import translated_os_errors
from polygraphy.domain.errors import FileError
from polygraphy.domain.results.results import IterationResult, RunResults

T = TypeVar("T")

Split = Callable[[Any], list[Any]]
"""Takes the tree of a file and returns one tree per iteration."""

Decode = Callable[[Any], T]
"""Makes an iteration of such a tree."""

_READABLE = (
    "Input data are read from .json, .safetensors, .npy, .npz, .pb, .pt, .bin and .raw, and from"
    " pictures; for others there is --data-loader-script."
)


def iterate_feeds(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the feed dictionaries in a file or a folder.

    Raises:
        FileError: at the call, when what is there is missing, empty, truncated or something else.
            Of a folder's files only the first is looked at then, the others when it is their turn.
            While iterating, also when an array is damaged.
    """
    return _iterate(path, dict, split_feeds, decode_feed)


def iterate_results(path: Path) -> Iterator[RunResults]:
    """Yield results one iteration at a time; for the rest see `iterate_feeds`."""
    return _iterate(path, RunResults, split_results, decode_results)


def _iterate(path: Path, kind: type, split: Split, decode: Decode[T]) -> Iterator[T]:
    files = files_of(path, description_of(kind))
    return _generate(files, _iterations_in(files[0], kind, split), kind, split, decode)


def files_of(path: Path, description: str) -> list[Path]:
    """Return a file, or the files of a folder in order; FileError when a folder has none."""
    if not path.is_dir():
        return [path]
    with translated_os_errors(path, "read the folder"):
        files = sorted(path.glob("*.json")) or sorted(path.glob(f"*{TENSORS}"))
    if not files:
        message = (
            f"The folder {path} holds no {description}: there is no file *.json in it, nor"
            f" *{TENSORS}."
        )
        is_input = description == description_of(dict)
        raise FileError(message, path=path, hint=_READABLE if is_input else "")
    return files


def _iterations_in(file: Path, kind: type, split: Split) -> list[Any]:
    with _loading(file):
        try:
            iterations = split(parse_path(file, f"File of {description_of(kind)}", kind))
        except ContentError as error:
            if kind is dict and file.suffix.lower() != ".json":
                error.hint = error.hint or _READABLE
            raise
        if not iterations:
            raise ContentError("it holds no iterations")
    return iterations


def _generate(
    files: list[Path], pending: list[Any], kind: type, split: Split, decode: Decode[T]
) -> Iterator[T]:
    for index, file in enumerate(files):
        if index > 0:
            pending = _iterations_in(file, kind, split)
        pending.reverse()
        while pending:  # Taken off the list: with the last iteration, the file is closed.
            with _loading(file):
                iteration = decode(pending.pop())
            yield iteration


def _loading(file: Path) -> AbstractContextManager[object]:
    """Name the file in what goes wrong inside the block."""
    named = ExitStack()
    named.enter_context(content_errors_named(f"load {file}", file))
    named.enter_context(translated_os_errors(file, "read"))
    return named


def split_feeds(tree: Any) -> list[Any]:
    """Return the trees of feed dictionaries; ContentError when they are none."""
    iterations = tree if isinstance(tree, list) else [tree]  # One of a folder's files: no list.
    if any(not isinstance(feed, dict) or marker_of(feed) is not None for feed in iterations):
        raise mismatch(tree, dict)
    return iterations


def decode_feed(tree: Any) -> dict[str, Any]:
    """Read the arrays of one feed dictionary; ContentError when one is damaged."""
    feed: dict[str, Any] = decoded(tree)
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
    """Return per iteration a list of ``(runner name, tree of its outputs)``."""
    runs = runs_in(tree)
    counts = [(name, len(iterations)) for name, iterations in runs]
    if len({count for _, count in counts}) > 1:
        raise ContentError(f"its runners have different numbers of iterations: {counts}")
    names = [name for name, _ in runs]
    return [list(zip(names, step)) for step in zip(*(iterations for _, iterations in runs))]


def runs_in(tree: Any) -> list[tuple[str, list[Any]]]:
    """Return per runner its name and the trees of its iterations; ContentError when there are
    none.
    """
    if marker_of(tree) != RunResults.__name__:
        raise mismatch(tree, RunResults)
    try:
        return [(str(name), list(iterations)) for name, iterations in tree["lst"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ContentError(f"the RunResults in it is damaged: {error}") from error


def decode_results(step: Any) -> RunResults:
    """Read the arrays of one iteration: of a list of ``(runner name, tree of its outputs)``."""
    results = RunResults((name, [decoded(tree)]) for name, tree in step)
    for name, (iteration,) in results:
        if not isinstance(iteration, IterationResult):
            kind = type(iteration).__name__
            raise ContentError(f"{kind} found where an iteration of {name!r} is expected")
    return results
