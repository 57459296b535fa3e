"""The command `debug repeat`."""

from __future__ import annotations

from polygraphy.cli.commands.command import Command, Program
from polygraphy.cli.commands.debug.context import (
    ArtifactOptions,
    CheckOptions,
    DebugReplayOptions,
    IterationInfoOptions,
    UntilOptions,
    check_artifacts,
    check_of,
    iterations_of,
    stop_condition,
)
from polygraphy.cli.declare.option import Values
from polygraphy.codegen.source import Call, Source, Step


class DebugRepeatCommand(Command):
    """Run a command repeatedly, for intermittent failures, and sort files by the verdicts."""

    name = "debug repeat"
    groups = (UntilOptions, CheckOptions, ArtifactOptions, IterationInfoOptions, DebugReplayOptions)

    def program(self, values: Values) -> Program:
        """Return the program that repeats the check."""
        check_artifacts(values)
        return Program(
            "act.py.j2",
            "Run a check repeatedly.",
            before=[
                Step("iterations", iterations_of(values, check_of(values), IterationInfoOptions))
            ],
            call=Call(
                "repeat", [Source("iterations")], {"until": stop_condition(values[UntilOptions])}
            ),
        )
