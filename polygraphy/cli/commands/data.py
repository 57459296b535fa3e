"""The commands `data ...`."""

from __future__ import annotations

from typing import ClassVar

from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.values import Values
from polygraphy.cli.shared.saved import ConvertOptions, JoinOptions
from polygraphy.codegen.docstring import listed_paths, quoted


class _JoinCommand(Command):
    """Makes one file of several, with the function that is named."""

    function: ClassVar[str]
    summary: ClassVar[str]
    groups = (JoinOptions,)

    def program(self, values: Values) -> Program:
        options = values[JoinOptions]
        if options.output is None:
            raise CommandLineError("it is not said where to write. Name a path with -o.")
        return Program(
            "show.py.j2",
            self.summary.format(listed_paths(options.paths)),
            call=call_of(self.function, values, list(options.paths)),
        )


class DataConcatCommand(_JoinCommand):
    """Put the iterations of several files behind each other: of saved inputs, or of outputs of the
    same runners.
    """

    name = "data concat"
    function = "concat"
    summary = "Put the iterations of {} behind each other."


class DataMergeCommand(_JoinCommand):
    """Put the tensors of several files of saved inputs or outputs beside each other, iteration by
    iteration, as input data. Where several have a tensor of the same name, the last counts.
    """

    name = "data merge"
    function = "merge"
    summary = "Put the tensors of {} beside each other, as input data."


class DataToInputCommand(DataMergeCommand):
    """Make input data of saved outputs or inputs: the old name of data merge."""

    name = "data to-input"


class DataConvertCommand(Command):
    """Write saved inputs, outputs or accuracy results in another format: a file, or a folder with
    one file per iteration.
    """

    name = "data convert"
    groups = (ConvertOptions,)

    def program(self, values: Values) -> Program:
        options = values[ConvertOptions]
        return Program(
            "show.py.j2",
            f"Convert {quoted(options.path)} to {quoted(options.output)}.",
            call=call_of("convert", values, options.path),
        )
