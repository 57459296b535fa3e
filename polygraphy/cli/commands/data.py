"""The commands `data ...`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polygraphy.cli.commands.command import OneCall
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.option import Values
from polygraphy.cli.shared.saved import ConvertOptions, JoinOptions


def _require_output(values: Values) -> Mapping[str, Any]:
    """Return no arguments; raise CommandLineError without --output."""
    if values[JoinOptions].output is None:
        raise CommandLineError("missing --output: set the path with -o PATH.")
    return {}


DATA_CONCAT = OneCall(
    "data concat",
    "Concatenate the iterations of several files of saved inputs, or of outputs from runners with"
    " equal names.",
    (JoinOptions,),
    says="Concatenate the iterations of {}.",
    call="concat",
    together=True,
    besides=_require_output,
)

DATA_MERGE, DATA_TO_INPUT = (
    OneCall(
        name,
        description,
        (JoinOptions,),
        says="Merge the tensors of {} into input data.",
        call="merge",
        together=True,
        besides=_require_output,
    )
    for name, description in (
        (
            "data merge",
            "Merge the tensors of several files of saved inputs or outputs into input data,"
            " iteration by iteration. If several files contain a tensor with the same name, the"
            " last file is used.",
        ),
        (
            "data to-input",
            "Create input data from saved outputs or inputs. Older name of data merge.",
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
