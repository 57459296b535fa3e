"""From options to the context of a program that searches for what is to blame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from polygraphy.cli.commands.debug.options import (
    ArtifactOptions,
    CheckOptions,
    DebugReplayOptions,
    EngineIterationOptions,
    IterationInfoOptions,
    ModelIterationOptions,
    UntilOptions,
)
from polygraphy.cli.declare.command import Values
from polygraphy.cli.declare.errors import CommandLineError, warn
from polygraphy.cli.declare.given import flags_given
from polygraphy.cli.declare.script import ScriptOptions
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.paths import check_paths
from polygraphy.codegen.scripts.debugging import Check, Iterations

Named = Sequence["tuple[str, str | None]"]
IterationGroup = Union[
    type[IterationInfoOptions], type[EngineIterationOptions], type[ModelIterationOptions]
]


def check_of(
    values: Values, usage: str, *, implied: Sequence[str] = (), asks: bool = True
) -> Check:
    """Return what decides whether an iteration has passed.

    Args:
        values: the options.
        usage: the command, for messages.
        implied: the words of a command that does where none is given.
        asks: whether it only does where nobody can be asked.

    Raises:
        CommandLineError: options exclude each other.
    """
    options = values[CheckOptions]
    for one, other, flags in (
        (options.fail_codes, options.ignore_fail_codes, "--fail-code and --ignore-fail-code"),
        (options.show_output, options.hide_fail_output, "--show-output and --hide-fail-output"),
    ):
        if one and other:
            raise CommandLineError(f"{flags} exclude each other. Choose one.", usage)
    arguments = {
        "fail_codes": list(options.fail_codes) or None,
        "ignored_codes": list(options.ignore_fail_codes) or None,
        "fail_regex": list(options.fail_regex) or None,
        "skip_codes": None if options.skip_codes is None else list(options.skip_codes),
        "show_output": options.show_output or None,
        "hide_fail_output": options.hide_fail_output or None,
        "timeout": options.check_timeout,
    }
    if options.check:
        return Check(options.check, arguments)
    if implied:
        return Check(implied, arguments, is_fallback=asks)
    unused = flags_given(values, [CheckOptions])
    if unused:
        warn(f"{', '.join(unused)}: without effect without --check.")
    return Check()


def iterations_of(
    values: Values,
    check: Check,
    group: IterationGroup,
    *,
    numbered: Sequence[str] = (),
    results: Sequence[str | None] = (),
) -> Iterations:
    """Return what there is in each iteration.

    Args:
        values: the options.
        check: what decides.
        group: the options about iterations that the command has.
        numbered: files of which a copy is kept after each.
        results: files that are written when the search is over, None for those that are not.
    """
    options: Any = values[group]
    artifacts = values[ArtifactOptions]
    arguments = {
        "artifact": getattr(options, "iter_artifact", None),
        "keep_artifact": getattr(options, "no_remove_intermediate", False) or None,
        "artifacts": list(artifacts.artifacts) or None,
        "artifacts_dir": artifacts.art_dir,
        "numbered": list(numbered) or None,
        "results": [path for path in results if path is not None] or None,
        "iter_info": options.iter_info,
    }
    replay = _replay_of(values)
    if replay is not None:
        arguments["load_replay"] = replay.load_debug_replay
        arguments["save_replay"] = replay.save_debug_replay
    if artifacts.art_dir is not None and not artifacts.artifacts:
        warn("--art-dir: without effect without --artifacts.")
    return Iterations(check, arguments)


def until_of(options: UntilOptions, usage: str) -> str | int:
    """Return how long it goes on.

    Raises:
        CommandLineError: nothing tells, or two options do.
    """
    if options.until is not None and options.num_iterations is not None:
        raise CommandLineError(
            "--until and --num-iterations exclude each other. Choose one.", usage
        )
    until = options.num_iterations if options.until is None else options.until
    if until is None:
        raise CommandLineError("--until is missing: good, bad, or the number of iterations.", usage)
    return until


def check_work_files(
    values: Values, group: IterationGroup, usage: str, *, read: Named = (), written: Named = ()
) -> None:
    """Refuse to write, or to move away, what is read.

    Args:
        values: the options.
        group: the options about iterations that the command has.
        usage: the command, for messages.
        read: what else is read.
        written: what else is written.

    Raises:
        CommandLineError: a file would be.
    """
    options: Any = values[group]
    replay = _replay_of(values)
    load = save = None
    if replay is not None:
        load, save = replay.load_debug_replay, replay.save_debug_replay
    read = [*read, ("--load-debug-replay", None if load == save else load)]
    check_paths(
        read,
        [
            *written,
            ("--iter-artifact", getattr(options, "iter_artifact", None)),
            ("--iter-info", options.iter_info),
            ("--save-debug-replay", save),
            ("--log-file", values[LogOptions].log_file),
            ("--gen-script", values[ScriptOptions].gen_script),
        ],
        usage,
    )
    check_paths(read, [("--artifacts", path) for path in values[ArtifactOptions].artifacts], usage)


def _replay_of(values: Values) -> DebugReplayOptions | None:
    return next((group for group in values if isinstance(group, DebugReplayOptions)), None)
