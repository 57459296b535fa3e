"""The commands that there are, by name; what a command consists of is imported when it is
chosen.
"""

from __future__ import annotations

__all__ = ["COMMANDS", "load"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from polygraphy.cli.command import Command

COMMANDS = {
    "run": (
        "polygraphy.cli.run:RunCommand",
        "Run a model in several backends and compare the outputs.",
    ),
}


def load(name: str) -> Command:
    """Return a command."""
    from importlib import import_module

    module, _, attribute = COMMANDS[name][0].partition(":")
    command: Command = getattr(import_module(module), attribute)()
    return command
