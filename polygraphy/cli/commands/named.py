"""Runners with a name and options of their own: ``--runner cuda='--onnxrt --providers cuda'``.

A backend may be used several times with different options. Options outside the quotes apply to
every runner of their backend; a runner's own options take precedence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from polygraphy.cli.backends.built_in import Groups, backends_by_name
from polygraphy.cli.commands.command import Command
from polygraphy.cli.declare.errors import BadValue, CommandLineError
from polygraphy.cli.declare.kinds import OrderedFlags
from polygraphy.cli.declare.option import (
    NAMED_RUNNER,
    Option,
    Options,
    Values,
    flags_in,
    options_of,
)
from polygraphy.domain.tensors.naming import count_text, join_words

if TYPE_CHECKING:
    from polygraphy.domain.sweep.plan import RunnerRow

_NAME = re.compile(r"\w[\w.+-]{0,63}")
_ENTRY = "runner"
_EXAMPLE = f"{NAMED_RUNNER} cuda='--onnxrt --providers cuda'"
_TAKEN = ("exporter", "formulas", "model", "package", "reference")
"""Names of parties in a diagnosis that are not backends."""


class RunnerFlags(OrderedFlags):
    """The flags of backends, and the flag of a named runner: ``runner:NAME=FLAGS``."""

    def __init__(
        self,
        names: Mapping[str, str],
        helps: Mapping[str, str],
        texts: Mapping[str, str] | None = None,
    ) -> None:
        """Set the flags of backends, and add that of a named runner; see `OrderedFlags`."""
        super().__init__(
            {**names, NAMED_RUNNER: _ENTRY},
            {
                **helps,
                NAMED_RUNNER: "Run a backend with its own name and options, as in"
                f" {_EXAMPLE}. Results show the name. Options outside the quotes apply to all"
                " runners of their backend.",
            },
            {**(texts or {}), NAMED_RUNNER: "NAME=FLAGS"},
        )

    def parse(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the runners; see `OrderedFlags`.

        Raises:
            BadValue: a named runner has no name, an invalid one, or one that is already used.
        """
        entries = super().parse(words)
        names = [row.name for row in map(runner_row, entries) if row is not None]
        unnamed = {entry.partition(":")[0] for entry in entries} - {_ENTRY}
        for name in names:
            if names.count(name) > 1 or name in unnamed:
                raise BadValue(f"two runners have the name {name}", NAMED_RUNNER)
        return entries

    def files(self, value: Sequence[str]) -> list[tuple[str, str | None]]:
        """Return the files that runners name; options of named runners list their own files."""
        return super().files([entry for entry in value if not _is_named(entry)])

    def flags_of(self, value: Sequence[str]) -> list[str]:
        """Return the flags of the entries without a name."""
        return super().flags_of([entry for entry in value if not _is_named(entry)])


def _is_named(entry: str) -> bool:
    """Return whether an entry is a runner with a name."""
    return entry.startswith(f"{_ENTRY}:")


def runner_row(entry: str) -> RunnerRow | None:
    """Return the name and the flags of an entry; None if it is a backend without a name.

    Raises:
        BadValue: it has no name or no flags, or they are not valid.
    """
    if not _is_named(entry):
        return None
    from polygraphy.domain.errors import UsageError
    from polygraphy.domain.sweep.plan import parse_runner

    text = entry[len(_ENTRY) + 1 :]
    name, equals, flags = text.partition("=")
    name = name.strip()
    try:
        if not equals or not name or name.startswith("--") or not flags.strip():
            lacks = "flags" if name and equals else "name"
            raise BadValue(f"{_shorten(text)} has no {lacks}; write {_EXAMPLE}")
        if not _NAME.fullmatch(name):
            raise BadValue(
                f"the name {_shorten(name)} is not valid: use up to 64 letters, digits and"
                " _ . + -"
            )
        if name in _TAKEN or (
            name in backends_by_name() and backends_by_name()[name].flag not in flags.split()
        ):
            raise BadValue(f"the name {name} is reserved; choose a different name")
        return parse_runner(name, flags)
    except (BadValue, UsageError) as error:
        raise BadValue(str(error).rstrip("."), NAMED_RUNNER) from None


def _shorten(text: str) -> str:
    """Return the literal of a text, truncated to 40 characters."""
    return repr(text if len(text) <= 40 else f"{text[:40]}...")


class _OneRunner(Command):
    """The options of a named runner: those of its backend."""

    def __init__(self, command: Command, choice: Option, groups: Groups) -> None:
        """Set the whole command, the row of its backends, and the groups of this runner."""
        self.name = command.name
        self.groups = groups
        self._whole = command
        self._choice = choice

    def options_of(self, group: type[Options]) -> Sequence[Option]:
        """Return the options of a group; for backends, only those without a name."""
        rows = self._whole.options_of(group)
        if self._choice not in rows:
            return rows
        kind = self._choice.kind
        assert isinstance(kind, OrderedFlags)
        flags = [flag for flag in kind.names if flag != NAMED_RUNNER]
        texts = {flag: text for flag, text in kind.texts.items() if flag != NAMED_RUNNER}
        plain = OrderedFlags({flag: kind.names[flag] for flag in flags}, kind.helps, texts)
        option = Option(tuple(flags), plain, self._choice.help, ())
        option.name = self._choice.name
        return [option if row is self._choice else row for row in rows]

    def missing_flags(self) -> Mapping[str, str]:
        """Return the flags of the whole command that belong outside the quotes."""
        of_backends = {
            flag: f"is an option of {backend.flag}, which this runner does not use."
            for backend in backends_by_name().values()
            for group in backend.groups()
            for row in options_of(group)
            for flag in row.flags
        }
        remaining_name = "belongs to the whole command: write it outside the quotes."
        return {flag: of_backends.get(flag, remaining_name) for flag in self._whole.extend().flags}


def parse_named(
    command: Command,
    choice: type[Options],
    values: Values,
    groups_of: Callable[[str], Groups],
) -> dict[str, Values]:
    """Return the options of the named runners of a command line, by name.

    Args:
        command: the command.
        choice: its group with the single option that selects backends.
        values: the options of the command line.
        groups_of: returns the groups of a backend's options.

    Raises:
        CommandLineError: the options of a runner are invalid, or it does not have exactly one
            backend.
    """
    (row,) = command.options_of(choice)
    rows = map(runner_row, getattr(values[choice], row.name))
    return {
        row.name: _parse_runner(command, choice, row.name, row.flags, groups_of)
        for row in rows
        if row is not None
    }


def _parse_runner(
    command: Command,
    choice: type[Options],
    name: str,
    words: Sequence[str],
    groups_of: Callable[[str], Groups],
) -> Values:
    """Return the parsed options of one named runner."""
    from polygraphy.cli.parser import HelpRequested, parse

    (row,) = command.options_of(choice)
    assert isinstance(row.kind, OrderedFlags)
    backends = {flag: name for flag, name in row.kind.names.items() if flag != NAMED_RUNNER}
    chosen = [flag for word in words if (flag := word.partition("=")[0]) in backends]
    where = f"{NAMED_RUNNER} {name}"
    if NAMED_RUNNER in flags_in(words):
        raise CommandLineError(f"{where}: a runner does not contain another {NAMED_RUNNER}.")
    if len(chosen) > 1:
        raise CommandLineError(
            f"{where}: it has {count_text(len(chosen), 'backend')}, {join_words(chosen)}. A runner"
            f" has one backend: repeat {NAMED_RUNNER} for each."
        )
    if not chosen:
        raise CommandLineError(f"{where}: it has no backend. Add one of {', '.join(backends)}.")
    one_runner = _OneRunner(command, row, (choice, *groups_of(backends[chosen[0]])))
    try:
        return parse(one_runner, words)
    except HelpRequested:
        raise CommandLineError(f"{where}: -h belongs outside the quotes.") from None
    except CommandLineError as error:
        raise CommandLineError(f"{where}: {error}") from None


@frozen
class ChosenRunner:
    """A backend that the command line selects.

    Attributes:
        backend: its name.
        text: the text after its flag, for one that has its own model.
        name: the name of the runner; empty if the user chose none.
        values: the options of the command line, overridden by those of the runner.
        own: only the options of the runner; None without a name.
    """

    backend: str
    text: str
    name: str
    values: Values
    own: Values | None = None


def select_runners(values: Values, choice: type[Options]) -> list[ChosenRunner]:
    """Return the backends that a command line names, in order.

    Args:
        values: the options.
        choice: the group with the single option that selects backends.
    """
    (row,) = options_of(choice)
    runners = []
    for entry in getattr(values[choice], row.name):
        named = runner_row(entry)
        if named is None:
            backend, _, text = entry.partition(":")
            runners.append(ChosenRunner(backend, text, "", values))
            continue
        own_values = values.nested[named.name]
        backend, _, text = getattr(own_values[choice], row.name)[0].partition(":")
        merged = values.override(own_values.without(choice))
        runners.append(ChosenRunner(backend, text, named.name, merged, own_values.without(choice)))
    return runners
