"""Which files a command line reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os.path import isfile, normpath, realpath
from typing import Any

from attrs import fields

from polygraphy.cli.command import Values
from polygraphy.cli.errors import CommandLineError
from polygraphy.cli.options.log import LogOptions
from polygraphy.cli.options.script import ScriptOptions

__all__ = ["check_log_and_program", "check_paths"]

Named = Iterable[tuple[str, str | None]]


def check_paths(read: Named, written: Named, usage: str) -> None:
    """Refuse to write what is read, and to write two things to one place.

    Args:
        read: what is read: a flag, or what else to call it, and its path.
        written: what is written, likewise.
        usage: the command, for messages.

    Raises:
        CommandLineError: two of them name the same path, be it through a link.
    """
    taken = {_place(path): flag for flag, path in read if path is not None}
    for flag, path in written:
        if path is None:
            continue
        other = taken.setdefault(_place(path), flag)
        if other != flag:
            raise CommandLineError(
                f"{other} and {flag} name the same path, {path}. Save to another one.", usage
            )


def check_log_and_program(values: Values, usage: str) -> None:
    """Refuse to write the log or the program over a file that the command line names elsewhere.

    Args:
        values: the options of any command.
        usage: the command, for messages.

    Raises:
        CommandLineError: the file exists, and something else names it, too.
    """
    flags = {(LogOptions, "log_file"): "--log-file", (ScriptOptions, "gen_script"): "--gen-script"}
    written: list[tuple[str, str]] = []
    named: set[str] = set()
    for group in values:
        for field in fields(type(group)):
            texts = _texts(getattr(group, field.name))
            flag = flags.get((type(group), field.name))
            if flag is None:
                named.update(map(_place, texts))
            else:
                written += [(flag, text) for text in texts]
    for flag, path in written:
        place = _place(path)
        if place in named and isfile(place):  # noqa: PTH113 - Path's refuses long names.
            raise CommandLineError(
                f"{flag} would overwrite {path}, which the command line names elsewhere, too. Name"
                " another file.",
                usage,
            )


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in the value of an option."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, (tuple, list)):
        for inner in value:
            yield from _texts(inner)


def _place(path: str) -> str:
    """Return where a path leads, through links."""
    try:
        return realpath(path)
    except (OSError, ValueError):  # Nothing can be there.
        return normpath(path)
