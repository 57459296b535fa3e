"""Converts words to option groups, and explains removed options."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from polygraphy.cli.commands.command import Command
from polygraphy.cli.declare.errors import BadValue, CommandLineError, warn
from polygraphy.cli.declare.kinds import Flag, Kind, OrderedFlags
from polygraphy.cli.declare.kinds.base import Repeated
from polygraphy.cli.declare.option import Option, Options, Rest, Values, split_rest
from polygraphy.cli.shared.paths import check_files, check_log_and_program
from polygraphy.domain.tensors.naming import join_words

_FORMATTER = argparse.HelpFormatter("")
"""Argparse asks for a formatter for each option, and measures the terminal each time unless it is
given this one: it formats nothing here.
"""


class HelpRequested(Exception):
    """Raised if the user asks for help."""


_NUMBERS = re.compile(r"-(?:\.?\d|inf\b)")
"""The start of a value like ``-1,1``, which argparse would read as an option."""


class _Parser(argparse.ArgumentParser):
    """An argparse parser that raises CommandLineError."""

    def error(self, message: str) -> NoReturn:
        """Raise CommandLineError with a message of argparse."""
        raise CommandLineError(f"{message}.")


class _Help(argparse.Action):
    """The argparse action of -h and --help."""

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Raise HelpRequested."""
        raise HelpRequested


class _IgnoredOption(argparse.Action):
    """An argparse action that explains why a removed option has no effect."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: Any,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Write the reason why the option has no effect."""
        warn(f"{option_string} {self.const}")


def parse(command: Command, words: Sequence[str]) -> Values:
    """Return the option groups of a command line.

    Raises:
        CommandLineError: an option does not exist, lacks its value, has an invalid one, or excludes
            another; or a file would be overwritten.
        HelpRequested: one of the words is -h or --help.
    """
    declared = {group: command.options_of(group) for group in command.groups}
    all_options = [option for options in declared.values() for option in options]
    has_rest = any(isinstance(option.kind, Rest) for option in all_options)
    known_names, remaining_values = split_rest(words, all_options) if has_rest else (words, {})
    parser, advice_on = _build_parser(command.name, declared)
    # Check this before argparse, which could accept a removed option as an abbreviation.
    refused = [flag for word in known_names if (flag := word.partition("=")[0]) in advice_on]
    if refused:
        raise CommandLineError(" ".join(f"{flag} {advice_on[flag]}" for flag in refused))
    _refuse_files_with_dash(known_names)
    namespace, unknown = parser.parse_known_args(_move_arguments_first(known_names, all_options))
    if unknown:
        raise CommandLineError(
            _unknown_words_message(unknown, all_options, command.missing_flags())
        )
    values = Values(
        {
            group: group(**_read_values(namespace, group, options, remaining_values))
            for group, options in declared.items()
        }
    )
    rows = {row.flags[0]: row for _, row, _ in values.non_default_options if row.flags}
    for flag, row in rows.items():
        for exclude in row.excludes:
            if exclude in rows:
                raise CommandLineError(f"{flag} and {exclude} cannot be combined. Choose one.")
    values = Values({type(group): group for group in values}, command.values_by_runner(values))
    check_log_and_program(values)
    check_files(values)
    return values


def _refuse_files_with_dash(words: Sequence[str]) -> None:
    """Raise a CommandLineError if the name of a model starts with a dash, like an option."""
    from polygraphy.domain.catalog.formats import format_named

    for word in words:
        if word.startswith("-") and "=" not in word and format_named(word):
            raise CommandLineError(f"{word} starts like an option. For the file, use ./{word}.")


def _build_parser(
    name: str, declared: Mapping[type[Options], Sequence[Option]]
) -> tuple[argparse.ArgumentParser, Mapping[str, str]]:
    """Return the parser for the options of a command, and advice on refused ones."""
    parser = _Parser(
        add_help=False, usage=argparse.SUPPRESS, formatter_class=lambda prog: _FORMATTER
    )
    parser._negative_number_matcher = _NUMBERS
    parser.add_argument("-h", "--help", action=_Help, nargs=0)
    for group, options in declared.items():
        for option in options:
            _add_option(parser, f"{group.__name__}.{option.name}", option)
    refused: dict[str, str] = {}
    for row in removed_options(name):
        if row.takes is None:
            refused.update(dict.fromkeys(row.flags, row.advice))
            continue
        parser.add_argument(
            *row.flags, action=_IgnoredOption, nargs=row.takes, const=row.advice, dest="removed"
        )
    return parser, refused


def _move_arguments_first(words: Sequence[str], declared: Sequence[Option]) -> Sequence[str]:
    """Return the words with positional arguments before the options, because argparse would read
    the model in ``--compare simple model.onnx`` as a value."""
    if sum(option.is_positional for option in declared) != 1:
        return words
    kinds = {flag: option.kind for option in declared for flag in option.flags}
    moved: list[str] = []
    kept_names: list[str] = []
    room: float = 0  # Number of further words that the last option accepts.
    kind: Kind | None = None
    used_names: list[str] = []
    for word in words:
        if word.startswith("-") and word != "-" and not _NUMBERS.match(word):
            flag, equals, _ = word.partition("=")
            kind, used_names = kinds.get(flag), []
            room = 0 if equals or kind is None else _word_limit(kind)
        elif kind is not None and room and kind.ends_before(word, used_names):
            moved.append(word)
            continue
        elif not room:  # The argument already has a value.
            return words
        else:
            used_names.append(word)
            room -= 1
        kept_names.append(word)
    return [*moved, *kept_names]


def _word_limit(kind: Kind) -> float:
    """Return the maximum number of words of an option."""
    return {"0": 0, "None": 1, "?": 1}.get(str(kind.nargs), math.inf)


def _add_option(parser: argparse.ArgumentParser, dest: str, option: Option) -> None:
    """Add an option to a parser that keeps the words of each use."""
    kind = option.kind
    if option.is_positional:
        parser.add_argument(dest, action="append", nargs=kind.nargs, metavar=kind.metavar)
    elif not isinstance(kind, (Flag, OrderedFlags)):
        parser.add_argument(*option.flags, dest=dest, action="append", nargs=kind.nargs)
    for flag in option.flags if isinstance(kind, (Flag, OrderedFlags)) else ():
        if isinstance(kind, OrderedFlags) and flag in kind.texts:
            parser.add_argument(flag, dest=dest, action="append", type=f"{flag}={{}}".format)
        else:
            parser.add_argument(flag, dest=dest, action="append_const", const=flag)


def _words(kind: Kind, uses: Sequence[Any]) -> list[Any]:
    """Return the words of an option from all its uses: the last use counts,
    unless its words add up; single words with a leading dash always do (``--nodes=-a
    --nodes=-b``), because they can be passed in no other way."""
    if isinstance(kind, (Flag, OrderedFlags)):
        return list(uses)
    listed = [
        value if isinstance(value, list) else [] if value is None else [value] for value in uses
    ]
    if isinstance(kind, Repeated):
        return listed
    words: list[str] = []
    for value, now in zip(uses, listed):
        is_dashed = isinstance(value, list) and len(now) == 1 and now[0].startswith("-")
        words = [*words, *now] if is_dashed or kind.adds_up else now
    return words


def _read_values(
    namespace: Any,
    group: type[Options],
    options: Sequence[Option],
    words_after_dashes: Mapping[str, list[str]],
) -> dict[str, Any]:
    """Return the values of the options of a group that the command line sets, by name."""
    values = {}
    for option in options:
        given_value = getattr(namespace, f"{group.__name__}.{option.name}")
        words = (
            words_after_dashes.get(option.name) if isinstance(option.kind, Rest) else given_value
        )
        if words is None:
            continue
        if not isinstance(option.kind, Rest):
            words = _words(option.kind, words)
        if option.is_positional and not words:
            continue
        if option.is_positional and "" in words:
            raise CommandLineError(f"argument {option.kind.metavar}: must not be empty.")
        try:
            values[option.name] = option.kind.parse(words)
        except BadValue as error:
            raise CommandLineError(f"argument {error.flag or option.label}: {error}.") from None
    return values


_MOST_OWNERS = 4


def _commands_with(flag: str) -> list[str]:
    """Return the commands that have a flag; empty if nearly every command has it."""
    from polygraphy.cli.help import describe_all

    owners = [
        name
        for name, (_, _, _, groups) in describe_all().items()
        if any(flag in spelled.replace(",", "").split() for _, _, entries in groups
               for spelled, _ in entries)
    ]  # fmt: skip
    return owners if len(owners) <= _MOST_OWNERS else []


def _is_short_for(flag: str, other_flag: str) -> bool:
    """Return whether a flag consists of letters of another in the same order,
    including its first and last."""
    letters = iter(other_flag[3:])
    return (
        flag[:3] == other_flag[:3]
        and flag[-1:] == other_flag[-1:]
        and all(c in letters for c in flag[3:])
    )


def _unknown_words_message(
    words: Sequence[str], declared: Sequence[Option], missing: Mapping[str, str]
) -> str:
    """Return a message about unknown words, with similar options.

    Args:
        words: the words that no option accepts.
        declared: the declared options.
        missing: flags that do not exist, each with a sentence about the alternative.
    """
    from difflib import get_close_matches

    from polygraphy.domain.catalog.formats import format_named

    flags = [flag for option in declared for flag in option.flags]
    ordered = [option for option in declared if isinstance(option.kind, OrderedFlags)]
    chosen = [flag for option in ordered for flag in option.flags]
    wrong = [word for word in words if word.startswith("-")]
    if not wrong:
        metavars = [option.kind.metavar for option in declared if option.is_positional]
        if metavars == ["MODEL"] and any(format_named(word) for word in words):
            return (
                f"only one MODEL is allowed; also found: {' '.join(words)}. To compare two"
                " models, use polygraphy diagnose MODEL --reference OTHER (outputs) or"
                " polygraphy inspect diff MODEL OTHER (nodes)."
            )
        return (
            f"unrecognized arguments: {' '.join(words)}. Allowed without a flag:"
            f" {', '.join(metavars) or 'nothing'}. Flags begin with dashes."
        )
    advice: list[str] = []
    for word in dict.fromkeys(wrong):
        if word.partition("=")[0] in missing:
            advice.append(f"{word} {missing[word.partition('=')[0]]}")
            continue
        flag = word.partition("=")[0]
        if owners := _commands_with(flag):
            advice.append(f"{flag} is not an option of this command, but of {join_words(owners)}.")
            continue
        named = [name for name in chosen if _is_short_for(flag, name)]
        matches = named or get_close_matches(flag, flags, n=2, cutoff=0.6)
        advice.append(
            f"{word} does not exist"
            + (f"; did you mean {' or '.join(matches)}?" if matches else ".")
        )
    return " ".join(advice)


class RemovedOption(NamedTuple):
    """A removed option.

    Attributes:
        flags: its spellings.
        commands: the commands that accepted it; a group stands for all of its commands.
        advice: the alternative, as a sentence that begins after the flag.
        takes: the number of words after it, in the notation of argparse, if it is accepted; None if
            it is refused.
    """

    flags: tuple[str, ...]
    commands: tuple[str, ...]
    advice: str
    takes: Any = None


_NETWORKS = ("run", "convert", "inspect model", "template trt-network", "debug")
_BUILDS = ("run", "convert", "template trt-config", "debug build", "debug precision")
_DATA = (*_BUILDS, "check lint", "surgeon", "debug reduce", "plugin autotune")
_PATTERNS = ("plugin match", "plugin list", "plugin replace")
_NO_DATA = "has no effect: this command does not run the model."

_ROWS = (
    # Options of older versions of this command line.
    RemovedOption(
        ("--int-min", "--int-max", "--float-min", "--float-max"),
        _DATA,
        "was replaced by --val-range: MIN,MAX for all inputs, INPUT:MIN,MAX for one.",
    ),
    RemovedOption(
        ("--explicit-precision", "--explicit-batch"),
        _NETWORKS,
        "has no effect: it is always on.",
        0,
    ),
    RemovedOption(
        ("--strict-types", "--obey-precision-constraints"),
        _BUILDS,
        "was replaced by --precision-constraints obey.",
    ),
    RemovedOption(
        ("--max-workspace-size",), _BUILDS, "was replaced by --pool-limit workspace:SIZE."
    ),
    RemovedOption(
        ("--trt-legacy", "--uff-order", "--caffe-model", "--parser", "--preprocessor"),
        ("run",),
        "refers to a format that TensorRT no longer supports. Convert the model to ONNX and use"
        " --trt.",
    ),
    RemovedOption(
        ("--trtexec",),
        ("run",),
        "belonged to an extension. Use --trt, which runs the engine itself.",
    ),
    RemovedOption(
        ("--save-timing-cache",),
        ("inspect model",),
        "has no effect: this command builds no engine.",
        1,
    ),
    # Options of NVIDIA's Polygraphy, for commands that do not use them.
    RemovedOption(
        ("--fp-to-fp16",),
        (
            "inspect model",
            "inspect capability",
            "inspect sparsity",
            "check lint",
            "template trt-network",
            "template shard-hints",
            "multi-device shard",
        ),
        "is an option of convert: run polygraphy convert MODEL --fp-to-fp16 -o fp16.onnx, and"
        " use that model here.",
    ),
    RemovedOption(
        ("--ckpt", "--tf-outputs", "--freeze-graph", "--opset"),
        ("template trt-network",),
        "requires a TensorFlow model. Convert it to ONNX first, with polygraphy convert.",
    ),
    RemovedOption(
        (
            *("--seed", "--iterations", "--iters", "--data-loader-backend-module"),
            *("--data-loader-script", "--data-loader-func-name"),
            *("--int-min", "--int-max", "--float-min", "--float-max"),
        ),
        _PATTERNS,
        _NO_DATA,
        1,
    ),
    RemovedOption(("--val-range", "--load-inputs", "--load-input-data"), _PATTERNS, _NO_DATA, "+"),
    RemovedOption(("--input-shapes", "--inputs"), (*_PATTERNS, "template onnx-gs"), _NO_DATA, "+"),
    RemovedOption(
        ("--model-type",), _PATTERNS, "has no effect: the models are always of type onnx.", 1
    ),
    RemovedOption(
        (
            "--compare-func-script",
            "--no-shape-check",
            "--infinities-compare-equal",
            "--error-quantile",
        ),
        ("check accuracy",),
        "requires the outputs, which are not saved with the verdicts. Compare saved outputs"
        " instead: polygraphy run --load-outputs A.json B.json.",
    ),
    RemovedOption(
        (
            "--save-accuracy-results",
            "--save-heatmaps",
            "--show-heatmaps",
            "--save-error-metrics-plot",
            "--show-error-metrics-plot",
        ),
        ("check accuracy",),
        "is an option of polygraphy run.",
    ),
    RemovedOption(
        ("--fail-fast",),
        ("check accuracy",),
        "has no effect: all verdicts are already available.",
        0,
    ),
    # Options of data concat and data merge.
    RemovedOption(
        ("-o", "--output"),
        ("data convert",),
        "does not exist: put the output last, without a flag, as in data convert inputs.json"
        " inputs.safetensors.",
    ),
    # Names in other tools.
    RemovedOption(
        ("--gpu", "--cuda"),
        ("run", "diagnose", "debug reduce"),
        "does not exist: each backend has its own option. For a GPU, use --providers cuda in"
        " ONNX Runtime (onnxruntime-gpu), --torch-device cuda in PyTorch, and --openvino-device"
        " GPU in OpenVINO. TensorRT always uses a GPU.",
    ),
    RemovedOption(
        ("--tf",),
        ("diagnose",),
        "is an option of polygraphy run. Save the outputs of the TensorFlow or Keras model there"
        " (--save-inputs, --save-outputs), and pass them with --load-inputs and --golden.",
    ),
    RemovedOption(
        ("--tolerance", "--tol"),
        ("run", "diagnose", "check"),
        "does not exist: use --rtol and --atol.",
    ),
    RemovedOption(
        ("--batch-size", "--batch"),
        ("run", "diagnose", "convert", "check lint"),
        "does not exist: --input-shapes INPUT:[8,3,224,224] sets the shape of an input.",
    ),
    RemovedOption(
        ("--no-color", "--no-colors", "--no-colour"),
        ("run", "diagnose", "convert", "check", "inspect", "surgeon", "debug", "sweep", "data"),
        "does not exist: set the environment variable NO_COLOR=1, or use --log-format no-colors.",
    ),
    RemovedOption(
        ("--layerwise", "--layer-wise", "--all-layers", "--all-tensors"),
        ("run",),
        "does not exist: use --mark-all to compare all tensors, or polygraphy diagnose to find the"
        " first wrong layer.",
    ),
    # Names in trtexec.
    RemovedOption(("--shapes",), ("run", "convert", "debug"), "is called --input-shapes."),
    RemovedOption(("--minShapes",), _BUILDS, "is called --trt-min-shapes."),
    RemovedOption(("--optShapes",), _BUILDS, "is called --trt-opt-shapes."),
    RemovedOption(("--maxShapes",), _BUILDS, "is called --trt-max-shapes."),
    RemovedOption(
        ("--saveEngine",), ("run", "convert"), "is called --save-engine in run, and -o in convert."
    ),
    RemovedOption(
        ("--loadEngine",),
        ("run",),
        "does not exist: pass the engine as the model, as in run x.engine.",
    ),
    RemovedOption(
        ("--timingCacheFile",), _BUILDS, "is called --load-timing-cache and --save-timing-cache."
    ),
    RemovedOption(
        ("--memPoolSize",), _BUILDS, "is called --pool-limit, as in --pool-limit workspace:1G."
    ),
    RemovedOption(
        ("--builderOptimizationLevel",), _BUILDS, "is called --builder-optimization-level."
    ),
    RemovedOption(("--best",), _BUILDS, "is called --tf32 --fp16 --int8."),
    RemovedOption(("--noTF32",), _BUILDS, "has no effect: without --tf32, TF32 is off.", 0),
)
"""Removed options, and options of other tools. A row that `takes` words is about an option that
changes no result: it is accepted with a warning that explains why it has no effect. Any other is
refused with its advice.
"""


def removed_options(command: str) -> Sequence[RemovedOption]:
    """Return the removed options of a command, such as ``surgeon extract``."""
    group = command.partition(" ")[0]
    return [row for row in _ROWS if command in row.commands or group in row.commands]
