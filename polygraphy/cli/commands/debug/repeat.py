"""The command `debug repeat`."""

from __future__ import annotations

from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.debug.context import (
    check_artifacts,
    check_of,
    iterations_of,
    until_of,
)
from polygraphy.cli.commands.debug.options import (
    ArtifactOptions,
    CheckOptions,
    DebugReplayOptions,
    IterationInfoOptions,
    UntilOptions,
)
from polygraphy.cli.declare.values import Values


class DebugRepeatCommand(Command):
    """Run a command again and again, for what fails now and then, and sort files by whether it
    passed.
    """

    name = "debug repeat"
    groups = (
        UntilOptions,
        CheckOptions,
        ArtifactOptions,
        IterationInfoOptions,
        DebugReplayOptions,
    )

    def program(self, values: Values) -> Program:
        check_artifacts(values)
        return Program(
            "debug_repeat.py.j2",
            "Check the same again and again.",
            iterations=iterations_of(values, check_of(values), IterationInfoOptions),
            until=until_of(values[UntilOptions]),
        )
