"""The commands `inspect tactics` and `inspect diff-tactics`."""

from __future__ import annotations

from polygraphy.cli.commands.command import Command, OneCall, Program
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.kinds import Text, Texts
from polygraphy.cli.declare.option import Options, Values, call_of, option, option_group
from polygraphy.codegen.source import quote_word


@option_group
class ReplayOptions(Options):
    """Tactics: the tactic replay to show."""

    tactic_replay: str = option(
        reads="Tactic replay",
        kind=Text("REPLAY"),
        default="",
        help="File that --save-tactics wrote.",
    )


@option_group
class ComparedReplaysOptions(Options):
    """Tactics: tactic replays of builds that passed and failed, or two replays to compare."""

    replays: tuple[str, ...] = option(
        reads="Tactic replay",
        kind=Texts("REPLAY", nargs="*"),
        help="Two tactic replays to compare; layers with different tactics are shown.",
    )
    dir: str | None = option(
        "--dir",
        reads="Folder of tactic replays",
        kind=Text("DIR"),
        help="Folder with the subfolders good and bad, which contain replays of builds that"
        " passed and failed.",
        otherwise="the current folder",
        feeds="find_bad_tactics.dir",
    )
    good: str | None = option(
        "--good",
        reads="Tactic replay",
        help="Replay of a build that passed, or a folder of such replays.",
        otherwise="DIR/good",
        feeds="find_bad_tactics.good",
    )
    bad: str | None = option(
        "--bad",
        reads="Tactic replay",
        help="Replay of a build that failed, or a folder of such replays.",
        otherwise="DIR/bad",
        feeds="find_bad_tactics.bad",
    )


INSPECT_TACTICS = OneCall(
    "inspect tactics",
    "Show the tactic that a TensorRT build chose for each layer.",
    (ReplayOptions,),
    says="Show the tactics in {}.",
    call="inspect_tactics",
)


class InspectDiffTacticsCommand(Command):
    """Compare the tactic replays of TensorRT builds that passed and failed, and find the tactics
    that only failed builds chose. For two replays, show the layers that differ.
    """

    name = "inspect diff-tactics"
    groups = (ComparedReplaysOptions,)

    def program(self, values: Values) -> Program:
        """Return the program that compares tactic replays."""
        options = values[ComparedReplaysOptions]
        self._check(options)
        summary = "Find the tactics that only failed builds chose."
        call = call_of("find_bad_tactics", values)
        if options.replays:
            summary = "Show the layers whose tactics differ between {} and {}."
            call = call_of("compare_tactics", values, *options.replays)
        return Program("show.py.j2", summary.format(*map(quote_word, options.replays)), call=call)

    def _check(self, options: ComparedReplaysOptions) -> None:
        """Raise CommandLineError for contradicting options."""
        apart = {"--dir": options.dir, "--good": options.good, "--bad": options.bad}
        flags = [flag for flag, value in apart.items() if value is not None]
        if options.replays and flags:
            raise CommandLineError(f"{', '.join(flags)}: cannot be combined with two replays.")
        if len(options.replays) not in (0, 2):
            raise CommandLineError(
                f"only two replays can be compared, not {len(options.replays)}. For replays of"
                " builds that passed and failed, use --good and --bad, or --dir."
            )
        if len(flags) == len(apart):
            raise CommandLineError("--dir: has no effect, because --good and --bad are both set.")


class DebugDiffTacticsCommand(InspectDiffTacticsCommand):
    """Find the tactics that only failed TensorRT builds chose, or the layers in which two replays
    differ. Older name of inspect diff-tactics.
    """

    name = "debug diff-tactics"
