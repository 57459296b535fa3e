"""Writes command lines from the values of options, and parses them again before they are shown."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Union

from polygraphy.cli.backends.built_in import flag_of
from polygraphy.cli.commands.command import Command
from polygraphy.cli.commands.listing import COMMANDS, load_command
from polygraphy.cli.declare.errors import BadValue, CommandLineError
from polygraphy.cli.declare.kinds import OrderedFlags
from polygraphy.cli.declare.kinds.base import Repeated
from polygraphy.cli.declare.option import flags_in
from polygraphy.cli.parser import HelpRequested, parse
from polygraphy.domain.tensors.naming import path_word

Part = Union[Mapping[str, Any], Sequence[str]]
"""Values of options by the names of their rows, or words that a user typed."""


def command_line(command: str, *parts: Part) -> str:
    """Return a command line that sets these option values; see the port."""
    words = command_words(command, *parts)
    return shlex.join(["polygraphy", *command.split(), *words]) if words else ""


def command_words(command: str, *parts: Part) -> list[str]:
    """Return the words of a command line after the command's name.
    The result is empty if no command line can express the options.
    """
    values = [part for part in parts if isinstance(part, Mapping)]
    typed = [word for part in parts if not isinstance(part, Mapping) for word in part]
    if command not in COMMANDS:
        return []
    loaded = load_command(command).extend({*_backend_flags(values), *flags_in(typed)})
    rows = {row.name: row for row in loaded.options}
    if any(name not in rows for value in values for name in value):
        loaded = load_command(command).extend()
        rows = {row.name: row for row in loaded.options}
    arguments: list[str] = []
    options: list[str] = []
    expected: dict[str, list[Any]] = {}
    for part in parts:
        if not isinstance(part, Mapping):
            options += part
            continue
        for name, value in part.items():
            row = rows[name]
            if value is None or value is False or value == row.default or value in ((), [], {}):
                continue
            is_path = row.is_positional and isinstance(value, str)
            try:
                words = row.kind.unparse(path_word(value) if is_path else value)
                if not isinstance(row.kind, OrderedFlags):
                    # Parse and unparse the words, so that they have the usual spelling.
                    words = row.kind.unparse(row.kind.parse(words))
            except (BadValue, KeyError):  # KeyError: the command line has no such backend.
                return []
            (arguments if row.is_positional else options).extend(
                row.kind.command_line(row.flags, words)
            )
            if isinstance(row.kind, (OrderedFlags, Repeated)):
                expected[name] = [*expected.get(name, ()), *words]
            elif expected.setdefault(name, words) != words:
                return []
    line = [*arguments, *options]
    return line if _sets_exactly(loaded, line, expected, has_typed=bool(typed)) else []


def _sets_exactly(
    command: Command, line: Sequence[str], expected: Mapping[str, Sequence[Any]], *, has_typed: bool
) -> bool:
    """Return whether a command line is valid, and sets exactly these options."""
    try:
        given_rows = parse(command, line).non_default_options
    except (BadValue, CommandLineError, HelpRequested):
        return False
    if has_typed and not expected:
        return True
    values = {row.name: row.kind.unparse(value) for _, row, value in given_rows}
    return (has_typed or values.keys() == expected.keys()) and all(
        list(values.get(name, ())) == list(words) for name, words in expected.items()
    )


def _backend_flags(values: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the flags of the selected backends."""
    entries = (
        entry for value in values for key in ("runners", "parties") for entry in value.get(key, ())
    )
    flags: set[str] = set()
    for name, _, text in (entry.partition(":") for entry in entries):
        flags |= flags_in([flag_of(name), text] if text else [flag_of(name)])
    return flags
