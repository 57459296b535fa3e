"""Which rewrites are to blame for a fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polygraphy.domain.search.ddmin import ddmin
from polygraphy.domain.search.outcome import Outcome

Heals = Callable[[Sequence[str]], bool]
"""Returns whether the fault is gone where some rewrites are switched off."""


def healing_passes(passes: Sequence[str], heals: Heals) -> list[str]:
    """Find the fewest rewrites without which the fault is gone, in about twice the logarithm of
    their number of tries where one is enough.

    Returns:
        None of them where the fault stays with all of them switched off.
    """
    if not passes or not heals(passes):
        return []
    return ddmin(passes, lambda some: Outcome.BAD if some and heals(some) else Outcome.GOOD)


def healing_alone(passes: Sequence[str], heals: Heals) -> list[str]:
    """Return the rewrites without each of which alone the fault is gone."""
    return [name for name in passes if heals([name])]
