"""The command `inspect data`."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.commands.inspect.data_options import DetailOptions, InspectedOptions
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.command import Command, Values
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.script import ScriptOptions
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.log_context import log_of
from polygraphy.cli.shared.report import ReportOptions
from polygraphy.codegen.docstring import listed_paths
from polygraphy.codegen.render import render


class InspectDataCommand(Command):
    """Shows what saved data hold."""

    name = "inspect data"
    description = (
        "Show what saved inputs, outputs or accuracy results hold: names, data types, shapes and"
        " statistics of the tensors, or the verdicts."
    )
    groups = (InspectedOptions, DetailOptions, ScriptOptions, ReportOptions, LogOptions)

    def render(self, values: Values, words: Sequence[str]) -> str:
        if values[DetailOptions].num_items == 0:
            raise CommandLineError(
                "argument -n/--num-items: 0 would show nothing. Leave out -s/--show-values"
                " instead."
            )
        paths = values[InspectedOptions].paths
        return render(
            "show.py.j2",
            f"Show what {listed_paths(paths)} {'holds' if len(paths) == 1 else 'hold'}.",
            words,
            call=call_of("inspect_data", values, *paths),
            log=log_of(values),
        )
