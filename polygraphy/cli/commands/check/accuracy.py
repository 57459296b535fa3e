"""The command `check accuracy`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polygraphy.cli.commands.command import OneCall
from polygraphy.cli.declare.errors import CommandLineError
from polygraphy.cli.declare.option import Values, options_of
from polygraphy.cli.shared.compare import FunctionOptions
from polygraphy.cli.shared.saved import RejudgeOptions


def _thresholds(values: Values) -> Mapping[str, Any]:
    """Return the thresholds that the command line sets, as the argument of `check_accuracy`."""
    thresholds = {
        row.name: threshold
        for row in options_of(FunctionOptions)
        if (threshold := getattr(values[FunctionOptions], row.name)) is not None
    }
    if "indices" in thresholds:
        raise CommandLineError(
            "argument --index-tolerance: indices are not saved with the verdicts, so they"
            " cannot be checked again. Save the outputs, and compare them with --load-outputs."
        )
    return {"thresholds": thresholds or None}


CHECK_ACCURACY = OneCall(
    "check accuracy",
    "Check saved accuracy results against new tolerances, without running the model. Tolerances"
    " that are not set keep their saved values. Exits with 0 if everything passes, and with 1"
    " otherwise.",
    (RejudgeOptions, FunctionOptions),
    says="Check the accuracy results {}.",
    call="check_accuracy",
    template="check.py.j2",
    besides=_thresholds,
)
