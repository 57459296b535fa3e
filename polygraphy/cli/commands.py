"""The commands that there are, by name; what a command consists of is imported when it is
chosen.

The name of a sub-command is that of its group, a space and its own: ``inspect data``.
"""

from __future__ import annotations

__all__ = ["COMMANDS", "GROUPS", "find", "load", "members", "top_level"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from polygraphy.cli.command import Command

COMMANDS = {
    "run": (
        "polygraphy.cli.run:RunCommand",
        "Run a model in several backends and compare the outputs.",
    ),
    "inspect data": (
        "polygraphy.cli.inspect_data:InspectDataCommand",
        "Show what saved inputs, outputs or accuracy results hold.",
    ),
    "inspect diff": (
        "polygraphy.cli.inspect_diff:InspectDiffCommand",
        "Compare two files of saved outputs, or of saved inputs.",
    ),
    "check accuracy": (
        "polygraphy.cli.check_accuracy:CheckAccuracyCommand",
        "Judge saved accuracy results anew, under other tolerances.",
    ),
    "data concat": (
        "polygraphy.cli.data:DataConcatCommand",
        "Put the iterations of several files behind each other.",
    ),
    "data merge": (
        "polygraphy.cli.data:DataMergeCommand",
        "Put the tensors of several files beside each other, as input data.",
    ),
    "data to-input": (
        "polygraphy.cli.data:DataToInputCommand",
        "The old name of merge.",
    ),
    "data convert": (
        "polygraphy.cli.data:DataConvertCommand",
        "Write a file, or a folder, in another format.",
    ),
    "doctor": (
        "polygraphy.cli.doctor:DoctorCommand",
        "Show which backends, devices and settings there are.",
    ),
}

GROUPS = {
    "check": "Check saved results.",
    "data": "Work with saved inputs and outputs.",
    "inspect": "Look into saved data.",
}
"""Names of groups of sub-commands, and what each is for."""


def top_level() -> dict[str, str]:
    """Return what may stand first on a command line, with what it is for; in alphabetical order
    after `run`.
    """
    texts = {name: text for name, (_, text) in COMMANDS.items() if " " not in name}
    texts.update(GROUPS)
    return {name: texts[name] for name in sorted(texts, key=lambda name: (name != "run", name))}


def members(group: str) -> dict[str, str]:
    """Return the sub-commands of a group by their own names, with what each does."""
    start = f"{group} "
    return {
        name[len(start) :]: text for name, (_, text) in COMMANDS.items() if name.startswith(start)
    }


def find(words: list[str]) -> tuple[str, list[str]]:
    """Split a command line into the name of its command and the words after that.

    Where there is no such command, the name is made of the words that would have to name it.
    """
    length = 2 if words[0] in GROUPS else 1
    return " ".join(words[:length]), words[length:]


def load(name: str) -> Command:
    """Return a command."""
    from importlib import import_module

    module, _, attribute = COMMANDS[name][0].partition(":")
    command: Command = getattr(import_module(module), attribute)()
    return command
