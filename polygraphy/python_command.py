"""Command lines that start an interpreter of Python and import nothing from the current folder.

``python -m`` and ``python -c`` put the current folder in front of the import path, and a script its
own folder, so that a file `json.py` there runs as code of this package. PYTHONSAFEPATH and ``-P``
need Python 3.11, and ``-I`` ignores PYTHONPATH and packages of the user, so every place that starts
an interpreter calls `safe_command`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SAFE_PATH", "ignore_empty_paths", "safe_command"]

SAFE_PATH = "import sys; sys.path[:] = filter(None, sys.path); "
"""Code that removes the current folder from the import path, for ``python -c``, where it is the
empty string; sys is part of the interpreter and comes from no file.
"""

_LAST = "sys.path.append({!r}); "
_FIRST = "sys.path.insert(0, {!r}); import polygraphy; sys.path.append(sys.path.pop(0)); "
"""Code that makes this package importable; other packages still come from where they are installed.
"""
_MODULE = "import runpy; runpy.run_module({!r}, run_name='__main__', alter_sys=True)"
_SCRIPT = "import runpy; sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')"


def safe_command(command: Sequence[str]) -> list[str]:
    """Return an equivalent command line that does not import from the current folder.

    In the interpreter of this process, this package is importable wherever its files are, also if
    another package named polygraphy is installed.

    Args:
        command: an interpreter, then ``-m MODULE``, ``-c CODE`` or the path of a script, then its
            arguments.
    """
    interpreter, *words = command
    code = SAFE_PATH
    if interpreter == sys.executable:
        is_ours = words[0] in ("-m", "-c") and "polygraphy" in words[1]
        code += (_FIRST if is_ours else _LAST).format(_root())
    if words[0] == "-m":
        return [interpreter, "-c", code + _MODULE.format(words[1]), *words[2:]]
    if words[0] == "-c":
        return [interpreter, "-c", code + words[1], *words[2:]]
    return [interpreter, "-c", code + _SCRIPT, *words]


def ignore_empty_paths() -> None:
    """Remove empty elements of PYTHONPATH, which Python reads as the current folder,
    for this process and those that it starts: ``PYTHONPATH=$PYTHONPATH:/opt/x`` has one if the
    variable was empty, and nobody named a folder.
    """
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    named = [path for path in paths if path]
    if len(named) == len(paths) or not named:
        return
    os.environ["PYTHONPATH"] = os.pathsep.join(named)
    folder = str(Path.cwd())
    if folder not in map(os.path.abspath, named):
        sys.path[:] = [path for path in sys.path if path != folder]


def _root() -> str:
    """Return the folder that contains this package."""
    return str(Path(__file__).absolute().parent.parent)
