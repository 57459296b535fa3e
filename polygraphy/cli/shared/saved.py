"""Which files are read, and which is written."""

from __future__ import annotations

from typing import Any

from polygraphy.cli.declare.kinds import Choices, Number, PerName, Text
from polygraphy.cli.declare.option import Options, option, option_group
from polygraphy.cli.shared.compare import (
    FUNCTIONS,
    absolute_tolerance,
    checked_statistic,
    relative_tolerance,
)


@option_group
class JoinOptions(Options):
    """Data: what is read, and what is written."""

    paths: tuple[str, ...] = option(
        reads="File of saved data", help="Files, or folders with one file per iteration."
    )
    output: str | None = option(
        "-o",
        "--output",
        writes=True,
        help="The file to write, or without file extension the folder. It must be given.",
        feeds=("concat.output", "merge.output"),
    )


@option_group
class ConvertOptions(Options):
    """Data: what is read, and what is written."""

    path: str = option(
        reads="File of saved data",
        default="",
        help="A file, or a folder with one file per iteration.",
    )
    output: str = option(
        writes=True,
        kind=Text("OUTPUT"),
        default="",
        help="What to write: the format follows from the file extension; without one, a folder"
        " with one file per iteration.",
        feeds="convert.output",
    )


@option_group
class RejudgeOptions(Options):
    """Tolerances: what is not given stays as it was when the results were saved."""

    path: str = option(
        reads="File of accuracy results", default="", help="A file of accuracy results."
    )
    rtol: Any = relative_tolerance(
        PerName(Number(minimum=0)),
        of="the second run's value",
        otherwise="as it was saved",
        feeds="check_accuracy.rtol",
    )
    atol: Any = absolute_tolerance(
        PerName(Number(minimum=0)), otherwise="as it was saved", feeds="check_accuracy.atol"
    )
    check_error_stat: Any = checked_statistic(
        "max",
        "mean",
        "median",
        "quantile",
        note="Single elements cannot be checked: they are not saved.",
        otherwise="as it was saved",
        feeds="check_accuracy.check_error_stat",
    )
    compare: tuple[str, ...] = option(
        "--compare",
        "--compare-func",
        kind=Choices(*FUNCTIONS, metavar="FUNCTION"),
        help="Judge the results of these comparison functions alone, as run --compare chooses them."
        f" Functions: {', '.join(FUNCTIONS)}.",
        otherwise="all in the file",
        feeds="check_accuracy.functions",
    )
    check_average: bool = option(
        "--check-average",
        help="Judge the mean of each metric over all iterations, rather than each iteration.",
        feeds="check_accuracy.check_average",
    )
