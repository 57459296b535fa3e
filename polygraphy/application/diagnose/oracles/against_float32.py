"""Expected results from the same backend in float32, for backends with lower precision."""

from __future__ import annotations

from collections.abc import Sequence

from polygraphy.application.diagnose.case import Case
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Step, StepOutcome, take_steps
from polygraphy.application.diagnose.steps.precision.lowering import (
    try_lowering_first,
    try_lowering_last,
)
from polygraphy.application.diagnose.steps.precision.tf32 import explain_by_tf32

STEPS: Sequence[Step[Request]] = (explain_by_tf32, try_lowering_first, try_lowering_last)
"""Each diagnoses the backends in float32 first, and then judges the effect of the precision."""


def against_float32(case: Case, request: Request) -> StepOutcome:
    """Return the diagnosis of backends that compute in less than float32; a skip if none does."""
    return take_steps(STEPS, case, request)
