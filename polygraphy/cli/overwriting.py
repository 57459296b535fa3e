"""Keeps what people wrote into generated programs from being lost."""

from __future__ import annotations

import ast
import os
import shlex
from contextlib import redirect_stderr
from pathlib import Path

from polygraphy.codegen.docstring import quoted_command
from polygraphy.domain.errors import UsageError


def refuse_to_overwrite_edits(path: str, text: str) -> None:
    """Refuse to save a program in place of a file that nothing could make again.

    Args:
        path: where the program is to be saved.
        text: the program.

    Raises:
        UsageError: there is a file that is not as its own command line generates it.
    """
    there = Path(path)
    try:
        if not there.is_file() or there.stat().st_size == 0:
            return
        before = there.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        before = ""
    except (OSError, ValueError):  # Then it cannot be written either, which is reported there.
        return
    if before not in (text, _generated_anew(before)):
        raise UsageError(
            f"{path} exists and is not what its command line generates: it was edited, or another"
            " version made it, or it is no generated program.",
            hint="Name another file, or remove that one.",
        )


def _generated_anew(program: str) -> str | None:
    """Return what the command line in a program's docstring generates; None where it has none."""
    from polygraphy.cli.commands.listing import COMMANDS, find, load
    from polygraphy.cli.declare.rest import flags_in
    from polygraphy.cli.parser import parse
    from polygraphy.codegen.render import formatted

    try:
        lines = (ast.get_docstring(ast.parse(program)) or "").splitlines()
        words = shlex.split(lines[-1] if lines else "")
        name, rest = find(words[1:])
        if words[0] != "polygraphy" or name not in COMMANDS:
            return None
        command = load(name).extended(flags_in(rest))
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
            return formatted(command.render(parse(command, rest), quoted_command(words)))
    except Exception:  # Whatever a person wrote there, it is nothing that we can make again.
        return None
