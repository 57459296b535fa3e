"""Checks outputs for NaN and infinity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from polygraphy.domain.errors import CheckFailedError
from polygraphy.domain.results import RunResults
from polygraphy.domain.validation import validate_outputs
from polygraphy.ports.binding import resolve
from polygraphy.ports.console import Console

__all__ = ["validate", "validated_stream"]


def validate(
    run_results: RunResults,
    *,
    check_inf: bool = False,
    check_nan: bool = True,
    fail_fast: bool = False,
) -> bool:
    """Check all outputs of all iterations; return whether none holds what is looked for.

    Args:
        run_results: what to check.
        check_inf: whether infinite elements fail.
        check_nan: whether NaN fails.
        fail_fast: whether to stop at the first output that fails.
    """
    console = resolve(Console)
    console.validation_starting(run_results.keys())
    passed = True
    for name, iterations in run_results.items():
        for outputs in iterations:
            for validity in validate_outputs(outputs):
                console.output_validated(name, validity)
                passed = passed and validity.is_valid(check_nan=check_nan, check_inf=check_inf)
                if fail_fast and not passed:
                    console.validation_finished(False)
                    return False
    console.validation_finished(passed)
    return passed


def validated_stream(results: Iterable[RunResults], **how: Any) -> Iterator[RunResults]:
    """Pass a stream on, checking each iteration on the way.

    With `fail_fast` the stream ends at the first iteration that fails; otherwise all iterations
    pass through first.

    Raises:
        CheckFailedError: an output held NaN or infinite elements.
    """
    failed: list[int] = []
    index = -1
    for step in results:
        index += not any(its.is_continued for _, iterations in step for its in iterations)
        passed = validate(step, **how)
        if not passed and index not in failed:
            failed.append(index)
        if not passed and how.get("fail_fast"):
            break
        yield step
        del step  # Nothing of this iteration is held while the next one runs.
    if failed:
        raise CheckFailedError(
            f"Output validation failed in iteration(s) {', '.join(map(str, failed))}."
        )
