"""What a file or folder holds, whatever it is, looked into without reading its arrays."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from polygraphy.adapters.files.json.content_error import ContentError, content_errors_named
from polygraphy.adapters.files.json.json_codec import decoded, marker_of
from polygraphy.adapters.files.store.iterations import (
    decode_feed,
    decode_results,
    files_of,
    runs_in,
    split_feeds,
)
from polygraphy.adapters.files.store.json_io import parse_path
from polygraphy.adapters.files.store.kinds import expect, mismatch
from polygraphy.adapters.os.paths import translated_os_errors
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.results.results import RunResults

_WHAT = "saved data"


class StoredData:
    """Implements the port `Stored`: of a single file the structure is kept, of a folder's files
    nothing.
    """

    def __init__(self, path: Path) -> None:
        """Look into a file, or into all files of a folder.

        Raises:
            FileError: it is missing, empty, damaged, or holds neither inputs nor results nor
                verdicts; or a folder's files do not go together.
        """
        self._files = files_of(path, _WHAT)
        self._tree: Any = None
        with translated_os_errors(path, "read"):
            trees = map(self._parsed, self._files)
            first = next(trees)
            self.kind = self._kind_of(first)
            self.runs = self._counted(first, trees)
        if len(self._files) == 1:
            self._tree = first

    def _parsed(self, file: Path) -> Any:
        with content_errors_named(f"load {file}", file):
            return parse_path(file, f"File of {_WHAT}")

    def _kind_of(self, tree: Any) -> type:
        file = self._files[0]
        with content_errors_named(f"load {file}", file):
            marker = marker_of(tree)
            if marker is not None:
                for kind in (RunResults, AccuracyResults):
                    if marker == kind.__name__:
                        return kind
                raise mismatch(tree, object)
            split_feeds(tree)
        return dict

    def _counted(self, first: Any, others: Iterator[Any]) -> tuple[tuple[str, int], ...]:
        """Return how many iterations each runner has, in all files together; that of input data is
        called "".
        """
        names, counts = self._sizes(self._files[0], first)
        for file, tree in zip(self._files[1:], others):
            more_names, more = self._sizes(file, tree)
            if names != more_names:
                with content_errors_named(f"load {file}", file):
                    raise ContentError(f"it holds {more_names}, but the files before it {names}")
            counts = [sum(pair) for pair in zip(counts, more)]
        return tuple(zip(names, counts))

    def _sizes(self, file: Path, tree: Any) -> tuple[list[str], list[int]]:
        with content_errors_named(f"load {file}", file):
            if self.kind is RunResults:
                runs = runs_in(tree)
                return [name for name, _ in runs], [len(iterations) for _, iterations in runs]
            if self.kind is AccuracyResults:
                expect(decoded(tree), AccuracyResults, tree)
                return [], []
            return [""], [len(split_feeds(tree))]

    def iterations(self) -> Iterator[Any]:
        for file in self._files:
            tree = self._parsed(file) if self._tree is None else self._tree
            with content_errors_named(f"load {file}", file), translated_os_errors(file, "read"):
                yield from self._decoded(tree)

    def _decoded(self, tree: Any) -> Iterator[Any]:
        if self.kind is dict:
            yield from map(decode_feed, split_feeds(tree))
            return
        runs = runs_in(tree)
        for step in zip_longest(*(iterations for _, iterations in runs)):
            named = [(name, one) for (name, _), one in zip(runs, step)]
            present = decode_results([(name, one) for name, one in named if one is not None])
            left = iter(present)
            yield RunResults(next(left) if one is not None else (name, []) for name, one in named)

    def value(self) -> Any:
        if self._tree is None and self.kind is not AccuracyResults:
            steps = list(self.iterations())
            return RunResults.concat(steps) if self.kind is RunResults else steps
        file, tree = self._files[0], self._tree
        with content_errors_named(f"load {file}", file), translated_os_errors(file, "read"):
            if tree is None:
                raise ContentError("accuracy results are a single file, not one of several")
            if self.kind is dict:
                return [decode_feed(feed) for feed in split_feeds(tree)]
            return expect(decoded(tree), self.kind, tree)
