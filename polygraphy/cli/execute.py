"""Runs a rendered program in this process, or saves it where nothing is lost, and says which
options make no difference to it.
"""

from __future__ import annotations

import ast
import linecache
import os
import shlex
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from io import StringIO
from pathlib import Path

from polygraphy.cli.declare.errors import CommandLineError, warn_idle, was_named
from polygraphy.cli.declare.option import changed
from polygraphy.cli.declare.values import Values
from polygraphy.codegen.source import quoted_command
from polygraphy.domain.errors import UsageError
from polygraphy.termination import remember_interrupts

_IDLE = ("OPENBLAS_THREAD_TIMEOUT", "20")
"""When an idle thread of NumPy's OpenBLAS goes to sleep: after 2**20 clock cycles, less than a
millisecond, which products of matrices in a row do not notice. By default they all spin for a tenth
of a second from the import of NumPy on, beside what is run, as much as half of a short command.
"""


def run(source: str, name: str) -> None:
    """Run a program as if it were the main script; tracebacks show its lines. Does not return: the
    program exits.
    """
    os.environ.setdefault(*_IDLE)
    remember_interrupts()
    filename = f"<polygraphy {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace = {"__name__": "__main__", "__file__": filename, "__builtins__": __builtins__}
    exec(compile(source, filename, "exec"), namespace)


def save(source: str, path: str) -> None:
    """Write a program, formatted; ``-`` is standard output.

    Raises:
        UsageError: a file is there that was edited.
        FileError: the file cannot be written.
    """
    from polygraphy.codegen.render import formatted

    pretty = formatted(source)
    if path == "-":
        sys.stdout.write(pretty)
        return
    refuse_to_overwrite_edits(path, pretty)
    from polygraphy.ports.storage import write_text

    write_text(path, pretty, executable=True)


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
    from polygraphy.cli.declare.option import flags_in
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


def warn_about_unused(values: Values, source: str, render: Callable[[Values], str]) -> None:
    """Log in one line which options have no effect on a program, but for those that a warning or a
    note has named already.

    Args:
        values: the options.
        source: the program.
        render: returns the program of other options.
    """
    # All of them before any is rendered, which says things by itself. Code may use an option in
    # another way: only for these is it worth rendering once more.
    suspects = [
        (group, row)
        for group, row, _ in values.given
        if row.feeds
        and not was_named(row.flags)
        and not any(f"{target.rpartition('.')[0]}(" in source for target in row.feeds)
    ]
    unused = []
    for group, row in suspects:
        without = values.replaced(changed(group, **{row.name: row.default}))
        with redirect_stderr(StringIO()), suppress(CommandLineError):
            if render(without) == source:
                unused.append(row.flags[0])
    warn_idle(unused, ", because nothing in this program takes it")
