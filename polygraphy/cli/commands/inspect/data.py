"""The command `inspect data`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polygraphy.cli.commands.command import OneCall
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.kinds import Integer, Text
from polygraphy.cli.declare.option import Options, Values, option, option_group


@option_group
class InspectedOptions(Options):
    """Data: the files to show."""

    paths: tuple[str, ...] = option(
        reads="File of saved data",
        help="Saved inputs, outputs or accuracy results: files, or folders with one file per"
        " iteration.",
    )


@option_group
class DetailOptions(Options):
    """Detail: the amount of detail."""

    all_iterations: bool = option(
        "-a",
        "--all",
        help="Show all iterations instead of the first.",
        feeds="inspect_data.all_iterations",
    )
    statistics: bool = option(
        "--statistics",
        help="Show the numbers of NaN, infinite and zero elements, the position of the first,"
        " and percentiles. Mean, standard deviation, minimum and maximum are always shown.",
        feeds="inspect_data.statistics",
    )
    show_values: bool = option(
        "-s", "--show-values", help="Show the elements.", feeds="inspect_data.show_values"
    )
    histogram: bool = option(
        "--histogram", help="Show a histogram of the elements.", feeds="inspect_data.histogram"
    )
    num_items: int | None = option(
        "-n",
        "--num-items",
        kind=Integer(minimum=-1),
        help="Number of elements to show at each end of each dimension, for arrays of more than"
        " 1000 elements; -1 means all.",
        feeds="inspect_data.num_items",
    )
    line_width: int | None = option(
        "--line-width",
        kind=Integer(minimum=-1),
        help="Maximum length of a line of elements, in characters; -1 means unlimited.",
        feeds="inspect_data.line_width",
    )


@option_group
class ReferenceOptions(Options):
    """Data: the two files to compare."""

    reference: str = option(
        reads="File of saved data",
        kind=Text("REFERENCE"),
        default="",
        help="Expected values: a file of saved outputs or inputs, or a folder of such files.",
        feeds=("compare_models.reference", "compare_saved.reference"),
    )
    candidate: str = option(
        reads="File of saved data",
        kind=Text("CANDIDATE"),
        default="",
        help="Values to compare: a file of saved outputs or inputs, or a folder of such files.",
        feeds=("compare_models.candidate", "compare_saved.candidate"),
    )


def _check_item_count(values: Values) -> Mapping[str, Any]:
    """Return no arguments; raise CommandLineError for --num-items 0."""
    if values[DetailOptions].num_items == 0:
        raise CommandLineError(
            "argument -n/--num-items: 0 would show nothing. Remove -s/--show-values instead."
        )
    return {}


INSPECT_DATA = OneCall(
    "inspect data",
    "Show the contents of saved inputs, outputs or accuracy results: names, data types, shapes and"
    " statistics of the tensors, or the verdicts.",
    (InspectedOptions, DetailOptions),
    says="Show the contents of {}.",
    call="inspect_data",
    besides=_check_item_count,
)
