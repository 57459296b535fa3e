"""From options to the context of a program that searches for a culprit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from polygraphy.cli.declare.errors import BadValue, CommandLineError, warn_of_idle_flags
from polygraphy.cli.declare.kinds import Integer, Integers, Kind, Number, Text, Texts
from polygraphy.cli.declare.option import (
    Options,
    Rest,
    Values,
    call_of,
    non_default_flags,
    option,
    option_group,
)
from polygraphy.cli.shared.paths import check_paths, files_read
from polygraphy.codegen.source import Call, Words
from polygraphy.domain.search.debug_replay import DEFAULT_PATH


class _UntilKind(Kind):
    """``good``, ``bad``, or a number of at least 1."""

    metavar = "good|bad|N"

    def parse(self, words: Sequence[str]) -> str | int:
        """Return the word, or the number."""
        if words[0].lower() in ("good", "bad"):
            return words[0].lower()
        try:
            return int(Integer(minimum=1).parse(words))
        except BadValue as error:
            raise BadValue(f"{error}; expected good, bad, or a number of at least 1") from None


@option_group
class CheckOptions(Options):
    """Check: the command that decides whether an iteration passes."""

    check: tuple[str, ...] = option(
        "--check",
        "--check-inference",
        kind=Rest("COMMAND ..."),
        help="Command that fails if the problem is present; includes all arguments that follow. The"
        " command runs without a shell, and `polygraphy` in it means this installation. By"
        " default, you are asked for each verdict.",
    )
    fail_codes: tuple[int, ...] = option(
        "--fail-code",
        "--fail-returncode",
        kind=Integers("CODE"),
        excludes="--ignore-fail-code",
        help="Exit codes that count as a failure; all others are a pass.",
        otherwise="all but 0",
        feeds="CheckCommand.fail_codes",
    )
    ignore_fail_codes: tuple[int, ...] = option(
        "--ignore-fail-code",
        "--ignore-fail-returncode",
        kind=Integers("CODE"),
        help="Exit codes that do not count as a failure.",
        feeds="CheckCommand.ignored_codes",
    )
    skip_codes: tuple[int, ...] | None = option(
        "--skip-code",
        kind=Integers("CODE"),
        help="Exit codes that mean neither pass nor failure, as in git bisect.",
        feeds="CheckCommand.skip_codes",
    )
    fail_regex: tuple[str, ...] = option(
        "--fail-regex",
        kind=Texts("REGEX"),
        help="Regular expressions for the output of the check. A check fails only if its output"
        " matches one of them. The exit code counts only with --fail-code.",
        feeds="CheckCommand.fail_regex",
    )
    check_timeout: float | None = option(
        "--check-timeout",
        kind=Number(minimum=0),
        help="Time limit for one check, in seconds. A check that runs longer is stopped and"
        " counts as exit code 124.",
        otherwise="no limit",
        feeds="CheckCommand.timeout",
    )
    show_output: bool = option(
        "--show-output",
        excludes="--hide-fail-output",
        help="Show the output of every check, passed or failed.",
        feeds="CheckCommand.show_output",
    )
    hide_fail_output: bool = option(
        "--hide-fail-output",
        help="Hide the output of failed checks, even with -v.",
        feeds="CheckCommand.hide_fail_output",
    )
    check_runs: int | None = option(
        "--check-runs",
        kind=Integer(minimum=1),
        help="Number of runs that must pass before a check counts as passed, for intermittent"
        " failures or varying data.",
        feeds="CheckCommand.runs",
    )
    check_logs: str | None = option(
        "--check-logs",
        kind=Text("DIR"),
        help="Folder for the log of each check.",
        feeds="Iterations.logs",
    )


@option_group
class ArtifactOptions(Options):
    """Artifacts: files to sort by the verdict of the iteration."""

    artifacts: tuple[str, ...] = option(
        "--artifacts",
        kind=Texts("PATH"),
        help="Files and folders to move to DIR/good or DIR/bad after each iteration.",
        feeds="Iterations.artifacts",
    )
    art_dir: str | None = option(
        "--art-dir",
        "--artifacts-dir",
        needs="--artifacts",
        kind=Text("DIR"),
        help="Folder for artifacts, with the subfolders good and bad.",
        feeds="Iterations.artifacts_dir",
    )


def _artifact_option(name: str) -> Any:
    """Return the declaration of --iter-artifact with a default name."""
    return option(
        "--iter-artifact",
        "--intermediate-artifact",
        writes=True,
        default=name,
        help="Path of the intermediate file that each iteration writes for the check. The file"
        " must not exist yet.",
    )


_KEPT: Any = option(
    "--no-remove-intermediate",
    help="Keep the intermediate file after each iteration.",
    feeds="Iterations.keep_artifact",
)


_INFO: Any = option(
    "--iter-info",
    "--iteration-info",
    writes=True,
    help="Path of a JSON file with the number of the current iteration, for the check to read."
    " The file is removed after each iteration.",
    feeds="Iterations.iter_info",
)


@option_group
class IterationInfoOptions(Options):
    """Iterations: files of each iteration."""

    iter_info: str | None = _INFO


@option_group
class EngineIterationOptions(Options):
    """Iterations: files of each iteration."""

    iter_artifact: str = _artifact_option("polygraphy_debug.engine")
    no_remove_intermediate: bool = _KEPT
    iter_info: str | None = _INFO


@option_group
class ModelIterationOptions(Options):
    """Iterations: files of each iteration."""

    iter_artifact: str = _artifact_option("polygraphy_debug.onnx")
    no_remove_intermediate: bool = _KEPT
    iter_info: str | None = _INFO


@option_group
class UntilOptions(Options):
    """End: when to stop."""

    until: Union[str, int, None] = option(
        "--until",
        kind=_UntilKind(),
        excludes="--num-iterations",
        help="Condition to stop: an iteration that passes (good), one that fails (bad), or a"
        " number of iterations.",
    )
    num_iterations: int | None = option(
        "--num-iterations",
        kind=Integer(minimum=1),
        help="Number of iterations; an alias of" " --until N.",
    )


@option_group
class DebugReplayOptions(Options):
    """Debug Replay: resume a search that was stopped."""

    load_debug_replay: str | None = option(
        "--load-debug-replay",
        reads="Debug replay",
        help="Load verdicts from this file, and skip the checks that it answers.",
        feeds="Iterations.load_replay",
    )
    save_debug_replay: str = option(
        "--save-debug-replay",
        writes=True,
        default=DEFAULT_PATH,
        help="Save verdicts to this file after each iteration. A search that finishes removes the"
        " default file. After a crash, load the file with"
        " _skip_current in its name to count the crashed iteration as a failure.",
    )


IterationGroup = Union[
    type[IterationInfoOptions], type[EngineIterationOptions], type[ModelIterationOptions]
]


def check_of(values: Values, *, implied: Sequence[str] = (), asks: bool = True) -> Call:
    """Return the call that creates the check of an iteration.

    Args:
        values: the options.
        implied: the words of the default check command.
        asks: whether the default is only used if no user can be asked.
    """
    options = values[CheckOptions]
    if options.check:
        return call_of("CheckCommand", values, Words(options.check))
    if implied:
        command = call_of("CheckCommand", values, Words(implied))
        return Call("AskUser", kwargs={"otherwise": command}) if asks else command
    warn_of_idle_flags(non_default_flags(values, [CheckOptions]), " without --check")
    return Call("AskUser")


def iterations_of(
    values: Values,
    check: Call,
    group: IterationGroup,
    *,
    numbered: Sequence[str] = (),
    results: Sequence[str | None] = (),
) -> Call:
    """Return the call that creates the iterations.

    Args:
        values: the options.
        check: the call that decides.
        group: the command's options about iterations.
        numbered: files of which each iteration keeps a copy.
        results: files that are written after the search; None for others.
    """
    options: Any = values[group]
    replay = (value.save_debug_replay for value in values if isinstance(value, DebugReplayOptions))
    return call_of(
        "Iterations",
        values,
        check,
        artifact=getattr(options, "iter_artifact", None),
        numbered=list(numbered) or None,
        results=[path for path in results if path is not None] or None,
        save_replay=next(replay, None),
    )


def stop_condition(options: UntilOptions) -> str | int:
    """Return the condition that ends the iterations: ``good``, ``bad``, or a number.

    Raises:
        CommandLineError: no condition is given.
    """
    until = options.num_iterations if options.until is None else options.until
    if until is None:
        raise CommandLineError("missing --until: set good, bad, or a number of iterations.")
    return until


def check_artifacts(values: Values) -> None:
    """Raise CommandLineError if an artifact that is moved away is also an input."""
    artifacts = values[ArtifactOptions].artifacts
    check_paths(files_read(values), [("--artifacts", path) for path in artifacts])
