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
    """Data: the files that are shown."""

    paths: tuple[str, ...] = option(
        reads="File of saved data",
        help="Saved inputs, outputs or accuracy results: files, or folders with one file per"
        " iteration.",
    )


@option_group
class DetailOptions(Options):
    """Detail: how much is shown."""

    all_iterations: bool = option(
        "-a",
        "--all",
        help="Show all iterations, not just the first.",
        feeds="inspect_data.all_iterations",
    )
    statistics: bool = option(
        "--statistics",
        help="Show how many elements are NaN, infinite or zero, and where the first is, and"
        " percentiles. Mean, deviation, smallest and largest are always shown.",
        feeds="inspect_data.statistics",
    )
    show_values: bool = option(
        "-s", "--show-values", help="Show the elements.", feeds="inspect_data.show_values"
    )
    histogram: bool = option(
        "--histogram", help="Show how the elements are distributed.", feeds="inspect_data.histogram"
    )
    num_items: int | None = option(
        "-n",
        "--num-items",
        kind=Integer(minimum=-1),
        help="How many elements to show at each end of each dimension of an array of more than"
        " 1000; -1 for all.",
        feeds="inspect_data.num_items",
    )
    line_width: int | None = option(
        "--line-width",
        kind=Integer(minimum=-1),
        help="Longest line of elements, in characters; -1 for any length.",
        feeds="inspect_data.line_width",
    )


@option_group
class ReferenceOptions(Options):
    """Data: the two files that are compared."""

    reference: str = option(
        reads="File of saved data",
        kind=Text("REFERENCE"),
        default="",
        help="What is expected: a file of saved outputs or inputs, or a folder of such.",
        feeds=("compare_models.reference", "compare_saved.reference"),
    )
    candidate: str = option(
        reads="File of saved data",
        kind=Text("CANDIDATE"),
        default="",
        help="What is compared with it, of the same kind.",
        feeds=("compare_models.candidate", "compare_saved.candidate"),
    )


def _with_items(values: Values) -> Mapping[str, Any]:
    if values[DetailOptions].num_items == 0:
        raise CommandLineError(
            "argument -n/--num-items: 0 would show nothing. Leave out -s/--show-values instead."
        )
    return {}


INSPECT_DATA = OneCall(
    "inspect data",
    "Show what saved inputs, outputs or accuracy results hold: names, data types, shapes and"
    " statistics of the tensors, or the verdicts.",
    (InspectedOptions, DetailOptions),
    says="Show what {} hold{s}.",
    call="inspect_data",
    besides=_with_items,
)
