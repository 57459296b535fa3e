"""Which tactic replays are shown or compared."""

from __future__ import annotations

from polygraphy.cli.declare.kinds import Text, Texts
from polygraphy.cli.declare.option import Options, option, option_group


class _AnyTexts(Texts):
    """Any number of texts, also none."""

    nargs = "*"


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
        kind=_AnyTexts("REPLAY"),
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
