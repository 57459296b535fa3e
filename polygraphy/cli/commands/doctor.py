"""The command `doctor`."""

from __future__ import annotations

from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.values import Values


class DoctorCommand(Command):
    """Show versions, backends, execution providers, devices and the settings in the environment,
    and how to install what is missing. Nothing is changed.
    """

    name = "doctor"
    groups = ()

    def program(self, values: Values) -> Program:
        return Program(
            "show.py.j2",
            "Show which backends, devices and settings there are.",
            call=call_of("doctor", values),
        )
