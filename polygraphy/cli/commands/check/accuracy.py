"""The command `check accuracy`."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.cli.declare.call import call_of
from polygraphy.cli.declare.command import Command, Values
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.option import options_of
from polygraphy.cli.declare.script import ScriptOptions
from polygraphy.cli.shared.compare import FunctionOptions
from polygraphy.cli.shared.log import LogOptions
from polygraphy.cli.shared.log_context import log_of
from polygraphy.cli.shared.report import ReportOptions
from polygraphy.cli.shared.saved import RejudgeOptions
from polygraphy.codegen.docstring import quoted
from polygraphy.codegen.render import render


class CheckAccuracyCommand(Command):
    """Judges saved accuracy results again."""

    name = "check accuracy"
    description = (
        "Judge saved accuracy results again, under other tolerances, without running the model"
        " again. Without tolerances, the saved ones count. Exits with 0 when everything passed and"
        " with 1 when something did not."
    )
    groups = (RejudgeOptions, FunctionOptions, ScriptOptions, ReportOptions, LogOptions)

    def render(self, values: Values, words: Sequence[str]) -> str:
        path = values[RejudgeOptions].path
        thresholds = {
            row.name: threshold
            for row in options_of(FunctionOptions)
            if (threshold := getattr(values[FunctionOptions], row.name)) is not None
        }
        if "indices" in thresholds:
            raise CommandLineError(
                "argument --index-tolerance: lists of indices cannot be judged again: they are not"
                " saved with the verdicts. Save the outputs, and compare them with --load-outputs."
            )
        return render(
            "check.py.j2",
            f"Judge the accuracy results {quoted(path)}.",
            words,
            call=call_of("check_accuracy", values, path, thresholds=thresholds or None),
            log=log_of(values),
        )
