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
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.errors import CommandLineError, warn
from polygraphy.cli.declare.given import flags_given
from polygraphy.cli.declare.values import Values
from polygraphy.cli.shared.paths import check_paths, read_in
from polygraphy.codegen.call import Call, Words

Named = Sequence["tuple[str, str | None]"]
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
    unused = flags_given(values, [CheckOptions])
    if unused:
        warn(f"{', '.join(unused)}: without effect without --check.")
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
    artifacts = values[ArtifactOptions]
    replay = _replay_of(values)
    if artifacts.art_dir is not None and not artifacts.artifacts:
        warn("--art-dir: without effect without --artifacts.")
    return call_of(
        "Iterations",
        values,
        check,
        artifact=getattr(options, "iter_artifact", None),
        numbered=list(numbered) or None,
        results=[path for path in results if path is not None] or None,
        save_replay=None if replay is None else replay.save_debug_replay,
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
    """Refuse to move away what is read.

    Raises:
        CommandLineError: a file would be.
    """
    artifacts = values[ArtifactOptions].artifacts
    check_paths(read_in(values), [("--artifacts", path) for path in artifacts])


def _replay_of(values: Values) -> DebugReplayOptions | None:
    return next((group for group in values if isinstance(group, DebugReplayOptions)), None)
