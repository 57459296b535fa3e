"""Where in code of the user's own an exception arose."""

from __future__ import annotations

import sysconfig
from pathlib import Path

_OURS = str(Path(__file__).resolve().parents[2])
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")
_INSTALLED = ("site-packages", "dist-packages")


def user_frame(error: BaseException) -> str:
    """Return `` (model.py, line 7)`` for the innermost line that an exception came through, in a
    file that belongs neither to Python, nor to this package, nor to an installed one; an empty text
    where there is none.
    """
    place = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if _is_users(file):
            place = f" ({Path(file).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _is_users(file: str) -> bool:
    """Return whether a file is the user's; a name in angle brackets means code without a file."""
    if file.startswith(("<", _OURS, _STANDARD_LIBRARY)):
        return False
    return not any(name in file for name in _INSTALLED)
