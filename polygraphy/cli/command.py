"""What a command is: groups of options, and the program that they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from polygraphy.cli.option import Options

__all__ = ["Command", "Values"]

G = TypeVar("G", bound=Options)


class Values:
    """The option groups of one command line, by class."""

    def __init__(self, groups: Mapping[type[Options], Options]) -> None:
        self._groups = groups

    def __getitem__(self, group: type[G]) -> G:
        found: Any = self._groups[group]
        return found  # type: ignore[no-any-return]

    def __iter__(self) -> Any:
        return iter(self._groups.values())


class Command:
    """One command: subclasses say which options it has and render its program."""

    name: ClassVar[str]
    description: ClassVar[str]
    groups: ClassVar[tuple[type[Options], ...]]

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program for these options; `words` is the whole command line, for the
        program's docstring.

        Raises:
            CommandLineError: the options cannot be meant together.
        """
        raise NotImplementedError
