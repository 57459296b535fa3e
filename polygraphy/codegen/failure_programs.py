"""Programs that reproduce a fault without this package."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from polygraphy.codegen.render import format_source, render
from polygraphy.domain.diagnosis.culprit import MODEL

if TYPE_CHECKING:
    from polygraphy.domain.diagnosis.failure import Failure

_SUMMARIES = {
    "refusal": "{backend} cannot run model.onnx",
    "nan": "model.onnx returns NaN for finite inputs",
    "overflow": "model.onnx returns infinity for finite inputs",
}


def failure_program(failure: Failure) -> str:
    """Return the program that reproduces a failure; see the port."""
    backend = failure.settings.get("module")
    if backend is None:
        return ""
    finite = any(value is not None and math.isinf(value) for value in failure.tolerances.values())
    source = render(
        "failure.py.j2",
        _summary(failure, backend),
        "python reproduce.py",
        backend=backend,
        settings=dict(failure.settings),
        without=list(failure.without) if backend == "onnxruntime" else [],
        tolerances={} if finite else dict(failure.tolerances),
        finite=finite,
        refusal=failure.culprit.cause == "refusal",
    )
    return format_source(source)


def _summary(failure: Failure, backend: str) -> str:
    """Return the sentence about the exit code of a program that reproduces a failure."""
    summary = _SUMMARIES.get(failure.culprit.cause, "{backend} computes model.onnx incorrectly")
    if failure.culprit.party == MODEL and failure.culprit.cause not in _SUMMARIES:
        summary = "the outputs of model.onnx are incorrect"
    return f"Exits with 1 if {summary.format(backend=backend)}, else with 0."
