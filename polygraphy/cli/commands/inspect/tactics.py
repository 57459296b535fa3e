"""The commands `inspect tactics` and `inspect diff-tactics`."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.commands.inspect.tactics_options import ComparedReplaysOptions, ReplayOptions
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.command import Command, Values
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.script import ScriptOptions
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.log_context import log_of
from polygraphy.cli.shared.report import ReportOptions
from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.render import render


class InspectTacticsCommand(Command):
    """Shows a tactic replay."""

    name = "inspect tactics"
    description = "Show which tactic a TensorRT build chose for each layer."
    groups = (ReplayOptions, ScriptOptions, ReportOptions, LogOptions)

    def render(self, values: Values, words: Sequence[str]) -> str:
        path = values[ReplayOptions].tactic_replay
        return render(
            "show.py.j2",
            f"Show the tactics in {quoted(path)}.",
            words,
            call=call_of("inspect_tactics", values, path),
            log=log_of(values),
        )


class InspectDiffTacticsCommand(Command):
    """Finds tactics that may be bad."""

    name = "inspect diff-tactics"
    description = (
        "Find the tactics that only TensorRT builds that failed chose, out of tactic replays of"
        " builds that passed and of builds that failed. With two replays, show in which layers they"
        " differ."
    )
    groups = (ComparedReplaysOptions, ScriptOptions, ReportOptions, LogOptions)

    def render(self, values: Values, words: Sequence[str]) -> str:
        options = values[ComparedReplaysOptions]
        self._check(options)
        summary = "Find tactics that only builds that failed chose."
        call = call_of("find_bad_tactics", values)
        if options.replays:
            summary = "Show in which layers the tactics of {} and {} differ."
            call = call_of("compare_tactics", values, *options.replays)
        return render(
            "show.py.j2",
            summary.format(*map(quoted, options.replays)),
            words,
            call=call,
            log=log_of(values),
        )

    def _check(self, options: ComparedReplaysOptions) -> None:
        """Refuse what cannot be meant together."""
        apart = {"--dir": options.dir, "--good": options.good, "--bad": options.bad}
        given = [flag for flag, value in apart.items() if value is not None]
        if options.replays and given:
            raise CommandLineError(
                f"{', '.join(given)}: two replays are compared with each other alone."
            )
        if len(options.replays) not in (0, 2):
            raise CommandLineError(
                f"two replays can be compared, not {len(options.replays)}. Replays of builds that"
                " passed and failed are given with --good and --bad, or with --dir."
            )
        if len(given) == len(apart):
            raise CommandLineError(
                "--dir: nothing would be read from there, because --good and --bad are both given."
            )


class DebugDiffTacticsCommand(InspectDiffTacticsCommand):
    """The same under the name that it had in the past."""

    name = "debug diff-tactics"
