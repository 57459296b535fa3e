"""The commands `inspect tactics` and `inspect diff-tactics`."""

from __future__ import annotations

from polygraphy.cli.commands.command import Command, OneCall, Program
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.kinds import Text, Texts
from polygraphy.cli.declare.option import Options, Values, call_of, option, option_group
from polygraphy.codegen.source import quoted


@option_group
class ReplayOptions(Options):
    """Tactics: the tactic replay that is shown."""

    tactic_replay: str = option(
        reads="Tactic replay",
        kind=Text("REPLAY"),
        default="",
        help="A file that --save-tactics wrote.",
    )


@option_group
class ComparedReplaysOptions(Options):
    """Tactics: tactic replays of builds that passed and failed, or two to compare."""

    replays: tuple[str, ...] = option(
        reads="Tactic replay",
        kind=Texts("REPLAY", nargs="*"),
        help="Two tactic replays: the layers are shown for which they hold different tactics.",
    )
    dir: str | None = option(
        "--dir",
        reads="Folder of tactic replays",
        kind=Text("DIR"),
        help="A folder with the folders good and bad, which hold replays of builds that passed and"
        " failed.",
        otherwise="the current one",
        feeds="find_bad_tactics.dir",
    )
    good: str | None = option(
        "--good",
        reads="Tactic replay",
        help="A replay of a build that passed, or a folder of such, in place of DIR/good.",
        feeds="find_bad_tactics.good",
    )
    bad: str | None = option(
        "--bad",
        reads="Tactic replay",
        help="A replay of a build that failed, or a folder of such, in place of DIR/bad.",
        feeds="find_bad_tactics.bad",
    )


INSPECT_TACTICS = OneCall(
    "inspect tactics",
    "Show which tactic a TensorRT build chose for each layer.",
    (ReplayOptions,),
    says="Show the tactics in {}.",
    call="inspect_tactics",
)


class InspectDiffTacticsCommand(Command):
    """Find the tactics that only TensorRT builds that failed chose, out of tactic replays of builds
    that passed and of builds that failed. With two replays, show in which layers they differ.
    """

    name = "inspect diff-tactics"
    groups = (ComparedReplaysOptions,)

    def program(self, values: Values) -> Program:
        options = values[ComparedReplaysOptions]
        self._check(options)
        summary = "Find tactics that only builds that failed chose."
        call = call_of("find_bad_tactics", values)
        if options.replays:
            summary = "Show in which layers the tactics of {} and {} differ."
            call = call_of("compare_tactics", values, *options.replays)
        return Program("show.py.j2", summary.format(*map(quoted, options.replays)), call=call)

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
    """Find the tactics that only TensorRT builds that failed chose, or in which layers two replays
    differ: the old name of inspect diff-tactics.
    """

    name = "debug diff-tactics"
