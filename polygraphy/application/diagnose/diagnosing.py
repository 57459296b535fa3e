"""Finds out which nodes make the outputs of a model wrong, who is at fault, why, and what helps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from attrs import evolve

from polygraphy.application.diagnose.branches import add_idle_branches, inline_branches
from polygraphy.application.diagnose.case import Case, add_origins, conclude
from polygraphy.application.diagnose.data import choose_feeds_for_parties, with_data_loader
from polygraphy.application.diagnose.oracle import Request, limit_to_evidence
from polygraphy.application.diagnose.oracles.against_versions import (
    add_open_versions,
    add_right_versions,
    against_versions,
    compare_other_versions,
)
from polygraphy.application.diagnose.outcome import (
    Ending,
    Found,
    Step,
    Unexplained,
    ending_from,
    step_from,
    take_steps,
)
from polygraphy.application.diagnose.steps.invalid_models import (
    blame_model,
    blame_order,
    diagnose_invalid_model,
    find_ignored_violations,
)
from polygraphy.application.diagnose.subprocesses import close, isolate
from polygraphy.application.diagnose.versions import OtherVersions, open_versions
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.culprit import AGREE, INCONCLUSIVE, DiagnosisResult
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.words import errors, reasons, steps
from polygraphy.domain.errors import BackendError, FileError, ModelError, UnavailableError
from polygraphy.domain.quantization.goal import QuantizedGoal
from polygraphy.domain.quantization.metrics import BUILT_IN
from polygraphy.domain.quantization.sites import is_coarse
from polygraphy.ports.diagnosing import (
    DiagnosisReports,
    SourceProgram,
    SuspectedParty,
)
from polygraphy.ports.editing import open_model

ORACLES: Sequence[Step[Request]] = (
    step_from("oracles.against_reference", lambda case, request: request.reference is not None),
    step_from("oracles.against_golden", lambda case, request: request.golden is not None),
    step_from("oracles.against_program", lambda case, request: request.program is not None),
    against_versions,
)
"""The reference, if one is given."""
BETWEEN_BACKENDS: Step[Request] = step_from("oracles.between_backends")
"""The step if no reference is given, or if a difference from it remains unexplained."""
ENDINGS_ON_DATA: Sequence[Ending[Request]] = (
    ending_from(
        "oracles.over_steps:compare_own_states",
        lambda answer, request: request.reference is not None and answer.result.verdict != AGREE,
    ),
    ending_from(
        "steps.quantized.scale_values:blame_wrong_scales",
        lambda answer, request: not request.has_oracle
        and any(
            is_coarse(node.op) for graph in answer.case.model.graph.walk() for node in graph.nodes
        ),
    ),
    blame_model,
    compare_other_versions,
    find_ignored_violations,
    limit_to_evidence,
    add_idle_branches,
)
"""Additions to the result for some data, in order."""
ENDINGS: Sequence[Ending[Request]] = (
    ending_from(
        "steps.quantized.code_steps:report_code_steps",
        lambda answer, request: answer.result.verdict == AGREE
        and len(answer.case.parties) > 1
        and not request.has_oracle
        and any(is_coarse(node.op) for node in answer.case.model.nodes),
    ),
    add_right_versions,
    add_open_versions,
    blame_order,
)
"""Additions to the result, in order."""


def diagnose(
    model: Any,
    parties: Sequence[SuspectedParty],
    data_loader: Any = None,
    reference: Any = None,
    golden: str | Sequence[str] | None = None,
    program: SourceProgram | None = None,
    save_culprit: str | None = None,
    issue: str | None = None,
    environments: str | Sequence[str] | None = None,
    memory_budget: int | None = None,
    *,
    within: float | None = None,
    metric: str | Callable[..., float] | None = None,
    save: str | None = None,
    budget: float | None = None,
    baseline: SuspectedParty | None = None,
) -> bool:
    """Return whether a model is correct in one or more backends, and report the cause if it is not.

    Args:
        model: its path, an ``onnx.ModelProto``, or a loader that returns one.
        parties: the backends.
        data_loader: yields feed dictionaries (default: generated data, with several seeds and
            signs; with saved results, the default data of a run).
        reference: the correct model: its path, an ``onnx.ModelProto``, or a loader.
        golden: files of correct results, computed on the data of `data_loader`: of the outputs, or
            preferably of all tensors.
        program: the program that the model was exported from, such as
            `polygraphy.backend.pyt.TorchProgram`. It is the reference, so the exporter may be at
            fault.
        save_culprit: a folder for the first culprit as a separate model, with inputs and correct
            outputs in the form of onnx's backend tests, and a program that shows the failure.
        issue: the file for the text of a bug report; ``-`` is standard output.
        environments: interpreters, or folders of virtual environments, with other versions of the
            backend at fault. The model runs in them to find the correct versions; a backend without
            another reference is compared with them.
        memory_budget: the limit in bytes for tensors in memory when all tensors, or isolated nodes,
            are computed; tensors beyond it are stored in a file (default: a quarter of the free
            memory, at most 768 MiB).
        within: for a quantized model with a floating-point reference, the largest allowed value of
            the metric. The diagnosis finds which parameters are wrong, or which nodes must stay in
            floating point, to reach it.
        metric: ``rms`` (default: the RMS of the error relative to that of the reference, in the
            worst output), ``sqnr`` (the noise in dB), ``top1`` (the share of rows with a different
            largest element), ``kl``, or a function of outputs and reference outputs; smaller is
            better.
        save: path for the model that reaches `within`.
        budget: time limit for this search, in seconds (default: 200 runs).
        baseline: a backend to compare the model with, if it runs the model and there is only one
            backend and no other reference.

    Returns:
        Whether nothing is wrong.

    Raises:
        UsageError: there are no backends, or several of a reference, results and a program.
        FileError: the reference or a file of results is missing or damaged.
        InconclusiveError: the cause of a difference could not be found.
    """
    if not parties:
        raise errors.no_backend()
    if sum(oracle is not None for oracle in (reference, golden, program)) > 1:
        raise errors.several_references()
    goal = _goal(within, metric, save, budget, reference)
    paths = [golden] if isinstance(golden, str) else golden
    other_environments = [environments] if isinstance(environments, str) else environments
    uses_device = getattr(program, "uses_device", False)
    given_parties, parties = parties, isolate(parties, uses_device=uses_device)
    baselines = [] if baseline is None else isolate([baseline], uses_device=uses_device)
    case, versions = _open_case(model, parties, memory_budget, other_environments)
    for party in given_parties:
        if (check_graph := getattr(party, "check_graph", None)) is not None:
            check_graph(case.model.graph)
    request = Request(data_loader, diagnose_case, reference, paths, program, versions, goal)
    request = evolve(request, baseline=next(iter(baselines), None))
    unwritten: FileError | None = None
    try:
        answer = diagnose_case(case, request)
        for ending in ENDINGS:
            answer = ending(answer, request)
        try:
            result = _report_culprit(answer, request, model, save_culprit, issue)
        except FileError as error:  # Show the result even if its files cannot be written.
            result, unwritten = answer.result, error
    finally:
        close([*parties, *baselines])
        if uses_device:
            program.close()  # type: ignore[union-attr]
    result = evolve(result, attempts=answer.case.attempts, curves=answer.case.curves)
    is_right = conclude(add_origins(result, answer.case.model))
    if unwritten is not None:
        raise unwritten
    return is_right


def _open_case(
    model: Any,
    parties: Sequence[SuspectedParty],
    memory_budget: int | None,
    environments: Sequence[str] | None,
) -> tuple[Case, OtherVersions | None]:
    """Return the case to diagnose, and the other versions of the backend or None."""
    path = model if isinstance(model, str) else "MODEL"
    case = Case(open_model(model), path, parties, resolve(DiagnosisReports), memory_budget)
    versions = open_versions(case, environments) if environments else None
    return (case if versions is None else evolve(case, versions=versions.versions)), versions


def _report_culprit(
    answer: Found, request: Request, model: Any, save_culprit: str | None, issue: str | None
) -> DiagnosisResult:
    """Write the requested files about the first culprit, and return the result.
    Without a request, the result has the command that writes them.
    """
    if save_culprit is not None or issue is not None:
        from polygraphy.application.diagnose.bug_report import save_bug_report

        save_bug_report(answer.case, answer.result, save_culprit, issue)
    elif isinstance(model, str) and not request.has_oracle and answer.result.culprits:
        from polygraphy.application.diagnose.bug_report import add_report_command

        return add_report_command(answer.case, answer.result)
    return answer.result


def diagnose_once(case: Case, request: Request) -> Found:
    """Return the result of comparing a model with its reference, or else backends with each
    other."""
    case, request = _with_data(case, request)
    case, request = _with_baseline(case, request)
    try:
        answer = take_steps(ORACLES, case, request)
        if isinstance(answer, Unexplained):
            request = evolve(request, unexplained=answer.why)
        if not isinstance(answer, Found):
            answer = BETWEEN_BACKENDS(case, request)
        assert isinstance(answer, Found)  # Backends can always be compared.
        once = answer
    except (BackendError, ModelError) as error:
        invalid = diagnose_invalid_model(case, error, request.feeds)
        if not isinstance(invalid, Found):
            from polygraphy.application.diagnose.refusals import locate_refusal

            invalid = locate_refusal(case)
        if isinstance(invalid, Found):
            once = invalid
        elif request.versions is None or isinstance(error, UnavailableError):
            raise
        else:  # The other versions are asked as well.
            reason = join_statements(request.unexplained, reasons.nobody_runs(str(error), ""))
            once = Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
    for ending in ENDINGS_ON_DATA:
        once = ending(once, request)
    return once


def _with_baseline(case: Case, request: Request) -> tuple[Case, Request]:
    """Return case and request, with another party if the model has nothing to be compared with.
    That party is the baseline, or the arbiter if the baseline does not run the model.
    """
    baseline = request.baseline
    if baseline is None or request.has_oracle or len(case.parties) > 1:
        return case, request
    for party in (baseline, request.arbiter):
        error = _refusal(case, party)
        if error is None:
            return evolve(case, parties=[party, *case.parties]), request
        with case.record_step(party.name) as notes:
            notes.append(steps.cannot_run(error))
        request = evolve(request, baseline_error=request.baseline_error or error)
    return case, request


def _refusal(case: Case, party: SuspectedParty) -> BackendError | None:
    """Return the error with which a backend refuses the model; None if it runs it."""
    try:
        case.load(party)(case.feed)
    except BackendError as error:
        return error
    return None


def _with_data(case: Case, request: Request) -> tuple[Case, Request]:
    """Return the case and the request with their data.
    If the oracle has tensors inside branches, If nodes are replaced by their branches."""
    case = with_data_loader(case, request.data_loader)
    is_saved = request.golden is not None
    feeds = choose_feeds_for_parties(case, request.data_loader, are_saved=is_saved)
    arbiter = request.arbiter
    parties = (party for party in case.parties if party.backend == arbiter.backend)
    request = evolve(request, feeds=feeds, arbiter=next(parties, arbiter))
    case = evolve(case, feed=feeds[0])
    if is_saved or request.program is not None:
        case = evolve(case, model=inline_branches(case, feeds))
    return case, request


def computes_below_float32(case: Case, request: Request) -> bool:
    """Return whether a backend computes in less than float32."""
    return any(getattr(party, "lowers_to", None) is not None for party in case.parties)


QUESTIONS: Sequence[Step[Request]] = (
    step_from("oracles.against_float32", computes_below_float32),
    step_from("oracles.over_steps", lambda case, request: request.has_states),
    diagnose_once,
)
"""The questions about a model: in float32 first, over steps with states, or on data that need
none."""


def diagnose_case(case: Case, request: Request) -> Found:
    """Return the verdict of the first of `QUESTIONS` that has one."""
    answer = take_steps(QUESTIONS, case, request)
    assert isinstance(answer, Found)  # The last oracle always answers.
    return answer


def _goal(
    within: float | None,
    metric: str | Callable[..., float] | None,
    save: str | None,
    budget: float | None,
    reference: Any,
) -> QuantizedGoal | None:
    """Return the accuracy goal for a quantized model; None if none is set.

    Raises:
        UsageError: there is no reference, no such metric, a target that the metric never reaches,
            or an option without `within`.
    """
    if within is None:
        if metric is not None or save is not None or budget is not None:
            raise errors.no_goal()
        return None
    if reference is None:
        raise errors.no_float_model()
    if within == inf:
        raise errors.infinite_goal()
    if callable(metric):
        name = getattr(metric, "__name__", "metric")
        return QuantizedGoal(within, metric, name, save, budget)
    if metric not in (None, "rms", *BUILT_IN):
        raise errors.unknown_metric(metric, BUILT_IN)
    if within < 0 and metric != "sqnr":  # A noise level in dB is negative.
        raise errors.negative_goal(within, metric or "rms")
    if metric in (None, "rms"):
        return QuantizedGoal(within, save=save, seconds=budget)
    return QuantizedGoal(within, BUILT_IN[str(metric)], str(metric), save, budget)
