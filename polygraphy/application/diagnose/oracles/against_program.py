"""Expected results from the framework program that the model was exported from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import Case, Values
from polygraphy.application.diagnose.comparisons.exported_again import export_again
from polygraphy.application.diagnose.comparisons.lost_inputs import CompletedProgram, lost_inputs
from polygraphy.application.diagnose.comparisons.program_comparison import ProgramComparison
from polygraphy.application.diagnose.oracle import Oracle, Request
from polygraphy.application.diagnose.oracles.against_golden import against_results
from polygraphy.application.diagnose.oracles.against_reference import diagnose_pair
from polygraphy.application.diagnose.outcome import (
    Found,
    Skip,
    Step,
    StepOutcome,
    Unexplained,
    take_steps,
)
from polygraphy.application.diagnose.steps.exchanged_names import explain_by_exchanged_names
from polygraphy.application.diagnose.steps.file_of_program import explain_by_file
from polygraphy.application.diagnose.steps.nondeterminism import explain_by_random_weights
from polygraphy.application.diagnose.steps.precision.converted_file import explain_by_conversion
from polygraphy.application.diagnose.steps.program_device import explain_by_device
from polygraphy.application.diagnose.steps.program_tensors import (
    explain_by_program_outputs,
    explain_by_program_tensors,
)
from polygraphy.domain.diagnosis.closeness import constant_outputs, describe_constant_outputs
from polygraphy.domain.diagnosis.culprit import AGREE, INCONCLUSIVE, DiagnosisResult
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.words import errors, evidence, reasons, steps
from polygraphy.domain.errors import BackendError, ModelError
from polygraphy.domain.rounding import deviation, deviation_sentence
from polygraphy.domain.tensors.pairing import pair_outputs
from polygraphy.ports.diagnosing import OpenedProgram

STEPS: Sequence[Step[ProgramComparison]] = (
    explain_by_device,
    explain_by_random_weights,
    explain_by_exchanged_names,
    explain_by_conversion,
    explain_by_file,
    explain_by_program_outputs,
    explain_by_program_tensors,
)
"""The steps that explain a difference between a model and its program, in order."""

Outputs = Sequence[tuple[str, Any]]


def against_program(case: Case, request: Request) -> StepOutcome:
    """Return the outcome of comparing a model with the program it was exported from.

    Returns:
        What was found; a skip where they do not differ, and several backends are compared.

    Raises:
        InputError: the program takes other inputs than the model.
        UsageError: they have no output in common.
    """
    source, feeds = request.program, request.feeds
    assert source is not None
    lost_feeds = lost_inputs(case, request)
    opened: list[OpenedProgram] = [
        (
            CompletedProgram(source.open({**feed, **lost_feeds[index]}), lost_feeds[index])
            if lost_feeds
            else source.open(feed)
        )
        for index, feed in enumerate(feeds)
    ]
    if opened[0].unsteady:
        return Found(DiagnosisResult(INCONCLUSIVE, reason=opened[0].unsteady), case)
    with case.record_step("outputs") as notes:
        computed = [program.run(feed) for program, feed in zip(opened, feeds)]
        if not opened[0].nodes and _outputs_differ(computed[0], opened[0].run(feeds[0])):
            unsteady = DiagnosisResult(INCONCLUSIVE, reason=reasons.UNSTEADY_PROGRAM)
            return Found(unsteady, case)
        values: list[Values] = []
        refusal: BackendError | ModelError | None = None
        try:
            values += map(case.load(case.parties[0]), feeds)
        except (BackendError, ModelError) as error:
            notes.append(steps.refuses(case.parties[0].name))
            refusal = error
    if refusal is not None:
        return _explain_refusal(case, request, opened, computed, len(values), refusal)
    with case.record_step("comparison") as notes:
        names, left_out = _pair_outputs(case, computed[0], values[0])
        sets = [
            {names[name]: value for name, value in pairs if name in names} for pairs in computed
        ]
        oracle = Oracle(source.name, sets, left_out)
        compared = oracle.compare(case, values)
        case.record_comparison(oracle.name, oracle.left_out)
        notes.append(deviation_sentence(compared.differences, len(names), source.name))
    if not compared.differs:
        if len(case.parties) > 1:
            return Skip("the model matches the program")
        return Found(DiagnosisResult(AGREE, reason=_notes(case, opened[0], values)), case)
    return take_steps(STEPS, *_compare(case, request, opened, compared.number, sets))


def _compare(
    case: Case,
    request: Request,
    opened: Sequence[OpenedProgram],
    number: int,
    sets: Sequence[Values],
) -> tuple[Case, ProgramComparison]:
    """Return the case for one input set, and the comparison of the model with its program."""
    assert request.program is not None
    feed, program = request.feeds[number], opened[number]
    case = evolve(case, feed=feed)
    comparison = ProgramComparison(
        request.program.name,
        request.program,
        program,
        request.feeds,
        feed,
        sets,
        sets[number],
        request.arbiter,
        export_again(case, program, feed, sets[number]),
        diagnose_pair,
        against_results,
    )
    return case, comparison


def _explain_refusal(
    case: Case,
    request: Request,
    opened: Sequence[OpenedProgram],
    computed: Sequence[Outputs],
    number: int,
    error: BackendError | ModelError,
) -> StepOutcome:
    """Return the outcome: whether a model is refused because it is not an export of the program,
    for example with sizes from another example.

    Args:
        case: the model.
        request: the request.
        opened: the program, for each input set.
        computed: the return value.
        number: the index of the first input set that the backend rejects.
        error: its message.
    """
    assert request.program is not None
    own_outputs = case.model.outputs
    refused = Unexplained(reasons.program_runs(request.program.name, error))
    if len(computed[number]) != len(own_outputs):
        return refused
    sets = [
        dict(zip(_own_names(own_outputs, outputs), (value for _, value in outputs)))
        for outputs in computed
    ]
    case, comparison = _compare(case, request, opened, number, sets)
    answer = explain_by_file(case, comparison)
    if not isinstance(answer, Found):
        return refused
    fact = evidence.refusal(case.parties[0].name, str(error), by_wrong_value=True)
    culprits = [evolve(culprit, facts=[*culprit.facts, fact]) for culprit in answer.result.culprits]
    case.record_comparison(request.program.name)
    return evolve(answer, result=evolve(answer.result, culprits=culprits))


def _outputs_differ(outputs: Outputs, other_outputs: Outputs) -> bool:
    """Return whether the outputs of two runs differ."""
    return any(
        deviation(value, other_value).is_wrong
        for (_, value), (_, other_value) in zip(outputs, other_outputs)
    )


def _own_names(own_names: Sequence[str], outputs: Outputs) -> list[str]:
    """Return the model output for each output of the program, if the numbers are equal:
    by name, or in order."""
    names = [name for name, _ in outputs]
    return names if {*names} == {*own_names} else [*own_names]


def _pair_outputs(
    case: Case, outputs: Outputs, own_values: Values
) -> tuple[Mapping[str, str], list[str]]:
    """Return the model output for each program output, and notes on outputs without one.

    Args:
        case: the model.
        outputs: the return values of the program.
        own_values: the outputs of the model.

    Raises:
        UsageError: they have no output in common.
    """
    own_outputs, reference_names = case.model.outputs, [name for name, _ in outputs]
    if len(own_outputs) == len(reference_names):
        return dict(zip(reference_names, _own_names(own_outputs, outputs))), []
    shapes = {name: np.shape(value) for name, value in outputs}
    names = {
        str(output.name0): str(output.name1)
        for output in pair_outputs(reference_names, own_outputs)
        if output.is_complete
        and (
            output.is_exact or shapes[str(output.name0)] == np.shape(own_values[str(output.name1)])
        )
    }
    if not names:
        text = ", ".join(f"{name} {tuple(np.shape(value))}" for name, value in outputs)
        raise errors.no_common_output(text, ", ".join(own_outputs))
    lost_pairs = [(name, "program") for name in reference_names if name not in names]
    lost_pairs += [(name, "model") for name in own_outputs if name not in names.values()]
    return names, [reasons.no_counterpart(*names) for names in lost_pairs]


def _notes(case: Case, program: OpenedProgram, values: Sequence[Values]) -> str:
    """Return notes for matching outputs, as sentences."""
    notes = [*program.notes]
    inputs = case.model.inputs
    for name, dims in program.open_dimensions.items():
        shape = inputs[name].shape or ()
        fixed = [axis for axis in dims if axis < len(shape) and isinstance(shape[axis], int)]
        if fixed:
            notes.append(reasons.static_dimension(name, shape, fixed))
    notes.append(describe_constant_outputs(constant_outputs(values, case.model.outputs)))
    return join_statements(*notes)
