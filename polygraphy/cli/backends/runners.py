"""Which backends run the model."""

from __future__ import annotations

from polygraphy.cli.backends.built_in import built_in
from polygraphy.cli.declare.kinds import Ordered
from polygraphy.cli.declare.option import Options, option, option_group

_BY_FLAG = {each.flag: each for each in built_in().values()}


@option_group
class RunnerOptions(Options):
    """Runners: the backends that run the model, in the order of the command line; a flag may
    repeat.
    """

    runners: tuple[str, ...] = option(
        *_BY_FLAG,
        reads="Model",
        kind=Ordered(
            {flag: each.name for flag, each in _BY_FLAG.items()},
            {flag: each.help for flag, each in _BY_FLAG.items()},
            {flag: each.text for flag, each in _BY_FLAG.items() if each.text},
        ),
        help="The backends that run the model, in the order of the command line.",
    )
