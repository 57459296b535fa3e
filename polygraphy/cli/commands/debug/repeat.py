"""The command `debug repeat`."""

from __future__ import annotations

from collections.abc import Sequence

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
from polygraphy.cli.declare.command import Command, Values
from polygraphy.cli.declare.script import ScriptOptions
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.log_context import log_of
from polygraphy.cli.shared.report import ReportOptions
from polygraphy.codegen.render import render


class DebugRepeatCommand(Command):
    """Checks the same again and again."""

    name = "debug repeat"
    description = (
        "Run a command again and again, for what fails now and then, and sort files by whether it"
        " passed."
    )
    groups = (
        UntilOptions,
        CheckOptions,
        ArtifactOptions,
        IterationInfoOptions,
        DebugReplayOptions,
        ScriptOptions,
        ReportOptions,
        LogOptions,
    )

    def render(self, values: Values, words: Sequence[str]) -> str:
        check_artifacts(values)
        return render(
            "debug_repeat.py.j2",
            "Check the same again and again.",
            words,
            iterations=iterations_of(values, check_of(values), IterationInfoOptions),
            until=until_of(values[UntilOptions]),
            log=log_of(values),
        )
