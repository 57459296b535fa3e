"""Settings from the environment, read once, when this module is imported.

Code reads them through the module (`config.AUTOINSTALL_DEPS`), so that a program may change them.
A switch is on when its variable is set to anything other than `0`.
"""

from __future__ import annotations

import os
import sys

__all__ = [
    "ARRAY_SWAP_THRESHOLD_MB",
    "ASK_BEFORE_INSTALL",
    "AUTOINSTALL_DEPS",
    "EXIT_CODES",
    "INSTALL_CMD",
    "INTERNAL_CORRECTNESS_CHECKS",
    "USE_TENSORRT_RTX",
]


def _is_on(variable: str) -> bool:
    """Return whether an environment variable is set to anything but 0."""
    return os.environ.get(variable, "0") != "0"


PROBLEMS: list[str] = []
"""Problems with environment variables; the logger warns of them when it is first imported."""


def _note_ignored(variable: str, expected: str, default: object) -> None:
    # Callers cannot catch an error at import, so log a line instead of raising one.
    """Record that the value of an environment variable is invalid and ignored."""
    PROBLEMS.append(
        f"{variable}={os.environ[variable]!r} in the environment is ignored: "
        f"expected {expected}. Using {default!r}."
    )


def _integer(variable: str, default: int) -> int:
    """Return an environment variable as an integer; the default if it is not set or invalid."""
    try:
        return int(os.environ.get(variable, default))
    except ValueError:
        _note_ignored(variable, "an integer", default)
        return default


def _choice(variable: str, choices: tuple[str, ...]) -> str:
    """Return the variable's value if it is one of `choices`, the first of which is the default."""
    value = os.environ.get(variable, choices[0])
    if value in choices:
        return value
    _note_ignored(variable, "one of " + ", ".join(map(repr, choices)), choices[0])
    return choices[0]


INTERNAL_CORRECTNESS_CHECKS: bool = _is_on("POLYGRAPHY_INTERNAL_CORRECTNESS_CHECKS")
"""Check the package's own assumptions (see `Logger.internal_error`), at some cost."""

AUTOINSTALL_DEPS: bool = _is_on("POLYGRAPHY_AUTOINSTALL_DEPS")
"""Install a lazily imported module that is missing or too old, when it is first used."""

ASK_BEFORE_INSTALL: bool = _is_on("POLYGRAPHY_ASK_BEFORE_INSTALL")
"""Ask before each automatic installation."""

INSTALL_CMD: list[str] = os.environ.get("POLYGRAPHY_INSTALL_CMD", "").split() or [
    sys.executable,
    "-m",
    "pip",
    "install",
]
"""The command that installs a package, split at white space; the packages are appended to it."""

ARRAY_SWAP_THRESHOLD_MB: int = _integer("POLYGRAPHY_ARRAY_SWAP_THRESHOLD_MB", -1)
"""Without effect, and named in a warning: outputs that are compared one iteration at a time, or a
few layers at a time, need not be moved to disk.
"""

if ARRAY_SWAP_THRESHOLD_MB >= 0:
    PROBLEMS.append(
        "POLYGRAPHY_ARRAY_SWAP_THRESHOLD_MB in the environment has no effect: nothing is moved"
        " to disk. Comparator.run(streaming=True) keeps one iteration at a time, and --mark-all"
        " keeps the layers that fit into --memory-budget."
    )

EXPANSION_LIMIT_MB: int = _integer("POLYGRAPHY_EXPANSION_LIMIT_MB", 256)
"""Largest expansion of a small file in MiB, in addition to a multiple of its size: computed
constants, inlined functions (1024 nodes count as one MiB), unpacked archives. Negative for no
limit.
"""

TRIAL_TIME_LIMIT_S: int = _integer("POLYGRAPHY_TRIAL_TIME_LIMIT_S", 30)
"""Time limit of `check lint` for running a model, or a part of one, in seconds. Negative for no
limit."""

USE_TENSORRT_RTX: bool = _is_on("POLYGRAPHY_USE_TENSORRT_RTX")
"""Whether TensorRT-RTX is used in place of TensorRT."""

EXIT_CODES: str = _choice("POLYGRAPHY_EXIT_CODES", ("", "legacy"))
"""Exit codes of the command line: `""` for this package's table, `"legacy"` for 0, 1 and 2 only."""

CONSOLE: str = _choice("POLYGRAPHY_CONSOLE", ("", "log"))
"""What the console shows: `""` for tables and verdicts, `"log"` for every line of the log."""
