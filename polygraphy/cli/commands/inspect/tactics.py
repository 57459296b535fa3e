"""The commands `inspect tactics` and `inspect diff-tactics`."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.commands.inspect.tactics_options import ComparedReplaysOptions, ReplayOptions
from polygraphy.cli.declare.command import Command, Values
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.script import ScriptOptions
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.log_context import log_of
from polygraphy.codegen.scripts.tactics import DiffTacticsScript, InspectTacticsScript


class InspectTacticsCommand(Command):
    """Shows a tactic replay."""

    name = "inspect tactics"
    description = "Show which tactic a TensorRT build chose for each layer."
    groups = (ReplayOptions, ScriptOptions, LogOptions)

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program that shows the replay."""
        return InspectTacticsScript(
            command=words,
            path=values[ReplayOptions].tactic_replay,
            log=log_of(values[LogOptions]),
        ).render()


class InspectDiffTacticsCommand(Command):
    """Finds tactics that may be bad."""

    name = "inspect diff-tactics"
    description = (
        "Find the tactics that only TensorRT builds that failed chose, out of tactic replays of"
        " builds that passed and of builds that failed. With two replays, show in which layers they"
        " differ."
    )
    groups = (ComparedReplaysOptions, ScriptOptions, LogOptions)

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program that compares the replays."""
        options = values[ComparedReplaysOptions]
        self._check(options)
        return DiffTacticsScript(
            command=words,
            replays=options.replays,
            dir=options.dir,
            good=options.good,
            bad=options.bad,
            log=log_of(values[LogOptions]),
        ).render()

    def _check(self, options: ComparedReplaysOptions) -> None:
        """Refuse what cannot be meant together."""
        usage = f"polygraphy {self.name}"
        apart = {"--dir": options.dir, "--good": options.good, "--bad": options.bad}
        given = [flag for flag, value in apart.items() if value is not None]
        if options.replays and given:
            raise CommandLineError(
                f"{', '.join(given)}: two replays are compared with each other alone.", usage
            )
        if len(options.replays) not in (0, 2):
            raise CommandLineError(
                f"two replays can be compared, not {len(options.replays)}. Replays of builds that"
                " passed and failed are given with --good and --bad, or with --dir.",
                usage,
            )
        if len(given) == len(apart):
            raise CommandLineError(
                "--dir: nothing would be read from there, because --good and --bad are both given.",
                usage,
            )


class DebugDiffTacticsCommand(InspectDiffTacticsCommand):
    """The same under the name that it had in the past."""

    name = "debug diff-tactics"
