"""Checks outputs for NaN and infinity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from polygraphy.binding import resolve
from polygraphy.domain.errors import CheckFailedError
from polygraphy.domain.results.results import RunResults, label_of_runner, validate_outputs
from polygraphy.ports.reporting import Console


def validate(
    run_results: RunResults,
    *,
    check_inf: bool = False,
    check_nan: bool = True,
    fail_fast: bool = False,
) -> bool:
    """Return whether no output of any iteration contains NaN or infinity, as selected.

    Args:
        run_results: the results to check.
        check_inf: whether infinite elements fail.
        check_nan: whether NaN fails.
        fail_fast: whether to stop at the first output that fails.
    """
    return not _first_complaint(run_results, fail_fast, check_inf=check_inf, check_nan=check_nan)


def _first_complaint(run_results: RunResults, fail_fast: bool = False, **looked_for: bool) -> str:
    """Return a sentence about the first invalid output; empty if all are valid."""
    console = resolve(Console)
    console.validation_starting(run_results.keys())
    first = ""
    for name, iterations in run_results.items():
        for outputs in iterations:
            for validity in validate_outputs(outputs):
                console.output_validated(name, validity)
                complaint = validity.complaint(**looked_for)
                if complaint and not first:
                    first = f"{validity.name!r} of {label_of_runner(name)}: {complaint}"
                if fail_fast and first:
                    console.validation_finished(False)
                    return first
    console.validation_finished(not first)
    return first


def validate_stream(
    results: Iterable[RunResults],
    *,
    check_inf: bool = False,
    check_nan: bool = True,
    fail_fast: bool = False,
) -> Iterator[RunResults]:
    """Yield each iteration of a stream after checking its outputs.

    With `fail_fast` the stream ends at the first iteration that fails; otherwise all iterations
    pass through first.

    Raises:
        CheckFailedError: an output held NaN or infinite elements.
    """
    failed: dict[int, str] = {}  # The first failure of each iteration.
    index = -1
    for step in results:
        index += not any(its.is_continued for _, iterations in step for its in iterations)
        complaint = _first_complaint(step, fail_fast, check_inf=check_inf, check_nan=check_nan)
        if complaint:
            failed.setdefault(index, complaint)
        if complaint and fail_fast:
            break
        yield step
        del step  # Release this iteration before the next one runs.
    if failed:
        iteration, complaint = next(iter(failed.items()))
        noun = "iteration" if len(failed) == 1 else "iterations"
        raise CheckFailedError(
            f"Output validation failed in {noun} {', '.join(map(str, failed))}. First"
            f" failure, in order of computation: in iteration {iteration} {complaint}."
        )
