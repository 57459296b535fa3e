"""The commands `data ...`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.command import Command, Values
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.script import ScriptOptions
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.log_context import log_of
from polygraphy.cli.shared.report import ReportOptions
from polygraphy.cli.shared.saved import ConvertOptions, JoinOptions
from polygraphy.codegen.docstring import listed_paths, quoted
from polygraphy.codegen.render import render


class _JoinCommand(Command):
    """Makes one file of several, with the function that is named."""

    function: ClassVar[str]
    summary: ClassVar[str]
    groups = (JoinOptions, ScriptOptions, ReportOptions, LogOptions)

    def render(self, values: Values, words: Sequence[str]) -> str:
        options = values[JoinOptions]
        if options.output is None:
            raise CommandLineError("it is not said where to write. Name a path with -o.")
        return render(
            "show.py.j2",
            self.summary.format(listed_paths(options.paths)),
            words,
            call=call_of(self.function, values, list(options.paths)),
            log=log_of(values),
        )


class DataConcatCommand(_JoinCommand):
    """Puts iterations behind each other."""

    name = "data concat"
    function = "concat"
    summary = "Put the iterations of {} behind each other."
    description = (
        "Put the iterations of several files behind each other: of saved inputs, or of outputs of"
        " the same runners."
    )


class DataMergeCommand(_JoinCommand):
    """Puts tensors beside each other."""

    name = "data merge"
    function = "merge"
    summary = "Put the tensors of {} beside each other, as input data."
    description = (
        "Put the tensors of several files of saved inputs or outputs beside each other, iteration"
        " by iteration, as input data. Where several have a tensor of the same name, the last"
        " counts."
    )


class DataToInputCommand(DataMergeCommand):
    """The old name of merge."""

    name = "data to-input"
    description = "Make input data of saved outputs or inputs: the old name of data merge."


class DataConvertCommand(Command):
    """Writes data in another format."""

    name = "data convert"
    description = (
        "Write saved inputs, outputs or accuracy results in another format: a file, or a folder"
        " with one file per iteration."
    )
    groups = (ConvertOptions, ScriptOptions, ReportOptions, LogOptions)

    def render(self, values: Values, words: Sequence[str]) -> str:
        options = values[ConvertOptions]
        return render(
            "show.py.j2",
            f"Convert {quoted(options.path)} to {quoted(options.output)}.",
            words,
            call=call_of("convert", values, options.path),
            log=log_of(values),
        )
