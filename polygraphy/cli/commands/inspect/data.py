"""The command `inspect data`."""

from __future__ import annotations

from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.inspect.data_options import DetailOptions, InspectedOptions
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.values import Values
from polygraphy.codegen.docstring import listed_paths


class InspectDataCommand(Command):
    """Show what saved inputs, outputs or accuracy results hold: names, data types, shapes and
    statistics of the tensors, or the verdicts.
    """

    name = "inspect data"
    groups = (
        InspectedOptions,
        DetailOptions,
    )

    def program(self, values: Values) -> Program:
        if values[DetailOptions].num_items == 0:
            raise CommandLineError(
                "argument -n/--num-items: 0 would show nothing. Leave out -s/--show-values"
                " instead."
            )
        paths = values[InspectedOptions].paths
        return Program(
            "show.py.j2",
            f"Show what {listed_paths(paths)} {'holds' if len(paths) == 1 else 'hold'}.",
            call=call_of("inspect_data", values, *paths),
        )
