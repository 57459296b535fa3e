"""The options of one command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from polygraphy.cli.declare.option import Options

G = TypeVar("G", bound=Options)


class Values:
    """The option groups of one command line, by class."""

    def __init__(self, groups: Mapping[type[Options], Options]) -> None:
        self._groups = groups

    def __getitem__(self, group: type[G]) -> G:
        found: Any = self._groups[group]
        return found  # type: ignore[no-any-return]

    def replaced(self, *groups: Options) -> Values:
        """Return the same with some groups instead of those of their classes."""
        return Values({**self._groups, **{type(group): group for group in groups}})

    def without(self, *classes: type[Options]) -> Values:
        """Return the same without some groups."""
        return Values({each: group for each, group in self._groups.items() if each not in classes})

    def completed(self, *classes: type[Options]) -> Values:
        """Return the same with the groups of some classes that it lacks as if left out."""
        return Values({**{each: each() for each in classes}, **self._groups})

    def __iter__(self) -> Any:
        return iter(self._groups.values())
