"""How a message looks: one tagged text with its continuation lines, or one line of JSON."""

from __future__ import annotations

import os
import time

from polygraphy.constants import TAB
from polygraphy.logger.severity import letter_of, name_of

__all__ = ["json_line", "module_path", "text_lines"]

# String operations, because `pathlib` alone would double what importing this package costs.
_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep  # noqa: PTH120
_MODULE_PATHS: dict[str, str] = {}


def module_path(path: str) -> str:
    """Return how log lines and severity tables name a source file.

    That is, with forward slashes, its path below the package's folder (`backend/trt/loader.py`),
    or for a file elsewhere its name.
    """
    known = _MODULE_PATHS.get(path)
    if known is None:
        # A code object's file name starts with the same folder, spelled the same, as `__file__`.
        if path.startswith(_PACKAGE_FOLDER):
            short = path[len(_PACKAGE_FOLDER) :]
        else:
            short = os.path.basename(path)  # noqa: PTH119
        known = _MODULE_PATHS[path] = short.replace(os.sep, "/")
    return known


def text_lines(
    message: str,
    severity: int,
    depth: int = 0,
    letter: bool = True,
    timestamp: bool = False,
    place: str = "",
) -> str:
    """Return the text of a message: `[I] (HH:MM:SS) [place] message`.

    Args:
        message: One or more lines; one line break at the end is dropped.
        severity: Gives the letter.
        depth: Levels of indentation, which come after the tags; none if negative.
        letter: Whether to start with the severity's letter.
        timestamp: Whether to give the local time.
        place: Source file and line, empty for none.

    Continuation lines carry no tags; four spaces stand for them (none where there are no tags).
    """
    head = f"[{letter_of(severity)}] " if letter else ""
    if timestamp:
        head += time.strftime("(%H:%M:%S) ")
    if place:
        head += f"[{place}] "
    indent = TAB * depth
    if "\n" in message:
        break_ = "\n" + (TAB if head else "") + indent
        message = message.removesuffix("\n").replace("\n", break_)
    return head + indent + message


def json_line(message: str, severity: int, *, module: str, line: int) -> str:
    """Return the message as a JSON object on one line; `time` is ISO 8601, in UTC."""
    import json

    now = time.time()
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    return json.dumps(
        {
            "time": f"{seconds}.{int(now % 1 * 1000):03d}Z",
            "severity": name_of(severity),
            "module": module,
            "line": line,
            "message": message,
        }
    )
