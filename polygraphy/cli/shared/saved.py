"""Options for files that are read and written."""

from __future__ import annotations

from typing import Any

from polygraphy.cli.declare.kinds import Choices, Number, PerName, Text
from polygraphy.cli.declare.option import Options, option, option_group
from polygraphy.cli.shared.compare import (
    FUNCTIONS,
    absolute_tolerance,
    relative_tolerance,
    statistic_option,
)


@option_group
class JoinOptions(Options):
    """Data: the files to read and write."""

    paths: tuple[str, ...] = option(
        reads="File of saved data", help="Files, or folders with one file per iteration."
    )
    output: str | None = option(
        "-o",
        "--output",
        writes=True,
        help="File or, without a file extension, folder to write. Required.",
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
        help="Path to write. The file extension selects the format; without an extension, a"
        " folder with one file per iteration is written.",
        feeds="convert.output",
    )


@option_group
class RejudgeOptions(Options):
    """Tolerances: new tolerances; all others keep their saved values."""

    path: str = option(
        reads="File of accuracy results", default="", help="File of accuracy results."
    )
    rtol: Any = relative_tolerance(
        PerName(Number(minimum=0)),
        of="the second run's value",
        otherwise="the saved value",
        feeds="check_accuracy.rtol",
    )
    atol: Any = absolute_tolerance(
        PerName(Number(minimum=0)), otherwise="the saved value", feeds="check_accuracy.atol"
    )
    check_error_stat: Any = statistic_option(
        "max",
        "mean",
        "median",
        "quantile",
        note="Single elements cannot be checked: they are not saved.",
        otherwise="the saved value",
        feeds="check_accuracy.check_error_stat",
    )
    compare: tuple[str, ...] = option(
        "--compare",
        "--compare-func",
        kind=Choices(*FUNCTIONS, metavar="FUNCTION"),
        help="Comparison functions to check, as in run --compare; all others are skipped."
        f" Functions: {', '.join(FUNCTIONS)}.",
        otherwise="all in the file",
        feeds="check_accuracy.functions",
    )
    check_average: bool = option(
        "--check-average",
        help="Check the mean of each metric over all iterations, instead of each iteration.",
        feeds="check_accuracy.check_average",
    )
