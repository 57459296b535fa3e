"""Steps: whether only the device of a program makes its results differ from those of the model."""

from __future__ import annotations

from polygraphy.application.diagnose.case import REFUSALS, Case
from polygraphy.application.diagnose.comparisons.program_comparison import ProgramComparison
from polygraphy.application.diagnose.comparisons.program_steps import (
    program_party,
    rename_outputs,
)
from polygraphy.application.diagnose.comparisons.state_steps import StepComparison
from polygraphy.application.diagnose.comparisons.step_errors import errors_on_equal_states
from polygraphy.application.diagnose.comparisons.step_runs import Judge, run_side_by_side
from polygraphy.application.diagnose.oracle import Oracle
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.domain.diagnosis.culprit import AGREE, DiagnosisResult
from polygraphy.domain.diagnosis.words import program_evidence, titles
from polygraphy.ports.diagnosing import SourceProgram

_SMALL = 1e-2
"""Largest RMS difference of the same program on two devices, by the RMS of the tensor, that is
still called precision. TF32 keeps 10 bits of each operand. Chosen, not measured."""


def explain_by_device(case: Case, comparison: ProgramComparison) -> StepOutcome:
    """Return "agree" if the model matches its program on the CPU, and only the precision of its
    device makes the program differ from that."""
    host = _program_on_host(comparison.given)
    if host is None:
        return _RUNS_ON_CPU
    names = [*case.model.outputs]
    try:
        with case.record_step(titles.PROGRAM_ON_CPU):
            computed = [rename_outputs(host.run(feed), names) for feed in comparison.feeds]
            values = list(map(case.load(case.parties[0]), comparison.feeds))
    except REFUSALS:
        return Skip("the program does not run on the CPU")
    if Oracle(host.name, computed).compare(case, values).differs:
        return _DIFFERS
    on_device = Oracle(host.name, computed).compare(case, comparison.sets)
    return _report_agreement(case, host.name, on_device.largest_error)


def explain_steps_by_device(case: Case, comparison: StepComparison) -> StepOutcome:
    """Return "agree" if all steps of the model match those of its program on the CPU, and only the
    precision of its device makes the program differ from that."""
    judge, program = comparison.judge, comparison.states.request.program
    host = None if program is None else _program_on_host(program)
    if host is None:
        return _RUNS_ON_CPU
    try:
        with case.record_step(titles.PROGRAM_ON_CPU):
            beside = run_side_by_side(
                Judge.between(case, judge.own, program_party(judge.own, host))
            )
            errors = errors_on_equal_states(judge)
    except REFUSALS:
        return Skip("the program does not run on the CPU")
    if beside.first is not None or beside.unread or beside.states or not errors:
        return _DIFFERS
    return _report_agreement(case, host.name, max(error.relative for error in errors))


_RUNS_ON_CPU = Skip("the program runs on the CPU, or there is none")
_DIFFERS = Skip("the model also differs from the program on the CPU")


def _program_on_host(program: SourceProgram) -> SourceProgram | None:
    """Return the program on the CPU; None if it runs there, or cannot be moved."""
    try:
        host: SourceProgram | None = getattr(program, "on_host", lambda: None)()
    except REFUSALS:
        return None
    return host


def _report_agreement(case: Case, program: str, relative: float) -> StepOutcome:
    """Return "agree" if the difference of two devices is small; otherwise, skip the step."""
    if relative > _SMALL:
        return Skip("the program gives different results on its device")
    reason = program_evidence.agrees_with_program_on_cpu(program, relative)
    return Found(DiagnosisResult(AGREE, reason=reason), case)
