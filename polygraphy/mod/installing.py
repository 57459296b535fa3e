"""Installing packages: the command, and running it."""

from __future__ import annotations

import os
import sys

from polygraphy import config
from polygraphy.logger import G_LOGGER
from polygraphy.logger.errors import named_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["install", "install_command", "missing_dependency"]

MISSING_DEPENDENCY_ERROR = "polygraphy.exception:MissingDependencyError"
"""Class of the error for a module that is needed and cannot be had, as text."""

_LAST_LINES = 5
"""How many lines of a failed installer's output are shown: pip gives the reason at the end."""


def missing_dependency(message: str, *, module: str, install: str) -> ImportError:
    """Return the MissingDependencyError for a module that is needed and cannot be had.

    Args:
        message: What is wrong and what to do, in full.
        module: The name of the module.
        install: The command that installs it.
    """
    create: Any = named_class(MISSING_DEPENDENCY_ERROR)
    error: ImportError = create(message, module=module, install=install)
    return error


def install_command(packages: Sequence[str], flags: Sequence[str] = ()) -> str:
    """Return the command line that installs `packages`, as a person would type it."""
    command = list(config.INSTALL_CMD)
    if command[:1] == [sys.executable]:
        command[0] = "python"
    return " ".join(map(_quoted, [*command, *flags, *packages]))


def _quoted(argument: str) -> str:
    # `shlex.quote` imports `re`, and Windows takes double quotes only.
    plain = all(char.isalnum() or char in "-_./=:@%+," for char in argument)
    quote = '"' if os.name == "nt" else "'"
    return argument if plain else f"{quote}{argument}{quote}"


def install(module: str, packages: Sequence[str], flags: Sequence[str] = ()) -> None:
    """Install `packages`, which `module` needs, with `config.INSTALL_CMD`.

    Asks first if `config.ASK_BEFORE_INSTALL` is on.

    Raises:
        MissingDependencyError: The installer failed, or the person who was asked said no.
    """
    command = install_command(packages, flags)
    if config.ASK_BEFORE_INSTALL and not _agreed(module, command):
        raise missing_dependency(
            f"{module} is required, and its installation was declined. Install it with: {command}",
            module=module,
            install=command,
        )
    G_LOGGER.info(f"Installing {module}: {command}")
    status, output = _run([*config.INSTALL_CMD, *flags, *packages])
    if status != 0:
        reason = "\n".join(output.strip().splitlines()[-_LAST_LINES:])
        raise missing_dependency(
            f"{module} is required and could not be installed. {command} ended with exit status "
            f"{status}:\n{reason}",
            module=module,
            install=command,
        )
    import importlib

    importlib.invalidate_caches()


def _agreed(module: str, command: str) -> bool:
    """Ask whether to install; no answer (standard input is at its end) is a no."""
    try:
        answer = input(f"{module} is required. Install it with `{command}`? [Y/n] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("", "y", "yes")


def _run(command: Sequence[str]) -> tuple[int, str]:
    """Run a command and return its exit status, 127 if it cannot be run, and what it printed."""
    import subprocess

    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        return 127, str(error)
    return done.returncode, done.stdout
