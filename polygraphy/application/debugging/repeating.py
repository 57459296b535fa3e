"""Checks the same thing, or the same build, again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Union

from polygraphy.application.debugging.iterations import Iterations
from polygraphy.domain.errors import UsageError
from polygraphy.domain.searches import Outcome

__all__ = ["Until", "repeat"]

Until = Union[int, Literal["good", "bad"]]
"""How often, or up to which answer."""


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
    """
    if until not in ("good", "bad") and not (isinstance(until, int) and until > 0):
        raise UsageError(
            f"until={until!r} means nothing.", hint="Give 'good', 'bad', or a number from 1 on."
        )
    while True:
        left = until - iterations.count - 1 if isinstance(until, int) else None
        outcome = iterations.run(make, remaining=left)
        if until in (iterations.count, outcome.value):
            break
    iterations.finish()
    return dict(iterations.counts)
