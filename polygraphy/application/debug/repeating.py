"""Checks the same thing, or the same build, again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Union

from polygraphy.application.debug.iterations import Iterations
from polygraphy.domain.errors import UsageError
from polygraphy.domain.search import Outcome

Until = Union[int, Literal["good", "bad"]]
"""How often, or up to which answer."""


_ENOUGH = 3
"""After so many failures for the same reason, and nothing else, there is no hope."""


def repeat(
    iterations: Iterations, until: Until, make: Callable[[str], Any] | None = None
) -> dict[Outcome, int]:
    """Check so many times, or until the answer is a certain one.

    Args:
        iterations: what is checked, and what is kept of it.
        until: a number of iterations, ``good`` or ``bad``.
        make: makes what is checked, at a path; what cannot be made has failed.

    Returns:
        How many iterations had each outcome.

    Raises:
        UsageError: `until` means nothing.
        PolygraphyException: nothing could be made at all, or three times for the same reason from
            the start: it would go on like that.
    """
    if until not in ("good", "bad") and not (isinstance(until, int) and until > 0):
        raise UsageError(
            f"until={until!r} means nothing.", hint="Give 'good', 'bad', or a number from 1 on."
        )
    while True:
        left = until - iterations.count - 1 if isinstance(until, int) else None
        outcome = iterations.run(make, remaining=left)
        is_last = until in (iterations.count, outcome.value)
        _check_that_some_are_made(iterations, is_last=is_last)
        if is_last:
            break
    iterations.finish()
    return dict(iterations.counts)


def _check_that_some_are_made(iterations: Iterations, *, is_last: bool) -> None:
    """Raise the error that keeps anything from being made."""
    unmade = iterations.unmade
    if not unmade or len(unmade) < iterations.count:
        return
    is_the_same = len({str(error) for error in unmade}) == 1
    if is_last or (is_the_same and len(unmade) == _ENOUGH):
        raise unmade[-1]
