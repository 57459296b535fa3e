"""What a command is: groups of options, and the program that they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from polygraphy.cli.declare.option import Option, Options, options_of

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


class Command:
    """One command: subclasses say which options it has and render its program."""

    name: ClassVar[str]
    description: ClassVar[str]
    groups: tuple[type[Options], ...]

    def extended(self, words: Sequence[str] | None = None) -> Command:
        """Return the command with what installed packages add to it.

        Args:
            words: the command line that is about to be parsed, which needs what it names; without
                it, everything is added, for help.

        Raises:
            CommandLineError: what the command line names cannot be used.
        """
        return self

    def declared(self, group: type[Options]) -> Sequence[Option]:
        """Return the declarations of one of the groups."""
        return options_of(group)

    def missing(self) -> Mapping[str, str]:
        """Return flags that people look for here and do not find, and a sentence about each that
        says what to do.
        """
        return {}

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program for these options; `words` is the whole command line, for the
        program's docstring.

        Raises:
            CommandLineError: the options cannot be meant together.
        """
        raise NotImplementedError

    def destination(self, values: Values) -> str | None:
        """Return where the program is saved; None to run it instead."""
        from polygraphy.cli.declare.script import ScriptOptions

        return values[ScriptOptions].gen_script
