"""The commands that follow a run: a diagnosis, a repetition with other options, a reduction."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from math import inf

from polygraphy.domain.tensors.naming import escape_command, read_command

_OF_DIAGNOSE = {
    "--onnxrt", "--onnx", "--openvino", "--torch", "--input-shapes", "--inputs", "--providers",
    "--seed", "--val-range", "--iterations", "--load-inputs", "--data-loader-script",
    "--load-outputs", "--runner", "--graph-optimization-level", "--disabled-optimizers",
    "--intra-op-threads", "--trt", "--fp16", "--bf16", "--tf32", "--int8", "--pool-limit",
    "--builder-optimization-level",
}  # fmt: skip
"""Options of a run that `polygraphy diagnose` takes as well."""
_ABOUT_OUTPUT = frozenset(
    {"--report", "--format", "--log-file", "--log-format", "--save-engine", "--save-timing-cache"}
)
_LEFT_OUT = frozenset({"-q", "-qq", "-v", "-vv", "-vvv", "--mark-all", "--validate"})
"""Options that `diagnose` does not need: verbosity, and checks that it makes itself."""


def diagnosis_command(command: str) -> str:
    """Return the command that finds the node at fault for a run whose outputs differ.
    The result is empty if diagnose does not support its options.
    """
    return _diagnosis(command, _DIFFERING)


def nan_diagnosis_command(command: str) -> str:
    """Return the command that finds the source of the first NaN or infinity in a run.
    The result is empty if diagnose does not support its options.
    """
    return _diagnosis(command, _UNDEFINED)


def _diagnosis(command: str, known_pairs: Collection[str]) -> str:
    """Return the command line that diagnoses a run.
    The result is empty if diagnose does not support its options; see `_diagnosis_words`."""
    words = _diagnosis_words(command, known_pairs)
    return _command_line("diagnose", words[2:]) if words else ""


def _diagnosis_words(command: str, known_pairs: Collection[str]) -> list[str]:
    """Return the words of the command that diagnoses a run.
    The result is empty if diagnose does not support its options.

    Args:
        command: the command line of the run.
        known_pairs: the flags of `_PARTIES` that a run that can be diagnosed has, each once.
    """
    # `diagnose` judges by rounding, and has no tolerances.
    without = remove_options(words_of(command), _TOLERANCES)
    without = remove_options(without, _ABOUT_OUTPUT, most=1)
    words = [word for word in without if word not in _LEFT_OUT]
    flags = [word.partition("=")[0] for word in words if word.startswith("-")]
    parties = [flag for flag in flags if flag in _PARTIES]
    is_known = any(sorted(parties) == sorted(pair.split()) for pair in known_pairs)
    if (named := flags.count(_NAMED)) > 0:
        # Each `--runner` is a backend; its name is checked when the command is parsed.
        is_known = named + len(parties) > 1 and {"--onnxrt", "--onnx"}.issuperset(parties)
    if words[:2] != ["polygraphy", "run"] or not _OF_DIAGNOSE.issuperset(flags) or not is_known:
        return []
    return ["polygraphy", "diagnose", *words[2:]]


_PARTIES = ("--onnxrt", "--onnx", "--load-outputs", "--torch", "--openvino", "--trt")
_DIFFERING = (
    "--onnxrt --onnx", "--onnxrt --openvino", "--onnxrt --trt", "--onnx --openvino", "--onnx --trt",
    "--onnxrt --load-outputs", "--trt --load-outputs",
    "--onnxrt --torch", "--onnx --torch", "--trt --torch",
    "--onnxrt --onnx --openvino", "--onnxrt --onnx --trt",
)  # fmt: skip
"""Runs that `diagnose` examines if outputs differ."""
_UNDEFINED = ("--onnxrt", "--trt", "--onnxrt --onnx", "--onnxrt --load-outputs")
"""Runs in which it finds the first NaN."""
_CRASHING = (
    "--onnxrt", "--onnxrt --onnx", "--onnxrt --openvino", "--onnx --openvino",
    "--onnxrt --onnx --openvino",
)  # fmt: skip
"""Runs in which it finds the node that crashes."""
_NAMED = "--runner"
"""The flag of a backend with a name and options of its own."""


def with_auto_tolerance(command: str) -> str:
    """Return a command line with its tolerances replaced by 'auto'."""
    words = remove_options(words_of(command), _TOLERANCES)
    return _command_line("run", words[2:], {"rtol": "auto", "atol": "auto"})


_TOLERANCES = frozenset({"--rtol", "--rel-tol", "--atol", "--abs-tol"})


def _command_line(command: str, *parts: Mapping[str, str] | Sequence[str]) -> str:
    """Return a command line; see the port.
    It is imported late, because every program imports this module when it starts, and most print
    no command."""
    from polygraphy.domain.ports import command_line

    return command_line(command, *parts)


def words_of(command: str) -> list[str]:
    """Return the words of a command line as a shell reads them."""
    try:
        return read_command(command)
    except ValueError:  # Quotes are not balanced, so a shell could not read it either.
        return command.split()


def remove_options(words: Sequence[str], options: Collection[str], most: float = inf) -> list[str]:
    """Return words without some options and up to `most` values of each."""
    without: list[str] = []
    values = 0.0
    for word in words:
        if word.startswith("-"):
            name, has_value, _ = word.partition("=")
            values = most if name in options and not has_value else 0.0
            if name not in options:
                without.append(word)
        elif values:
            values -= 1
        else:
            without.append(word)
    return without


def add_options(command: str, *options: str) -> str:
    """Return a command line with additional options, unless it has them already."""
    words = words_of(command)
    added = [option for option in options if option not in words]
    return _command_line("run", [*words[2:], *added])


def crash_advice(command: str, model: str) -> str:
    """Return a sentence with the command that finds the node at which a command crashes.
    The result is empty without one.

    Args:
        command: the command line that crashes.
        model: the model that it reads; empty if there is none.
    """
    words = _diagnosis_words(command, _CRASHING)
    if not words:
        words = words_of(command)
        if not model.endswith(_REDUCIBLE) or model not in words or words[:1] != ["polygraphy"]:
            return ""
        if words[1] in _SEARCHES:
            return ""
        check = [_REDUCED if word == model else word for word in words]
        words = [*["polygraphy", "debug", "reduce"], model, "-o", "reduced.onnx", "--check", *check]
    # Parsing it, as `command_line` does, would take longer than the start of many commands.
    return f"To find the node: {escape_command(shlex.join(words))}"


_REDUCIBLE = ".onnx"
_REDUCED = "polygraphy_debug.onnx"
"""The name of each model that `debug reduce` checks."""
_SEARCHES = ("debug", "diagnose")
"""Commands that find nodes themselves."""
