"""The commands `data ...`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polygraphy.cli.commands.command import OneCall
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.option import Values
from polygraphy.cli.shared.saved import ConvertOptions, JoinOptions


def _with_output(values: Values) -> Mapping[str, Any]:
    if values[JoinOptions].output is None:
        raise CommandLineError("it is not said where to write. Name a path with -o.")
    return {}


DATA_CONCAT = OneCall(
    "data concat",
    "Put the iterations of several files behind each other: of saved inputs, or of outputs of the"
    " same runners.",
    (JoinOptions,),
    says="Put the iterations of {} behind each other.",
    call="concat",
    together=True,
    besides=_with_output,
)

DATA_MERGE, DATA_TO_INPUT = (
    OneCall(
        name,
        description,
        (JoinOptions,),
        says="Put the tensors of {} beside each other, as input data.",
        call="merge",
        together=True,
        besides=_with_output,
    )
    for name, description in (
        (
            "data merge",
            "Put the tensors of several files of saved inputs or outputs beside each other,"
            " iteration by iteration, as input data. Where several have a tensor of the same name,"
            " the last counts.",
        ),
        (
            "data to-input",
            "Make input data of saved outputs or inputs: the old name of data merge.",
        ),
    )
)

DATA_CONVERT = OneCall(
    "data convert",
    "Write saved inputs, outputs or accuracy results in another format: a file, or a folder with"
    " one file per iteration.",
    (ConvertOptions,),
    says="Convert {} to {}.",
    call="convert",
)
