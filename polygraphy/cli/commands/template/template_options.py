"""Where the script goes that is written as a start."""

from __future__ import annotations

from polygraphy.cli.commands.command import Command
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.option import Options, option, option_group
from polygraphy.cli.declare.values import Values
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.report import ReportOptions


@option_group
class TemplateOptions(Options):
    """Script: where the script goes."""

    output: str | None = option(
        "-o",
        "--output",
        "--gen-script",
        "--gen",
        writes=True,
        help="The script to write; - is standard output. It must be given.",
    )


class TemplateCommand(Command):
    """Writes a script, which is not run."""

    ending = (ReportOptions, LogOptions)

    def destination(self, values: Values) -> str | None:
        """Return where the script goes.

        Raises:
            CommandLineError: that is not given.
        """
        output = values[TemplateOptions].output
        if output is None:
            raise CommandLineError(
                "where to write the script is not given. Add -o PATH, or -o - for standard output."
            )
        return output
