"""What a message's severity means: the scale, its letters and colors, and levels per module."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    Levels: TypeAlias = "int | Mapping[str | None, int] | Mapping[str, int] | SeverityTable"

__all__ = [
    "CRITICAL",
    "ERROR",
    "EXTRA_VERBOSE",
    "FINISH",
    "INFO",
    "PROGRESS",
    "SEVERITIES",
    "START",
    "SUPER_VERBOSE",
    "ULTRA_VERBOSE",
    "VERBOSE",
    "WARNING",
    "SeverityTable",
    "color_of",
    "letter_of",
    "level_of",
    "module_path",
    "name_of",
]

ULTRA_VERBOSE = -20
SUPER_VERBOSE = -10
EXTRA_VERBOSE = 0
VERBOSE = 10
INFO = 20
PROGRESS = 21
START = 22
FINISH = 28
WARNING = 30
ERROR = 40
CRITICAL = 50

SEVERITIES: dict[str, int] = {
    "ULTRA_VERBOSE": ULTRA_VERBOSE,
    "SUPER_VERBOSE": SUPER_VERBOSE,
    "EXTRA_VERBOSE": EXTRA_VERBOSE,
    "VERBOSE": VERBOSE,
    "INFO": INFO,
    "START": START,
    "FINISH": FINISH,
    "WARNING": WARNING,
    "ERROR": ERROR,
    "CRITICAL": CRITICAL,
}
"""Every named severity, the least severe first."""

# PROGRESS has no name: it is INFO about the progress of a command, which some consoles omit.
_NAMES = {value: name for name, value in SEVERITIES.items()}

# Letter of the prefix, and the SGR parameters (ECMA-48, 8.3.117) of the line on a terminal.
_STYLES = {
    ULTRA_VERBOSE: ("U", "90"),
    SUPER_VERBOSE: ("S", "90"),
    EXTRA_VERBOSE: ("X", "35"),
    VERBOSE: ("V", "35"),
    INFO: ("I", ""),
    START: ("I", "36"),
    FINISH: ("I", "32"),
    WARNING: ("W", "33"),
    ERROR: ("E", "31"),
    CRITICAL: ("!", "1;31"),
}


_LOWEST_LEVELS = {ULTRA_VERBOSE: 2, SUPER_VERBOSE: 4, EXTRA_VERBOSE: 6}


def _nearest_named(severity: int) -> int:
    """Return the nearest named severity that is not above `severity`."""
    if severity in _NAMES:
        return severity
    return max((value for value in _NAMES if value <= severity), default=ULTRA_VERBOSE)


def name_of(severity: int) -> str:
    """Return the name of a severity; that of the next lower one if it has none."""
    return _NAMES[_nearest_named(severity)]


def letter_of(severity: int) -> str:
    """Return the letter that marks messages of this severity."""
    return (_STYLES.get(severity) or _STYLES[_nearest_named(severity)])[0]


def level_of(severity: int) -> int:
    """Return the level of `logging` for a severity: the same number, but one above 0 for severities
    below VERBOSE, because `logging` uses no levels from 0 down; that of INFO for PROGRESS.
    """
    if severity == PROGRESS:
        return INFO
    return severity if severity >= VERBOSE else _LOWEST_LEVELS[_nearest_named(severity)]


def color_of(severity: int) -> str:
    """Return the SGR parameters of this severity; empty for the default color."""
    return _STYLES[_nearest_named(severity)][1]


class SeverityTable:
    """The least severity that is logged, for each module; immutable.

    Args:
        levels: One severity for every module; or a mapping from a path to a severity. A path is a
            file or a folder relative to the package's folder (`backend/trt`), or the name of a file
            elsewhere. `""` or None stands for all the modules that no path covers (default: INFO).

    Raises:
        TypeError: A severity is not an integer.
    """

    __slots__ = ("_levels", "_resolved", "floor", "has_paths")

    floor: int
    """The least severity that any module logs: what is below it, is logged nowhere."""

    has_paths: bool
    """Whether the answer depends on the module at all."""

    def __init__(self, levels: Levels) -> None:
        """Set the severities by path; a number applies to all modules."""
        if isinstance(levels, SeverityTable):
            entries = levels.as_dict()
        elif isinstance(levels, int):
            entries = {"": _check_level(levels, "the severity")}
        else:
            entries = {"": INFO}
            for path, level in levels.items():
                entries[_normal_path(path or "")] = _check_level(level, f"the severity of {path!r}")
        self._levels = entries
        self._resolved: dict[str, int] = {}
        self.floor = min(entries.values())
        self.has_paths = len(entries) > 1

    def get(self, path: str = "") -> int:
        """Return the severity of a module: that of its path, else that of the nearest folder."""
        level = self._resolved.get(path)
        if level is None:
            node = _normal_path(path)
            while node not in self._levels:
                node = node.rpartition("/")[0]
            level = self._resolved[path] = self._levels[node]
        return level

    def with_default(self, severity: int) -> SeverityTable:
        """Return a copy with another severity for the modules that no path covers."""
        return SeverityTable({**self._levels, "": severity})

    def as_dict(self) -> dict[str, int]:
        """Return the severities by path; the key `""` always exists."""
        return dict(self._levels)

    def __eq__(self, other: object) -> bool:
        """Return whether the severities are equal."""
        if isinstance(other, SeverityTable):
            return self._levels == other._levels
        return NotImplemented

    def __hash__(self) -> int:
        """Return a hash of the severities."""
        return hash(frozenset(self._levels.items()))

    def __repr__(self) -> str:
        """Return the severities as text."""
        return f"SeverityTable({self._levels!r})"


def _normal_path(path: str) -> str:
    """Return `path` with single forward slashes, without `./` and without slashes at its ends."""
    return "/".join(part for part in path.replace("\\", "/").split("/") if part not in ("", "."))


def _check_level(level: object, what: str) -> int:
    """Return a severity; raise TypeError if it is not an integer."""
    if isinstance(level, int) and not isinstance(level, bool):
        return level
    raise TypeError(f"Expected {what} to be an integer such as G_LOGGER.VERBOSE, got {level!r}")


# String operations, because `pathlib` alone would double what importing this package costs.
_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep  # noqa: PTH120
_MODULE_PATHS: dict[str, str] = {}


def module_path(path: str) -> str:
    """Return the name of a source file in log lines and severity tables.

    That is, with forward slashes, its path below the package's folder (`backend/trt/loader.py`),
    or for a file elsewhere its name.
    """
    module = _MODULE_PATHS.get(path)
    if module is None:
        # A code object's file name starts with the same folder, spelled the same, as `__file__`.
        if path.startswith(_PACKAGE_FOLDER):
            short = path[len(_PACKAGE_FOLDER) :]
        else:
            short = os.path.basename(path)  # noqa: PTH119
        module = _MODULE_PATHS[path] = short.replace(os.sep, "/")
    return module
