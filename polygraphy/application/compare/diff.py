"""Compares two files of saved data."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any

from polygraphy.application.compare.accuracy import compare_accuracy
from polygraphy.binding import resolve
from polygraphy.domain.accuracy.accuracy import AccuracyResults
from polygraphy.domain.asked import ResultStore, Stored
from polygraphy.domain.errors import UsageError
from polygraphy.domain.results.results import IterationResult, RunResults
from polygraphy.domain.results.runner_names import kind_of_runner


def compare_saved(
    reference: str,
    candidate: str,
    *,
    compare_func: Any = None,
    fail_fast: bool = False,
    allow_missing_outputs: bool = False,
) -> AccuracyResults:
    """Compare saved data with a reference of the same kind: results of runners, or input data.

    Each run of the candidate is compared with the run of the reference of the same runner; where
    the reference holds a single run, all are compared with that one.

    Args:
        reference: what is expected; relative differences are of the magnitude of its values.
        candidate: what is compared with it.
        compare_func: a comparison function, or several, all of which must pass
            (default: `SimpleCompareFunc()`).
        fail_fast: whether to stop after the first iteration that fails.
        allow_missing_outputs: whether a tensor that one side lacks is left out instead of failing.

    Raises:
        FileError: a file is missing or damaged.
        UsageError: the files hold different kinds of data, verdicts, or runs that cannot be paired.
    """
    paths = (reference, candidate)
    first, second = (resolve(ResultStore).look_into(path) for path in paths)
    _check_kinds(paths, (first, second))
    if first.kind is RunResults:
        names = [[name for name, _ in stored.runs] for stored in (first, second)]
        pairs = _pairs(paths, names[0], names[1])
        both = set(names[0]) & set(names[1])
        streams = [_labelled(one, path, both) for one, path in zip((first, second), paths)]
    else:
        pairs = [(1, 0)]
        streams = [_as_results(stored, path) for stored, path in zip((first, second), paths)]
    return compare_accuracy(
        streams,
        fail_fast=fail_fast,
        comparisons=pairs,
        compare_func=compare_func,
        allow_missing_outputs=allow_missing_outputs,
    )


def _check_kinds(paths: tuple[str, str], stored: tuple[Stored, Stored]) -> None:
    kinds: dict[type, str] = {dict: "input data", RunResults: "inference results"}
    for path, one in zip(paths, stored):
        if one.kind not in kinds:
            raise UsageError(
                f"{path} holds accuracy results, which cannot be compared.",
                hint="Name files of saved outputs, or of saved inputs.",
            )
    if stored[0].kind is not stored[1].kind:
        first, second = (f"{path} holds {kinds[one.kind]}" for path, one in zip(paths, stored))
        raise UsageError(
            f"{first}, but {second}: only data of the same kind can be compared.",
            hint="Name two files of saved outputs, or two of saved inputs.",
        )


def _pairs(
    paths: tuple[str, str], expected: Sequence[str], found: Sequence[str]
) -> list[tuple[int, int]]:
    """Pair the runs of the candidate with those of the reference: positions in both files together.

    Runners are the same by name, or else by kind where each kind is there once, or else by
    position.
    """
    count = len(expected)
    if count == 1:
        return [(count + index, 0) for index in range(len(found))]
    if count != len(found):
        raise UsageError(
            f"{paths[0]} holds results of {count} runners, {paths[1]} of {len(found)}: it is not"
            " clear which belong together.",
            hint="Compare files of as many runners, or with a reference of a single one.",
        )
    for ours, theirs in (
        (expected, found),
        ([kind_of_runner(name) for name in expected], [kind_of_runner(name) for name in found]),
    ):
        if len(set(ours)) == count and set(ours) == set(theirs):
            return [(count + index, ours.index(name)) for index, name in enumerate(theirs)]
    return [(count + index, index) for index in range(count)]


def _labelled(stored: Stored, path: str, names: Container[str]) -> Iterator[RunResults]:
    """Yield results that know their file; in the log, runs of some names are called after it."""
    for results in stored.iterations():
        for index, (name, iterations) in enumerate(results):
            for iteration in iterations:
                iteration.origin = path
            if name in names:
                called = f"{name} ({path})"
                results[index] = called, iterations
                for iteration in iterations:
                    iteration.runner_name = called
        yield results


def _as_results(stored: Stored, path: str) -> Iterator[RunResults]:
    """Yield input data as if a runner of the name of the file had put them out."""
    for feed in stored.iterations():
        yield RunResults([(path, [IterationResult(feed, runner_name=path)])])
