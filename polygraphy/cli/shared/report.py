"""What becomes of the program, and the verdict as a document."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.declare.errors import BadValue
from polygraphy.cli.declare.kinds import Choice, Text
from polygraphy.cli.declare.kinds.base import Repeated
from polygraphy.cli.declare.option import Options, option, option_group
from polygraphy.domain.catalog.reports import FORMATS, REPORTS, format_of_report


@option_group
class ScriptOptions(Options):
    """Program: the Python program that the command stands for."""

    gen_script: str | None = option(
        "--gen-script",
        "--gen",
        writes=True,
        help="Save the program instead of running it; - is standard output.",
    )


class ReportPath(Text):
    """The path of a report, whose extension says in which format it is."""

    def __init__(self) -> None:
        """Take one word."""
        super().__init__("PATH")

    def parse(self, words: Sequence[str]) -> str:
        if format_of_report(words[0]) is None:
            raise BadValue(
                f"no report can be written to {words[0]!r}: its extension must be one of"
                f" {', '.join(REPORTS)}"
            )
        return words[0]


@option_group
class ReportOptions(Options):
    """Report: the verdict as a document, for other programs or to look at."""

    format: str | None = option(
        "--format",
        kind=Choice(*FORMATS),
        help="Format of standard output: text, or json for one document with the verdict, of"
        " errors too; the log then goes to standard error.",
        otherwise="text",
    )
    report: tuple[str, ...] = option(
        "--report",
        writes=True,
        kind=Repeated(ReportPath()),
        help="Save a report, also of failures: .html is a page to look at, .json the document that"
        " --format json prints, .md a summary, .xml JUnit, .sarif what code scanning reads. May be"
        " given several times.",
    )
