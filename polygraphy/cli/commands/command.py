"""Commands: groups of options, and the program that they generate."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

from polygraphy.cli.declare.errors import message_count
from polygraphy.cli.declare.option import (
    Option,
    Options,
    Values,
    call_of,
    options_of,
    warn_of_needs,
)
from polygraphy.cli.shared.log import Log, LogOptions, ReportOptions, ScriptOptions, log_of
from polygraphy.codegen.source import quote_word
from polygraphy.domain.tensors.naming import join_words


class Program:
    """A program of a command, without the parts that all programs share."""

    def __init__(self, template: str, summary: str, **context: Any) -> None:
        """Set the template, a sentence that summarizes the program, and values for the template."""
        self.template = template
        self.summary = summary
        self.context = context


class Command:
    """Base class of commands; subclasses define the options and the program.

    The docstring is its description in the help.

    Attributes:
        groups: its groups of options; those of `ending` follow.
        ending: the groups that come last: about the program, the report and the log.
    """

    name: str
    groups: tuple[type[Options], ...] = ()
    ending: ClassVar[tuple[type[Options], ...]] = (ScriptOptions, ReportOptions, LogOptions)

    def __init_subclass__(cls) -> None:
        """Move the last groups to the end."""
        if isinstance(vars(cls).get("groups"), tuple):
            cls.groups = (*cls.groups, *cls.ending)

    @property
    def description(self) -> str:
        """Return the description for the help."""
        return " ".join((self.__doc__ or "").split())

    def extend(self, flags: Collection[str] | None = None) -> Command:
        """Return the command with the options that installed packages add.

        Args:
            flags: the flags of the command line to parse; only what they need is added; None adds
                everything, for help.

        Raises:
            CommandLineError: a named backend cannot be used.
        """
        return self

    def options_of(self, group: type[Options]) -> Sequence[Option]:
        """Return the options of one of the groups."""
        return options_of(group)

    @property
    def options(self) -> list[Option]:
        """Return the declarations of all groups."""
        return [option for group in self.groups for option in self.options_of(group)]

    @property
    def flags(self) -> set[str]:
        """Return all spellings of its options."""
        return {"-h", "--help", *(flag for option in self.options for flag in option.flags)}

    def missing_flags(self) -> Mapping[str, str]:
        """Return flags that users may expect but that do not exist, each with a sentence about the
        alternative."""
        return {}

    def values_by_runner(self, values: Values) -> Mapping[str, Values]:
        """Return the options of named runners, by name.

        Raises:
            CommandLineError: the options of a named runner are invalid.
        """
        return {}

    def program(self, values: Values) -> Program:
        """Return the program that these options describe.

        Raises:
            CommandLineError: the options contradict each other.
        """
        raise NotImplementedError

    def render(self, values: Values, line: str) -> str:
        """Return the source of the program; `line` is the whole command line, for its docstring.

        Raises:
            CommandLineError: the options contradict each other.
        """
        before = message_count()
        new_program = self.program(values)
        for single_values in (
            values,
            *(values.override(own_values) for own_values in values.nested.values()),
        ):
            warn_of_needs(single_values, before)
        return self.program_source(new_program, line, log_of(values))

    def program_source(self, program: Program, line: str, log: Log) -> str:
        """Return the source of a program with its log settings."""
        from polygraphy.codegen.render import render

        return render(program.template, program.summary, line, log=log, **program.context)

    def destination(self, values: Values) -> str | None:
        """Return the path to save the program to; None to run it instead."""
        return values[ScriptOptions].gen_script


class OneCall(Command):
    """A command whose program is a single call; the call gets arguments without a flag first. Such
    commands are data, not classes."""

    def __init__(
        self,
        name: str,
        description: str,
        groups: tuple[type[Options], ...] = (),
        *,
        says: str,
        call: str,
        together: bool = False,
        template: str = "show.py.j2",
        besides: Callable[[Values], Mapping[str, Any]] | None = None,
    ) -> None:
        """Set name, description, options, and the call.

        Args:
            name: its name.
            description: its purpose, for the help.
            groups: its groups of options, without those at the end.
            says: the summary of the program; ``{}`` stands for each argument without a flag, and
                ``{s}`` for the ending of a verb after a single argument.
            call: the function.
            together: whether several files become one list.
            template: the template of the program.
            besides: returns additional arguments that no option feeds; raises CommandLineError if
                the options contradict each other.
        """
        self.name = name
        self.__doc__ = description
        self.groups = (*groups, *self.ending)
        self._says = says
        self._call = call
        self._together = together
        self._template = template
        self._besides = besides

    def program(self, values: Values) -> Program:
        """Return the program that makes the call."""
        besides = {} if self._besides is None else self._besides(values)
        named: list[str] = []
        given_paths: list[Any] = []
        for group in values:
            for row in options_of(type(group)):
                if not row.is_positional:
                    continue
                value = getattr(group, row.name)
                paths = (value,) if isinstance(value, str) else value
                named.append(join_words([quote_word(path) for path in paths]))
                if not row.feeds:
                    given_paths += [list(paths)] if self._together else paths
        return Program(
            self._template,
            self._says.format(*named, s="" if len(given_paths) > 1 else "s"),
            call=call_of(self._call, values, *given_paths, **besides),
        )
