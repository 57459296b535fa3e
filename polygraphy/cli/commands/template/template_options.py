"""Where the script goes that is written as a start."""

from __future__ import annotations

from polygraphy.cli.declare.kinds import Text
from polygraphy.cli.declare.option import Options, option, option_group


@option_group
class TemplateOptions(Options):
    """Script: where the script goes."""

    output: str | None = option(
        "-o",
        "--output",
        "--gen-script",
        "--gen",
        writes=True,
        kind=Text("PATH"),
        help="The script to write; - is standard output. It must be given.",
    )
