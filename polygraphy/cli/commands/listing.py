"""All commands by name; the modules of a command are imported when it is used.

The name of a sub-command is that of its group, a space and its own: ``inspect data``.
"""

from __future__ import annotations

from os.path import dirname, isdir, join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from polygraphy.cli.commands.command import Command

_ALL = {
    "run": ("run.run", "Run a model in several backends and compare the outputs."),
    "convert": ("convert", "Convert a model to ONNX, or to a TensorRT engine."),
    "inspect data": (
        "inspect.data",
        "Show the contents of saved inputs, outputs or accuracy results.",
    ),
    "inspect diff": (
        "inspect.diff",
        "Compare two files of saved outputs or inputs, or two ONNX models.",
    ),
    "inspect model": ("inspect.model", "Show the contents of models."),
    "inspect outputs": ("inspect.model_options", "List the tensors of an ONNX model."),
    "inspect sparsity": (
        "inspect.model_options",
        "List the weights of an ONNX model that are 2:4 sparse.",
    ),
    "inspect capability": (
        "inspect.capability",
        "List the parts of an ONNX model that TensorRT supports.",
    ),
    "inspect profile": (
        "inspect.profile",
        "Show the time of each node in profiles of runs.",
    ),
    "inspect tactics": (
        "inspect.tactics",
        "Show the tactic that a TensorRT build chose for each layer.",
    ),
    "inspect diff-tactics": (
        "inspect.tactics",
        "Find bad TensorRT tactics, or compare two replays.",
    ),
    "debug build": ("trt.engine", "Build a TensorRT engine repeatedly, and check each one."),
    "debug precision": ("trt.engine", "Find the layers that need higher precision in TensorRT."),
    "debug reduce": ("debug.reduce", "Reduce an ONNX model to a part that still fails."),
    "debug repeat": ("debug.repeat", "Run a check repeatedly, and sort files by its result."),
    "debug diff-tactics": ("inspect.tactics", "Old name of inspect diff-tactics."),
    "template trt-network": ("trt.template", "Write a script that creates a TensorRT network."),
    "template trt-config": (
        "trt.template",
        "Write a script that creates a TensorRT builder configuration.",
    ),
    "template onnx-gs": (
        "template.onnx",
        "Write a script that edits an ONNX model with onnx-graphsurgeon.",
    ),
    "plugin autotune": (
        "trt.autotune",
        "Find plugins that make an ONNX model faster in TensorRT.",
    ),
    "template shard-hints": (
        "template.shard",
        "Compute how to split an ONNX model over several devices.",
    ),
    "multi-device shard": ("template.shard", "Split an ONNX model over several devices."),
    "plugin list": ("plugin.patterns", "List plugins that match parts of an ONNX model."),
    "plugin match": (
        "plugin.patterns",
        "Save the parts of an ONNX model that match plugins.",
    ),
    "plugin replace": ("plugin.patterns", "Replace parts of an ONNX model with plugins."),
    "check accuracy": (
        "check.accuracy",
        "Check saved accuracy results against new tolerances.",
    ),
    "check compatibility": ("check.model", "Check which backends can run a model."),
    "check lint": ("check.model", "Find problems in an ONNX model."),
    "data concat": ("data", "Concatenate the iterations of several files."),
    "data merge": ("data", "Merge the tensors of several files into input data."),
    "data to-input": ("data", "Old name of data merge."),
    "data convert": ("data", "Convert saved data to another format."),
    "surgeon copy": (
        "surgeon.surgeon",
        "Copy nodes with their weights from a correct model.",
    ),
    "surgeon extract": ("surgeon.surgeon", "Extract a part of an ONNX model."),
    "surgeon insert": ("surgeon.surgeon", "Insert a node into an ONNX model."),
    "surgeon prune": (
        "surgeon.surgeon",
        "Make weights 2:4 sparse, or remove nodes by type.",
    ),
    "surgeon sanitize": (
        "surgeon.surgeon",
        "Simplify an ONNX model: fold constants, infer shapes, clean up.",
    ),
    "surgeon weight-reconstruct": (
        "surgeon.surgeon",
        "Fill a stripped ONNX model with random weights.",
    ),
    "surgeon weight-strip": ("surgeon.surgeon", "Remove the weights from an ONNX model."),
    "sweep": ("sweep", "Run and compare models in all combinations of a plan."),
    "diagnose": ("diagnose", "Find out why the outputs of a model are wrong."),
    "doctor": ("doctor", "Show backends, devices and settings."),
}

# Importing pathlib takes longer than this check.
_ROOMS = {"trt": isdir(join(dirname(__file__), "trt"))}  # noqa: PTH112, PTH118, PTH120
"""The available folders of commands for one backend."""

COMMANDS = {name: row for name, row in _ALL.items() if _ROOMS.get(row[0].partition(".")[0], True)}
"""All commands: the module beside this one, the name in it, and the description."""

GROUPS = {
    "check": "Check models and saved results.",
    "data": "Work with saved inputs and outputs.",
    "debug": "Find the cause of failures in a model or engine.",
    "inspect": "Inspect models and saved data.",
    "multi-device": "Split models over several devices.",
    "plugin": "Use plugins in ONNX models.",
    "surgeon": "Edit ONNX models.",
    "template": "Write starter scripts.",
}
"""Names of groups of sub-commands, and what each is for."""


def top_level() -> dict[str, str]:
    """Return the commands and groups with their descriptions: `run` first, then alphabetical."""
    texts = {name: text for name, (_, text) in COMMANDS.items() if " " not in name}
    texts.update(GROUPS)
    return {name: texts[name] for name in sorted(texts, key=lambda name: (name != "run", name))}


def members(group: str) -> dict[str, str]:
    """Return the subcommands of a group with their descriptions."""
    start = f"{group} "
    return {
        name[len(start) :]: text for name, (_, text) in COMMANDS.items() if name.startswith(start)
    }


def split_command(words: list[str]) -> tuple[str, list[str]]:
    """Return the name of the command in a command line, and the words after it.

    For an unknown command, the name consists of the words that should name one.
    """
    length = 2 if words[0] in GROUPS else 1
    return " ".join(words[:length]), words[length:]


def split_leading(words: list[str], commands: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the logging options before a command, and the remaining words.

    Args:
        words: the words of a command line.
        commands: the words that name a command, at which a list of values ends.

    Returns:
        The options with their values, and the remaining words.

    Raises:
        CommandLineError: another option comes before the command.
    """
    if not words or not words[0].startswith("-"):
        return [], words
    from polygraphy.cli.declare.errors import CommandLineError
    from polygraphy.cli.declare.option import options_of
    from polygraphy.cli.shared.log import LogOptions

    takes = {flag: option.kind.nargs for option in options_of(LogOptions) for flag in option.flags}
    end = 0
    while end < len(words) and words[end].startswith("-") and words[end] not in ("-h", "--help"):
        flag, equals, _ = words[end].partition("=")
        is_bundle = flag.strip("vq") == "-" and len(flag) > 1  # -vv, -vq
        if flag not in takes and not is_bundle:
            if not any(word in commands for word in words[end:]):
                break
            raise CommandLineError(
                f"{flag} must follow the command; only logging options may precede it."
            )
        end += 1
        if equals or is_bundle or takes[flag] == 0:
            continue
        end += 1
        while takes[flag] == "+" and end < len(words) and words[end] not in commands:
            if words[end].startswith("-"):
                break
            end += 1
    return words[:end], words[end:]


def load_command(name: str) -> Command:
    """Return the command with a name."""
    from importlib import import_module

    module = import_module(f"{__package__}.{COMMANDS[name][0]}")
    words = name.replace("-", " ").split()
    value = getattr(module, "_".join(words).upper(), None)
    command: Command = value or getattr(module, "".join(map(str.capitalize, [*words, "command"])))()
    return command
