"""The command `doctor`."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.command import Command, Values
from polygraphy.cli.declare.script import ScriptOptions
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.log_context import log_of
from polygraphy.cli.shared.report import ReportOptions
from polygraphy.codegen.render import render


class DoctorCommand(Command):
    """Shows what is installed."""

    name = "doctor"
    description = (
        "Show versions, backends, execution providers, devices and the settings in the environment,"
        " and how to install what is missing. Nothing is changed."
    )
    groups = (ScriptOptions, ReportOptions, LogOptions)

    def render(self, values: Values, words: Sequence[str]) -> str:
        return render(
            "show.py.j2",
            "Show which backends, devices and settings there are.",
            words,
            call=call_of("doctor", values),
            log=log_of(values),
        )
