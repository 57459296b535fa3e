"""Steps: a float32 model is cast to half precision; each node rounds, and then each backend."""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from polygraphy.application.diagnose.case import REFUSALS, Case
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.precision.half import OpenedHalf, Trial, half_type
from polygraphy.application.diagnose.precision.half_codes import find_half_steps
from polygraphy.application.diagnose.precision.half_verdict import cast_model
from polygraphy.domain.diagnosis.commands import convert_command, output_path
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    ILL_CONDITIONED,
    INCONCLUSIVE,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.words import quantization, reasons, steps, titles
from polygraphy.domain.errors import UnavailableError
from polygraphy.ports.diagnosing import Compute, SuspectedParty, find_code_tensors


@frozen
class HalfCast:
    """A float32 model and its cast to half precision.

    Attributes:
        model: the model, an ``onnx.ModelProto``.
        path: its location.
        dtype: ``fp16`` or ``bf16``.
        trial: the model with rounding at every operator, on all data.
        simulated: the simulated result.
        request: asks about the cast model in one backend.
    """

    model: object
    path: str
    dtype: str
    trial: Trial
    simulated: DiagnosisResult
    request: Request


def accept_quantization_steps(case: Case, cast: HalfCast) -> HalfCast:
    """Return a cast that works if rounding changes the codes by at most one step;
    each is computed from equal codes, and the model is quantized. Else return the same cast.
    """
    if cast.simulated.verdict == AGREE or not find_code_tensors(cast.model).tensors:
        return cast
    with case.record_step(titles.QUANTIZATION_STEPS) as notes:
        differences = find_half_steps(cast.model, half_type(cast.dtype), cast.trial.feeds, notes)
    if not differences:
        return cast
    reason = quantization.half_steps_apart(differences, cast.dtype)
    return evolve(cast, simulated=DiagnosisResult(AGREE, reason=reason))


def explain_by_rounding_nodes(case: Case, cast: HalfCast) -> StepOutcome:
    """Return the nodes that must stay in float32, if rounding at every operator shows them."""
    if cast.simulated.verdict == AGREE:
        return Skip("the model works with rounding at every operator")
    return Found(cast.simulated, case)


def explain_by_backends(case: Case, cast: HalfCast) -> StepOutcome:
    """Return the first backend that computes the cast model less accurately than rounding
    explains."""
    for party in case.parties:
        why = _compare_backend(case, cast, party)
        if why is None:
            continue
        reference = None if why.is_refusal else cast.model
        request = evolve(cast.request, reference=reference, versions=None, feeds=())
        apart = cast.request.diagnose(evolve(case, parties=[party]), request).result
        if apart.verdict in (FAULT, ILL_CONDITIONED):
            return Found(_prepend_cast_command(apart, case.path, cast), case)
        return Found(evolve(cast.simulated, verdict=INCONCLUSIVE, reason=why.reason), case)
    return Skip("rounding explains the differences in all backends")


def report_working_cast(case: Case, cast: HalfCast) -> StepOutcome:
    """Return the verdict that the cast model works."""
    return Found(cast.simulated, case)


@frozen
class _Failure:
    """The reason why a backend fails to compute a cast model."""

    reason: str
    is_refusal: bool


def _compare_backend(case: Case, cast: HalfCast, party: SuspectedParty) -> _Failure | None:
    """Return how a backend fails to compute the cast model; None if it does not.

    Raises:
        UnavailableError: the backend is not there.
    """
    trial = cast.trial
    with case.record_step(f"{cast.dtype}, {party.name}") as notes:
        try:
            off = trial.tolerance.worst_error(trial.exact, map(case.load(party), trial.feeds))
            notes.append(steps.error_of_all(off))
            if not off.is_tolerable and _is_one_step(cast, party, notes):
                return None
        except UnavailableError:
            raise
        except REFUSALS as error:
            notes.append(steps.refuses(party.name))
            return _Failure(str(error), is_refusal=True)
    if off.is_tolerable:
        return None
    return _Failure(reasons.only_in_backend(party.name, off, cast.dtype), is_refusal=False)


def _is_one_step(cast: HalfCast, party: SuspectedParty, notes: list[str]) -> bool:
    """Return whether half precision changes the codes of a backend by at most one step,
    each computed from equal codes of a quantized model."""

    def load(_half: OpenedHalf, model: Any) -> Compute:
        """Return a function that computes the cast model in the backend."""
        return party.load(cast_model(model, cast.dtype))

    dtype = half_type(cast.dtype)
    return bool(find_half_steps(cast.model, dtype, cast.trial.feeds, notes, load))


def cast_path(path: str, dtype: str) -> str:
    """Return the path of the cast model."""
    return output_path(path, f"_{dtype}.onnx")


def _prepend_cast_command(diagnosis: DiagnosisResult, path: str, cast: HalfCast) -> DiagnosisResult:
    """Return the result with remedies whose commands first save the model in half precision."""
    command = convert_command(cast.path, cast.dtype, ())

    def remedy(given_remedy: Remedy) -> Remedy:
        """Return a remedy whose command first saves the model in half precision."""
        helps = given_remedy.command or ""
        if not command or path not in helps:
            return given_remedy
        return evolve(given_remedy, command=f"{command} && {helps}")

    culprits = [evolve(culprit, remedy=remedy(culprit.remedy)) for culprit in diagnosis.culprits]
    return evolve(diagnosis, culprits=culprits)
