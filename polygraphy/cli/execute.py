"""Runs a rendered program in this process, or saves it."""

from __future__ import annotations

import linecache
import os
import sys

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
    from polygraphy.cli.overwriting import refuse_to_overwrite_edits
    from polygraphy.codegen.render import formatted

    pretty = formatted(source)
    if path == "-":
        sys.stdout.write(pretty)
        return
    refuse_to_overwrite_edits(path, pretty)
    from polygraphy.ports.storage import write_text

    write_text(path, pretty, executable=True)
