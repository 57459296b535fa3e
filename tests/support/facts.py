"""Facts of a culprit, as documents keep them: tests ask for these, and not for words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def facts_of(culprit: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the first fact of each kind of a culprit, including nested ones, by kind."""
    facts: dict[str, Mapping[str, Any]] = {}
    for fact in culprit["facts"]:
        for each in _within(fact):
            facts.setdefault(each["kind"], each)
    return facts


def _within(fact: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a fact and all facts nested in it."""
    yield fact
    for value in fact.values():
        if isinstance(value, Mapping) and "kind" in value:
            yield from _within(value)
