"""Between which versions a fault came and went."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from attrs import frozen


def version_key(version: str) -> tuple[int, ...]:
    """Return a sort key for versions in the order of their release: 1.9.0 before 1.10.0."""
    return tuple(map(int, re.findall(r"\d+", version)))


@frozen
class Span:
    """The consecutive versions that have the same fault.

    Attributes:
        first: the oldest of them that is known to be wrong.
        last: the newest.
        before: the newest that is older and right; None where none is known.
        after: the oldest that is newer and right.
    """

    first: str
    last: str
    before: str | None
    after: str | None


def wrong_span(
    versions: Sequence[str], current_version: str, is_correct: Callable[[str], bool]
) -> Span:
    """Return the span of versions around the current one that have its fault.

    It is found by bisection if the newest or the oldest version is correct; else the versions are
    tested one after another, because a fault may have occurred more than once.

    Args:
        versions: those that can be tried.
        current_version: the one that is wrong.
        is_correct: tries a version.
    """
    known_names = sorted({*versions, current_version}, key=version_key)
    index = known_names.index(current_version)
    last, after = _border_versions(known_names[index:], is_correct)
    first, before = _border_versions(known_names[index::-1], is_correct)
    return Span(first, last, before, after)


def _border_versions(
    versions: Sequence[str], is_correct: Callable[[str], bool]
) -> tuple[str, str | None]:
    """Return the last incorrect version and the first correct one, or None.
    The search starts from an incorrect version.
    """
    if len(versions) < 2:
        return versions[0], None
    low, high = 0, len(versions) - 1
    if not is_correct(versions[high]):
        for index in range(1, high):
            if is_correct(versions[index]):
                return versions[index - 1], versions[index]
        return versions[high], None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_correct(versions[middle]) else (middle, high)
    return versions[low], versions[high]
