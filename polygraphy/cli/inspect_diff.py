"""The command `inspect diff`."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.command import Command, Values
from polygraphy.cli.compare_context import simple_of
from polygraphy.cli.options.compare import SimpleOptions
from polygraphy.cli.options.inspection import ReferenceOptions
from polygraphy.cli.options.log import LogOptions
from polygraphy.cli.options.saved import StopOptions
from polygraphy.cli.options.script import ScriptOptions
from polygraphy.cli.run import log_of
from polygraphy.codegen.saved import InspectDiffScript

__all__ = ["InspectDiffCommand"]


class InspectDiffCommand(Command):
    """Compares two files of saved data."""

    name = "inspect diff"
    description = (
        "Compare saved outputs, or saved inputs, with a reference of the same kind. Relative"
        " differences are of the reference's values. Exits with 0 when everything matched and with"
        " 1 when something did not."
    )
    groups = (ReferenceOptions, SimpleOptions, StopOptions, ScriptOptions, LogOptions)

    def render(self, values: Values, words: Sequence[str]) -> str:
        """Return the program that compares the files."""
        files, fail_fast = values[ReferenceOptions], values[StopOptions].fail_fast
        return InspectDiffScript(
            command=words,
            reference=files.reference,
            candidate=files.candidate,
            fail_fast=fail_fast or None,
            simple=simple_of(values[SimpleOptions], fail_fast=fail_fast),
            log=log_of(values[LogOptions]),
        ).render()
