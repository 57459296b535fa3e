"""Computing many things at once where some of them cannot be computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


def bisect_batch(
    names: Sequence[str], compute: Callable[[Sequence[str]], Mapping[str, T] | None]
) -> tuple[dict[str, T], list[str]]:
    """Compute as much as possible in as few steps as possible.

    Where everything can be computed, that takes one step; each one that cannot costs about twice
    the logarithm of their number more.

    Args:
        names: what is to be computed.
        compute: computes several at once; None when at least one of them cannot be.

    Returns:
        What was computed by name, and the names of the others, in order.
    """
    found: dict[str, T] = {}
    failed: list[str] = []
    pending = [list(names)] if names else []
    while pending:
        chosen = pending.pop()
        values = compute(chosen)
        if values is not None:
            found.update(values)
        elif len(chosen) == 1:
            failed += chosen
        else:
            middle = len(chosen) // 2
            pending += [chosen[middle:], chosen[:middle]]
    return found, failed
