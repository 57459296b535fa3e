"""Finds out whether a float32 model works in half precision, and what has to stay in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from polygraphy.application.diagnose.case import Case, add_origins, conclude
from polygraphy.application.diagnose.diagnosing import diagnose_case
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.oracles.against_float32_model import against_float32_model
from polygraphy.application.diagnose.oracles.against_versions import add_open_versions
from polygraphy.application.diagnose.precision.half import half_trial
from polygraphy.application.diagnose.subprocesses import close, isolate
from polygraphy.application.diagnose.versions import open_versions
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.words import errors
from polygraphy.ports.diagnosing import DiagnosisReports, SuspectedParty
from polygraphy.ports.editing import open_model


def diagnose_half(
    model: Any,
    dtype: str = "fp16",
    *,
    data_loader: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
    parties: Sequence[SuspectedParty] = (),
    environments: str | Sequence[str] | None = None,
) -> bool:
    """Return whether a float32 model works in half precision, and report the nodes that must stay
    in float32, verified on the whole model.

    Args:
        model: its path, an ``onnx.ModelProto``, or a loader that returns one.
        dtype: ``fp16`` or ``bf16``.
        data_loader: yields feed dictionaries (default: generated data, with several seeds and
            signs).
        rtol: the relative tolerance of outputs; see `try_half_precision`.
        atol: the absolute tolerance of outputs.
        parties: backends that also run the cast model, if it works with rounding at every operator.
        environments: interpreters, or folders of virtual environments, with other versions of these
            backends, which also run the cast model.

    Returns:
        Whether it would work.

    Raises:
        UsageError: no node of the model can be cast, or there are no data.
        ModelError: the model cannot be cast.
        BackendError: the reference evaluator cannot run the model.
        InconclusiveError: it does not work, and no node is at fault.
    """
    other_names = [environments] if isinstance(environments, str) else [*(environments or ())]
    if other_names and not parties:
        raise errors.environments_without_backend()
    parties = isolate(parties)
    opened, path = open_model(model), model if isinstance(model, str) else "MODEL"
    case = Case(opened, path, parties, resolve(DiagnosisReports))
    report, leave_out = case.record_attempt, case.record_left_out
    trial = half_trial(opened.proto, dtype, data_loader, (rtol, atol), report, leave_out)
    versions = open_versions(case, other_names) if other_names else None
    request = Request(trial.feeds, diagnose_case, versions=versions, feeds=trial.feeds)
    try:
        outcome = against_float32_model(case, request, trial, dtype)
        outcome = add_open_versions(outcome, request)
    finally:
        close(parties)
    result = evolve(case.evidence.qualify_result(outcome.result), attempts=case.attempts)
    return conclude(add_origins(result, opened))
