"""The commands `data ...`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polygraphy.cli.commands.command import OneCall
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.values import Values
from polygraphy.cli.shared.saved import ConvertOptions, JoinOptions


class _JoinCommand(OneCall):
    """Makes one file of several."""

    groups = (JoinOptions,)
    together = True

    def besides(self, values: Values) -> Mapping[str, Any]:
        if values[JoinOptions].output is None:
            raise CommandLineError("it is not said where to write. Name a path with -o.")
        return {}


class DataConcatCommand(_JoinCommand):
    """Put the iterations of several files behind each other: of saved inputs, or of outputs of the
    same runners.
    """

    name = "data concat"
    call = "concat"
    says = "Put the iterations of {} behind each other."


class DataMergeCommand(_JoinCommand):
    """Put the tensors of several files of saved inputs or outputs beside each other, iteration by
    iteration, as input data. Where several have a tensor of the same name, the last counts.
    """

    name = "data merge"
    call = "merge"
    says = "Put the tensors of {} beside each other, as input data."


class DataToInputCommand(DataMergeCommand):
    """Make input data of saved outputs or inputs: the old name of data merge."""

    name = "data to-input"


class DataConvertCommand(OneCall):
    """Write saved inputs, outputs or accuracy results in another format: a file, or a folder with
    one file per iteration.
    """

    name = "data convert"
    groups = (ConvertOptions,)
    says = "Convert {} to {}."
    call = "convert"
