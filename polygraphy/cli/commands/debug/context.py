"""From options to the context of a program that searches for what is to blame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from polygraphy.cli.declare.errors import BadValue, CommandLineError, warn_idle
from polygraphy.cli.declare.kinds import Integer, Integers, Kind, Number, Text, Texts
from polygraphy.cli.declare.option import (
    Options,
    Rest,
    Values,
    call_of,
    flags_given,
    option,
    option_group,
)
from polygraphy.cli.shared.paths import check_paths, read_in
from polygraphy.codegen.source import Call, Words


class _Until(Kind):
    """``good``, ``bad``, or a number from 1 on."""

    metavar = "good|bad|N"

    def parse(self, words: Sequence[str]) -> str | int:
        """Return the word, or the number."""
        if words[0].lower() in ("good", "bad"):
            return words[0].lower()
        try:
            return int(Integer(minimum=1).parse(words))
        except BadValue as error:
            raise BadValue(f"{error}; good, bad, or a number from 1 on is expected") from None


@option_group
class CheckOptions(Options):
    """Check: what decides whether an iteration has passed."""

    check: tuple[str, ...] = option(
        "--check",
        "--check-inference",
        kind=Rest("COMMAND ..."),
        help="A command that fails where the problem is; everything that follows belongs to it. No"
        " shell takes part; polygraphy is this one. Without it, you are asked.",
    )
    fail_codes: tuple[int, ...] = option(
        "--fail-code",
        "--fail-returncode",
        kind=Integers("CODE"),
        excludes="--ignore-fail-code",
        help="The only exit codes that are failures.",
        otherwise="all but 0",
        feeds="CheckCommand.fail_codes",
    )
    ignore_fail_codes: tuple[int, ...] = option(
        "--ignore-fail-code",
        "--ignore-fail-returncode",
        kind=Integers("CODE"),
        help="Exit codes that are no failures.",
        feeds="CheckCommand.ignored_codes",
    )
    skip_codes: tuple[int, ...] | None = option(
        "--skip-code",
        kind=Integers("CODE"),
        help="Exit codes that say neither, as for git bisect.",
        feeds="CheckCommand.skip_codes",
    )
    fail_regex: tuple[str, ...] = option(
        "--fail-regex",
        kind=Texts("REGEX"),
        help="Regular expressions: it is a failure only where what the command writes matches one"
        " of them; and without --fail-code, whatever its exit code is.",
        feeds="CheckCommand.fail_regex",
    )
    check_timeout: float | None = option(
        "--check-timeout",
        kind=Number(minimum=0),
        help="Seconds that it may take; then it is stopped, as if it had ended with exit code 124.",
        otherwise="no limit",
        feeds="CheckCommand.timeout",
    )
    show_output: bool = option(
        "--show-output",
        excludes="--hide-fail-output",
        help="Show what it writes, whether it passes or fails.",
        feeds="CheckCommand.show_output",
    )
    hide_fail_output: bool = option(
        "--hide-fail-output",
        help="Do not show what it writes when it fails, not even with -v.",
        feeds="CheckCommand.hide_fail_output",
    )
    check_runs: int | None = option(
        "--check-runs",
        kind=Integer(minimum=1),
        help="How often it is run as long as it passes: for a failure that comes and goes, or data"
        " that differ each time.",
        feeds="CheckCommand.runs",
    )
    check_logs: str | None = option(
        "--check-logs",
        kind=Text("DIR"),
        help="The folder for a log of each check.",
        feeds="Iterations.logs",
    )


@option_group
class ArtifactOptions(Options):
    """Artifacts: files that are sorted by whether the iteration has passed."""

    artifacts: tuple[str, ...] = option(
        "--artifacts",
        kind=Texts("PATH"),
        help="Files and folders that are moved to DIR/good or DIR/bad after each iteration.",
        feeds="Iterations.artifacts",
    )
    art_dir: str | None = option(
        "--art-dir",
        "--artifacts-dir",
        needs="--artifacts",
        kind=Text("DIR"),
        help="That DIR.",
        feeds="Iterations.artifacts_dir",
    )


def _artifact(name: str) -> Any:
    return option(
        "--iter-artifact",
        "--intermediate-artifact",
        writes=True,
        default=name,
        help="Where each iteration puts what is checked. There must be nothing yet.",
    )


_KEPT: Any = option(
    "--no-remove-intermediate",
    help="Leave it there after each iteration.",
    feeds="Iterations.keep_artifact",
)


_INFO: Any = option(
    "--iter-info",
    "--iteration-info",
    writes=True,
    help="A JSON file that tells the check the number of the iteration; removed after each.",
    feeds="Iterations.iter_info",
)


@option_group
class IterationInfoOptions(Options):
    """Iterations: what there is in each."""

    iter_info: str | None = _INFO


@option_group
class EngineIterationOptions(Options):
    """Iterations: what there is in each."""

    iter_artifact: str = _artifact("polygraphy_debug.engine")
    no_remove_intermediate: bool = _KEPT
    iter_info: str | None = _INFO


@option_group
class ModelIterationOptions(Options):
    """Iterations: what there is in each."""

    iter_artifact: str = _artifact("polygraphy_debug.onnx")
    no_remove_intermediate: bool = _KEPT
    iter_info: str | None = _INFO


@option_group
class UntilOptions(Options):
    """End: how long it goes on."""

    until: Union[str, int, None] = option(
        "--until",
        kind=_Until(),
        excludes="--num-iterations",
        help="Go on until an iteration passes (good), or fails (bad), or for so many iterations.",
    )
    num_iterations: int | None = option(
        "--num-iterations", kind=Integer(minimum=1), help="As --until N."
    )


@option_group
class DebugReplayOptions(Options):
    """Debug Replay: going on after a search was stopped."""

    load_debug_replay: str | None = option(
        "--load-debug-replay",
        reads="Debug replay",
        help="Do not check again what this file has the answer to.",
        feeds="Iterations.load_replay",
    )
    save_debug_replay: str = option(
        "--save-debug-replay",
        writes=True,
        default="polygraphy_debug_replay.json",
        help="Where answers are saved after each iteration. After a crash, the file with"
        " _skip_current in its name takes the iteration that crashed for a failure.",
    )


IterationGroup = Union[
    type[IterationInfoOptions], type[EngineIterationOptions], type[ModelIterationOptions]
]


def check_of(values: Values, *, implied: Sequence[str] = (), asks: bool = True) -> Call:
    """Return the call that makes what decides whether an iteration has passed.

    Args:
        values: the options.
        implied: the words of a command that does where none is given.
        asks: whether it only does where no user can be asked.
    """
    options = values[CheckOptions]
    if options.check:
        return call_of("CheckCommand", values, Words(options.check))
    if implied:
        command = call_of("CheckCommand", values, Words(implied))
        return Call("AskUser", kwargs={"otherwise": command}) if asks else command
    warn_idle(flags_given(values, [CheckOptions]), " without --check")
    return Call("AskUser")


def iterations_of(
    values: Values,
    check: Call,
    group: IterationGroup,
    *,
    numbered: Sequence[str] = (),
    results: Sequence[str | None] = (),
) -> Call:
    """Return the call that makes what there is in each iteration.

    Args:
        values: the options.
        check: what decides.
        group: the options about iterations that the command has.
        numbered: files of which a copy is kept after each.
        results: files that are written when the search is over, None for those that are not.
    """
    options: Any = values[group]
    replay = (each.save_debug_replay for each in values if isinstance(each, DebugReplayOptions))
    return call_of(
        "Iterations",
        values,
        check,
        artifact=getattr(options, "iter_artifact", None),
        numbered=list(numbered) or None,
        results=[path for path in results if path is not None] or None,
        save_replay=next(replay, None),
    )


def until_of(options: UntilOptions) -> str | int:
    """Return how long it goes on.

    Raises:
        CommandLineError: nothing tells.
    """
    until = options.num_iterations if options.until is None else options.until
    if until is None:
        raise CommandLineError("--until is missing: good, bad, or the number of iterations.")
    return until


def check_artifacts(values: Values) -> None:
    """Refuse to move away what is read."""
    artifacts = values[ArtifactOptions].artifacts
    check_paths(read_in(values), [("--artifacts", path) for path in artifacts])
