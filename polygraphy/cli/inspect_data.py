"""The command `inspect data`."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.command import Command, Values
from polygraphy.cli.errors import CommandLineError
from polygraphy.cli.log_context import log_of
from polygraphy.cli.options.inspection import DetailOptions, InspectedOptions
from polygraphy.cli.options.log import LogOptions
from polygraphy.cli.options.script import ScriptOptions
from polygraphy.codegen.saved import InspectDataScript

__all__ = ["InspectDataCommand"]


class InspectDataCommand(Command):
    """Shows what saved data hold."""

    name = "inspect data"
    description = (
        "Show what saved inputs, outputs or accuracy results hold: names, data types, shapes and"
        " statistics of the tensors, or the verdicts."
    )
    groups = (InspectedOptions, DetailOptions, ScriptOptions, LogOptions)

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program that shows the data."""
        detail = values[DetailOptions]
        if detail.num_items == 0:
            raise CommandLineError(
                "argument -n/--num-items: 0 would show nothing. Leave out -s/--show-values"
                " instead.",
                f"polygraphy {self.name}",
            )
        return InspectDataScript(
            command=words,
            paths=values[InspectedOptions].paths,
            all_iterations=detail.all_iterations or None,
            show_values=detail.show_values or None,
            histogram=detail.histogram or None,
            statistics=detail.statistics or None,
            num_items=detail.num_items,
            line_width=detail.line_width,
            log=log_of(values[LogOptions]),
        ).render()
