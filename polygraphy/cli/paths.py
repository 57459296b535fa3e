"""Which files a command line reads and writes."""

from __future__ import annotations

from collections.abc import Iterable
from os.path import normpath

from polygraphy.cli.errors import CommandLineError

__all__ = ["check_paths"]

Named = Iterable[tuple[str, str | None]]


def check_paths(read: Named, written: Named, usage: str) -> None:
    """Refuse to write what is read, and to write two things to one place.

    Args:
        read: what is read: a flag, or what else to call it, and its path.
        written: what is written, likewise.
        usage: the command, for messages.

    Raises:
        CommandLineError: two of them name the same path.
    """
    taken = {normpath(path): flag for flag, path in read if path is not None}
    for flag, path in written:
        if path is None:
            continue
        other = taken.setdefault(normpath(path), flag)
        if other != flag:
            raise CommandLineError(
                f"{other} and {flag} name the same path, {path}. Save to another one.", usage
            )
