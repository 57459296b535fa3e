"""Keeps the ranges that calibration found out, so that it need not be done again.

The file is JSON: the method, and the smallest and the largest value of each tensor. The table that
TensorRT's own calibrators write is read, too: a line per tensor with its scale, which is the
largest magnitude divided by 127, as a big-endian float in hexadecimal digits.
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

from polygraphy.adapters.os.paths import atomic_file, translated_os_errors
from polygraphy.domain.errors import FileError
from polygraphy.logger import G_LOGGER
from polygraphy.ports.editing import CalibrationCache

_LARGEST_INT8 = 127
_TABLE_HEAD = b"TRT-"
_TABLE_LINE = re.compile(r"(.+): ([0-9a-fA-F]{8})")


def load_ranges(cache: CalibrationCache) -> dict[str, tuple[float, float]] | None:
    """Return the ranges in a cache; None where there is no cache yet, or an empty one.

    Raises:
        FileError: it cannot be read, or holds something else.
    """
    content = _content(cache)
    if not content:
        return None
    try:
        ranges = _table(content) if content.startswith(_TABLE_HEAD) else _document(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(
            f"{_name(cache)} is no calibration cache: {error}.",
            path=_name(cache),
            hint="Remove it, or name another file.",
        ) from error
    G_LOGGER.info(f"Reading calibration cache from {_name(cache)}")
    return ranges


def save_ranges(
    cache: CalibrationCache, ranges: dict[str, tuple[float, float]], method: str
) -> None:
    """Write ranges to a cache, whole or not at all; FileError when it cannot be written."""
    if cache is None:
        return
    document = {
        "calibration": method,
        "ranges": {name: [float(low), float(high)] for name, (low, high) in ranges.items()},
    }
    text = (json.dumps(document, indent=4, allow_nan=False) + "\n").encode()
    if isinstance(cache, (str, Path)):
        G_LOGGER.info(f"Writing calibration cache to {cache}")
        with atomic_file(cache) as stream:
            stream.write(text)
        return
    cache.seek(0)
    cache.write(text)
    cache.truncate()
    cache.flush()


def _content(cache: CalibrationCache) -> bytes:
    if cache is None:
        return b""
    if not isinstance(cache, (str, Path)):
        cache.seek(0)
        return bytes(cache.read())
    path = Path(cache)
    if not path.exists():
        return b""
    with translated_os_errors(path, "read"):
        content = path.read_bytes()
    if not content:
        G_LOGGER.warning(f"The calibration cache {path} is empty: calibrating again.")
    return content


def _document(content: bytes) -> dict[str, tuple[float, float]]:
    document: Any = json.loads(content)
    ranges = {}
    for name, (low, high) in document["ranges"].items():
        if not float(low) <= float(high):
            raise ValueError(f"the range of {name!r} is from {low} to {high}")
        ranges[name] = (float(low), float(high))
    return ranges


def _table(content: bytes) -> dict[str, tuple[float, float]]:
    ranges = {}
    for line in content.decode().splitlines()[1:]:
        match = _TABLE_LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"the line {line!r} is not of the form name: scale")
        [scale] = struct.unpack("!f", bytes.fromhex(match[2]))
        largest = abs(scale) * _LARGEST_INT8
        ranges[match[1]] = (-largest, largest)
    return ranges


def _name(cache: CalibrationCache) -> str:
    return str(cache if isinstance(cache, (str, Path)) else getattr(cache, "name", "memory"))
