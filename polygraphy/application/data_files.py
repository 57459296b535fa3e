"""Makes one file of saved data out of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

from polygraphy.binding import resolve
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.errors import UsageError
from polygraphy.domain.ports import ResultStore, ResultWriter, StoredItems
from polygraphy.domain.results.results import RunResults, kind_of_runner
from polygraphy.ports.reporting import Console

_KINDS: dict[type, str] = {dict: "input data", RunResults: "inference results"}

Source = tuple[str, StoredItems]


def concat(paths: Sequence[str], output: str) -> None:
    """Write the iterations of several files to one file, in sequence.

    Args:
        paths: files or folders of input data, or of results of the same runners. Runners in
            different processes are the same if they are of the same kind.
        output: a file, or, without an extension, a folder.

    Raises:
        FileError: a file is missing or damaged, or the output cannot be written.
        UsageError: the files contain different kinds of data, or results of different runners.
    """
    sources = _inspect_sources(paths)
    orders = [_order(sources[0], source) for source in sources]
    kind = sources[0][1].kind
    names = [name for name, _ in sources[0][1].runs]
    tensors = _Tensors()
    opened: AbstractContextManager[ResultWriter[Any]] = resolve(ResultStore).writer(output, kind)
    with opened as writer:
        for (path, stored), order in zip(sources, orders):
            for step in stored.iterations():
                tensors.compare(path, step)
                writer.add(
                    RunResults((name, step[at][1]) for name, at in zip(names, order))
                    if kind is RunResults
                    else step
                )


def merge(paths: Sequence[str], output: str) -> None:
    """Write the tensors of several files to one file of input data, iteration by iteration.

    Args:
        paths: files or folders of input data or of results, all with the same number of iterations.
            If several have a tensor of the same name, the last one is used, and a note is printed.
        output: a file, or, without an extension, a folder.

    Raises:
        FileError: a file is missing or damaged, or the output cannot be written.
        UsageError: the numbers of iterations differ.
    """
    sources = {path: resolve(ResultStore).look_into(path) for path in dict.fromkeys(paths)}
    for path, stored in sources.items():
        if stored.kind is AccuracyResults:
            raise UsageError(f"{path} contains accuracy results, which have no tensors.")
    runs = [
        (f"{path} ({name})" if name else path, count)
        for path, stored in sources.items()
        for name, count in stored.runs
    ]
    if len({count for _, count in runs}) > 1:
        listed = ", ".join(f"{run} has {count}" for run, count in runs)
        raise UsageError(
            f"Data with different numbers of iterations cannot be merged: {listed}.",
            hint="To concatenate iterations, use data concat.",
        )
    noted: set[str] = set()
    with resolve(ResultStore).writer(output, dict) as writer:
        for steps in zip(*(_tensors_by_run(stored) for stored in sources.values())):
            merged: dict[str, Any] = {}
            for (run, _), feed in zip(runs, chain.from_iterable(steps)):
                for name in sorted(feed.keys() & merged.keys() - noted):
                    noted.add(name)
                    resolve(Console).note(
                        f"{name!r} is also in {run}, which is used. To concatenate iterations,"
                        " use data concat."
                    )
                merged.update(feed)
            writer.add(merged)


def convert(path: str, output: str) -> None:
    """Write data in another format.

    Args:
        path: a file, or a folder with one file per iteration.
        output: the path to write; its extension determines the format, and without one it is a
            folder.

    Raises:
        FileError: the file is missing or damaged, or the output cannot be written.
    """
    store = resolve(ResultStore)
    stored = store.look_into(path)
    if stored.kind is AccuracyResults:
        store.save(stored.value(), output)
        return
    opened: AbstractContextManager[ResultWriter[Any]] = store.writer(output, stored.kind)
    with opened as writer:
        for step in stored.iterations():
            writer.add(step)


def _inspect_sources(paths: Sequence[str]) -> list[Source]:
    """Return the contents of files, which must all have the same kind of data with iterations."""
    sources = [(path, resolve(ResultStore).look_into(path)) for path in paths]
    first_path, first = sources[0]
    for path, stored in sources:
        if stored.kind is AccuracyResults:
            raise UsageError(
                f"{path} contains accuracy results, which have no iterations to concatenate."
            )
        if stored.kind is not first.kind:
            raise UsageError(
                f"{first_path} contains {_KINDS[first.kind]}, but {path} contains"
                f" {_KINDS[stored.kind]}.",
                hint="Concatenate files of the same kind.",
            )
    return sources


def _order(first: Source, second: Source) -> list[int]:
    """Return, for each runner of the first file, the position of the same runner in another
    file."""
    names, other_texts = ([name for name, _ in stored.runs] for _, stored in (first, second))
    if sorted(names) == sorted(other_texts) and len(set(names)) == len(names):
        return [other_texts.index(name) for name in names]
    if list(map(kind_of_runner, names)) == list(map(kind_of_runner, other_texts)):
        return list(range(len(names)))
    raise UsageError(
        f"{first[0]} contains results of {', '.join(names)}, but {second[0]} of"
        f" {', '.join(other_texts)}.",
        hint="Concatenate results of the same runners.",
    )


def _tensors_by_run(stored: StoredItems) -> Iterator[list[dict[str, Any]]]:
    """Yield, per iteration, the tensors of each run; input data have one."""
    for step in stored.iterations():
        yield [step] if stored.kind is dict else [value for _, [value] in step]


class _Tensors:
    """Reports once if joined iterations have tensors of different names."""

    def __init__(self) -> None:
        """Start without an iteration."""
        self._names: list[set[str]] | None = None
        self._is_noted = False

    def compare(self, path: str, step: Any) -> None:
        """Check one iteration, a feed dictionary or results, against the earlier files."""
        feeds = (
            [iteration_results for _, iteration_results in step]
            if isinstance(step, RunResults)
            else [[step]]
        )
        names = [{name for iteration in feed for name in iteration} for feed in feeds]
        if self._names is None:
            self._names = names
        if names != self._names and not self._is_noted:
            self._is_noted = True
            resolve(Console).note(
                f"The tensors in {path} have different names than those in earlier files."
            )
