"""What installed packages add: entry points of a group, found without importing any package.

Looking costs one read of a small file per installed package, and importing what was found costs
nothing until it is asked for: `Plugin.load`.
"""

from __future__ import annotations

import os
import sys

__all__ = ["BACKENDS", "DATA_TYPES", "OTHERS_BACKENDS", "Plugin", "are_installed", "installed"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

BACKENDS = "polygraphy.backends"
"""The group of backends: objects of class `polygraphy.extension.Backend`."""

OTHERS_BACKENDS = "polygraphy.run.plugins"
"""The group of backends for NVIDIA's Polygraphy, which are strings of code, and not read."""

DATA_TYPES = "polygraphy.data_types"
"""The group of `DataTypeConverter` classes; the name is that of the library whose types they
translate.
"""

_METADATA = (".dist-info", ".egg-info")


class Plugin:
    """One entry point: its `name`, the `value` that says where its object is (``module:name``), and
    the `package` that has it, with version.
    """

    __slots__ = ("name", "package", "value")

    def __init__(self, name: str, value: str, package: str) -> None:
        self.name = name
        self.value = value
        self.package = package

    @property
    def module(self) -> str:
        """The module that has the object."""
        return self.value.partition(":")[0].strip()

    def load(self) -> Any:
        """Import the module and return the object.

        Raises:
            Exception: whatever the import of the module raises, or the lack of the object.
        """
        from importlib import import_module

        found: Any = import_module(self.module)
        for name in filter(None, self.value.partition(":")[2].strip().split(".")):
            found = getattr(found, name)
        return found


def are_installed(group: str) -> bool:
    """Return whether any package says that it has entry points of a group."""
    section = f"[{group}]".encode()
    return any(section in text for text in _declarations())


def installed(group: str) -> list[Plugin]:
    """Return the entry points of a group, by name; where several packages have the same name, the
    one that Python would import first counts.
    """
    if not are_installed(group):  # The usual case goes without a costly import.
        return []
    from importlib.metadata import entry_points

    found: dict[str, Plugin] = {}
    for entry in entry_points(group=group):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "?"
        found.setdefault(entry.name, Plugin(entry.name, entry.value, package))
    return [found[name] for name in sorted(found)]


def _declarations() -> Iterator[bytes]:
    """Yield what the installed packages declare; what cannot be read declares nothing."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208 - pathlib costs more than the look
        except OSError:
            continue
        for name in names:
            if name.endswith(_METADATA):
                yield _read(f"{folder or '.'}/{name}/entry_points.txt")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""
