"""The options of one command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from polygraphy.cli.declare.option import Option, Options, options_of

G = TypeVar("G", bound=Options)
Given = tuple[Options, Option, Any]
"""A group, one of its rows, and the value that is not the row's default."""


class Values:
    """The option groups of one command line, by class; one that the command lacks is as if all of
    it had been left out.
    """

    def __init__(self, groups: Mapping[type[Options], Options]) -> None:
        self._groups = groups

    def __getitem__(self, group: type[G]) -> G:
        found: Any = self._groups.get(group)
        return group() if found is None else found

    def replaced(self, *groups: Options) -> Values:
        """Return the same with some groups instead of those of their classes."""
        return Values({**self._groups, **{type(group): group for group in groups}})

    def without(self, *classes: type[Options]) -> Values:
        """Return the same without some groups."""
        return Values({each: group for each, group in self._groups.items() if each not in classes})

    def __iter__(self) -> Any:
        return iter(self._groups.values())

    @cached_property
    def given(self) -> Sequence[Given]:
        """What has a value other than its default, in order of declaration."""
        return [*_given(self)]


def given_in(groups: Iterable[Options]) -> Sequence[Given]:
    """Return what has a value other than its default in some groups, in order of declaration."""
    return groups.given if isinstance(groups, Values) else [*_given(groups)]


def _given(groups: Iterable[Options]) -> Iterable[Given]:
    for group in groups:
        for row in options_of(type(group)):
            value = getattr(group, row.name)
            if value != row.default:
                yield group, row, value
