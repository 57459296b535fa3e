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

    @property
    def by_group(self) -> Mapping[type[Options], Options]:
        """The groups, by class."""
        return self._groups

    def __iter__(self) -> Any:
        return iter(self._groups.values())
