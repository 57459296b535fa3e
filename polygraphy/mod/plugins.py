"""Entry points of installed packages, found without importing them.

Looking costs one read of a small file per installed package, and importing what was found costs
nothing until it is asked for: `EntryPoint.load`.
"""

from __future__ import annotations

import os
import sys

__all__ = [
    "BACKENDS",
    "DATA_TYPES",
    "OTHERS_BACKENDS",
    "are_installed",
    "entry_points_of",
    "package_of",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import EntryPoint

BACKENDS = "polygraphy.backends"
"""The group of backends: objects of class `polygraphy.extension.Backend`."""

OTHERS_BACKENDS = "polygraphy.run.plugins"
"""The group of backends for NVIDIA's Polygraphy, which are strings of code, and not read."""

DATA_TYPES = "polygraphy.data_types"
"""The group of `DataTypeConverter` classes; the name is that of the library whose types they
translate.
"""

_METADATA = (".dist-info", ".egg-info")


def are_installed(group: str) -> bool:
    """Return whether an installed package has entry points of a group."""
    section = f"[{group}]".encode()
    return any(section in text for text in _declarations())


def entry_points_of(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, by name.
    If several packages have the same name, the one that Python imports first counts.
    """
    if not are_installed(group):  # Avoids a slow import in the usual case.
        return []
    from importlib.metadata import entry_points

    points_by_name: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        points_by_name.setdefault(entry.name, entry)
    return [points_by_name[name] for name in sorted(points_by_name)]


def package_of(entry: EntryPoint) -> str:
    """Return the package that has an entry point, with its version."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "?"


def _declarations() -> Iterator[bytes]:
    """Yield the entry point files of the installed packages; unreadable ones are empty."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208 - pathlib costs more than the look
        except OSError:
            continue
        for name in names:
            if name.endswith(_METADATA):
                yield _read(f"{folder or '.'}/{name}/entry_points.txt")


def _read(path: str) -> bytes:
    """Return the contents of a file; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""
