"""The commands that there are, by name; what a command consists of is imported when it is
chosen.

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
    "inspect data": ("inspect.data", "Show what saved inputs, outputs or accuracy results hold."),
    "inspect diff": (
        "inspect.diff",
        "Compare two files of saved outputs or inputs, or two ONNX models.",
    ),
    "inspect model": ("inspect.model", "Show what models consist of."),
    "inspect outputs": ("inspect.model_options", "List the tensors of an ONNX model."),
    "inspect sparsity": (
        "inspect.model_options",
        "Tell which weights of an ONNX model are 2:4 sparse.",
    ),
    "inspect capability": (
        "inspect.capability",
        "Tell which parts of an ONNX model TensorRT supports.",
    ),
    "inspect tactics": (
        "inspect.tactics",
        "Show which tactic a TensorRT build chose for each layer.",
    ),
    "inspect diff-tactics": (
        "inspect.tactics",
        "Find TensorRT tactics that may be bad, or compare two replays.",
    ),
    "debug build": ("trt.engine", "Build a TensorRT engine again and again, and check each."),
    "debug precision": ("trt.engine", "Find the layers that need a higher precision in TensorRT."),
    "debug reduce": ("debug.reduce", "Reduce an ONNX model to a part that still fails."),
    "debug repeat": ("debug.repeat", "Run a check again and again, and sort files by its answer."),
    "debug diff-tactics": ("inspect.tactics", "The old name of inspect diff-tactics."),
    "template trt-network": ("trt.template", "Write a script that makes a TensorRT network."),
    "template trt-config": (
        "trt.template",
        "Write a script that makes a TensorRT builder configuration.",
    ),
    "template onnx-gs": (
        "template.onnx",
        "Write a script to edit an ONNX model with onnx-graphsurgeon.",
    ),
    "plugin autotune": (
        "trt.autotune",
        "Find the plugins that make an ONNX model quicker in TensorRT.",
    ),
    "template shard-hints": (
        "template.shard",
        "Write down how an ONNX model can be split over several devices.",
    ),
    "multi-device shard": ("template.shard", "Split an ONNX model over several devices."),
    "plugin list": ("plugin.patterns", "Say which plugins could compute parts of an ONNX model."),
    "plugin match": (
        "plugin.patterns",
        "Find the parts of an ONNX model that plugins could compute.",
    ),
    "plugin replace": ("plugin.patterns", "Put plugins in place of parts of an ONNX model."),
    "check accuracy": (
        "check.accuracy",
        "Judge saved accuracy results again, under other tolerances.",
    ),
    "check compatibility": ("check.model", "Tell which backends can run a model."),
    "check lint": ("check.model", "Find out what is wrong with an ONNX model."),
    "data concat": ("data", "Put the iterations of several files behind each other."),
    "data merge": ("data", "Put the tensors of several files beside each other, as input data."),
    "data to-input": ("data", "The old name of merge."),
    "data convert": ("data", "Write a file, or a folder, in another format."),
    "surgeon copy": (
        "surgeon.surgeon",
        "Copy nodes, with their weights, from a model that is right.",
    ),
    "surgeon extract": ("surgeon.surgeon", "Cut a part out of an ONNX model."),
    "surgeon insert": ("surgeon.surgeon", "Put a node into an ONNX model."),
    "surgeon prune": (
        "surgeon.surgeon",
        "Make weights 2:4 sparse, or take nodes of some types out.",
    ),
    "surgeon sanitize": (
        "surgeon.surgeon",
        "Simplify an ONNX model: fold constants, infer shapes, tidy up.",
    ),
    "surgeon weight-reconstruct": (
        "surgeon.surgeon",
        "Put random weights into an ONNX model without weights.",
    ),
    "surgeon weight-strip": ("surgeon.surgeon", "Take the weights out of an ONNX model."),
    "sweep": ("sweep", "Run models in all combinations of a plan, each in a process, and compare."),
    "diagnose": ("diagnose", "Find out why the outputs of a model are wrong."),
    "doctor": ("doctor", "Show which backends, devices and settings there are."),
}

# pathlib costs more than the look.
_ROOMS = {"trt": isdir(join(dirname(__file__), "trt"))}  # noqa: PTH112, PTH118, PTH120
"""Which rooms of commands of one backend alone are there."""

COMMANDS = {name: row for name, row in _ALL.items() if _ROOMS.get(row[0].partition(".")[0], True)}
"""All commands: the module beside this one that has what is named after it, and what it does."""

GROUPS = {
    "check": "Check models and saved results.",
    "data": "Work with saved inputs and outputs.",
    "debug": "Find out why a model, or an engine, goes wrong.",
    "inspect": "Look into models and saved data.",
    "multi-device": "Split models over several devices.",
    "plugin": "Put plugins into ONNX models.",
    "surgeon": "Edit ONNX models.",
    "template": "Write scripts to start from.",
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


def split_leading(words: list[str], commands: Collection[str]) -> tuple[list[str], list[str]]:
    """Split off the options of logging before a command, as in ``-v --log-file l.txt model``.

    Args:
        words: the words of a command line.
        commands: the words that name a command here, which no list of values goes beyond.

    Returns:
        Those options with their values, and what follows.

    Raises:
        CommandLineError: another option stands there.
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
                f"{flag} cannot stand before the command, as options of logging may. Write it after"
                " the command."
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


def load(name: str) -> Command:
    """Return a command: ``inspect model`` is an `InspectModelCommand`, and ``inspect data``, which
    is data alone, `INSPECT_DATA`.
    """
    from importlib import import_module

    module = import_module(f"{__package__}.{COMMANDS[name][0]}")
    words = name.replace("-", " ").split()
    made = getattr(module, "_".join(words).upper(), None)
    command: Command = made or getattr(module, "".join(map(str.capitalize, [*words, "command"])))()
    return command
