"""Diagnoses a model in half precision: which nodes have to stay in float32, why, and the command
that casts it so.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

from attrs import evolve

from polygraphy.application.diagnose.case import Case, Feed, concluded, with_origins
from polygraphy.application.diagnose.data import feeds_of
from polygraphy.application.diagnose.half import (
    FEWER_MAY_DO,
    HalfPrecision,
    Tolerance,
    Trial,
    casting,
    convert_command,
    tolerance_for,
    try_half_precision,
)
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    ILL_CONDITIONED,
    INCONCLUSIVE,
    MODEL,
    Attempt,
    Culprit,
    Curve,
    DiagnosisResult,
    Remedy,
    TensorError,
)
from polygraphy.domain.diagnosis.half import HalfCulprit
from polygraphy.domain.diagnosis.headroom import Range
from polygraphy.domain.diagnosis.pairing import Pairing
from polygraphy.domain.tensors.naming import counted
from polygraphy.ports.binding import resolve
from polygraphy.ports.diagnosing import DiagnosisReports, NarrowModels
from polygraphy.ports.editing import OpenModel, OpenModels

_NAMED = 4
"""How many nodes are named that stay in float32 beside a culprit."""


def diagnose_half(
    model: Any,
    dtype: str = "fp16",
    *,
    data_loader: Any = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> bool:
    """Return whether a float32 model would work in half precision, and if not, what has to stay in
    float32, which is tried on the whole model.

    Args:
        model: its path, an ``onnx.ModelProto``, or a loader that makes one.
        dtype: ``fp16`` or ``bf16``.
        data_loader: yields feed dictionaries (default: generated data, of several seeds and signs).
        rtol: how far outputs may be off; see `try_half_precision`.
        atol: the same absolutely.

    Returns:
        Whether it would work.

    Raises:
        UsageError: nothing of the model can be cast, or there are no data.
        ModelError: the model cannot be cast.
        BackendError: the reference evaluator cannot run the model.
        InconclusiveError: it does not work, and no node is to blame.
    """
    reports = resolve(DiagnosisReports)
    attempts: list[Attempt] = []

    def report(attempt: Attempt) -> None:
        attempts.append(attempt)
        reports.attempted(attempt)

    opened = resolve(OpenModels).open(model)
    proto = opened.proto
    found = try_half_precision(
        proto, dtype, data_loader=data_loader, rtol=rtol, atol=atol, report=report
    )
    path = model if isinstance(model, str) else "MODEL"
    culprits = list(culprits_of(found, path, dtype))
    curves = [isolated_loss(found, dtype)] if found.losses else []
    result = DiagnosisResult(found.verdict, culprits, attempts, _reason(found, dtype), curves)
    return concluded(with_origins(result, opened.nodes))


def culprits_of(found: HalfPrecision, path: str, dtype: str) -> Iterator[Culprit]:
    """Yield who is to blame, with the command that casts the float32 model of a path so that it
    works.
    """
    remedy = Remedy()
    proof = f"With all nodes in {dtype} {found.before}."
    if found.kept:
        remedy = Remedy(convert_command(path, dtype, found.kept), found.after.is_tolerable)
        proof += f" With {counted(len(found.kept), 'node')} in fp32 {found.after}"
        proof += f"{_beside_rounding(found)}."
        if not found.is_fewest:
            proof += f" {FEWER_MAY_DO}"
    for each in found.culprits:
        said = [f"{each.fault.evidence[:1].upper()}{each.fault.evidence[1:]}."]
        if each.beside:
            said.append(_beside(each))
        if found.kept:
            said.append(proof)
        yield Culprit(
            each.nodes,
            each.fault.tensor,
            MODEL,
            each.fault.cause,
            evidence=said,
            remedy=remedy,
            op=each.op,
        )


def of_narrowing(
    case: Case, reference: OpenModel, pairing: Pairing, feed: Feed, path: str
) -> tuple[DiagnosisResult, Tolerance]:
    """Find out what half precision loses of a reference, and what it leaves to be tolerated.

    Args:
        case: the model that computes in half precision.
        reference: the same in float32.
        pairing: what belongs together in them.
        feed: data of the reference.
        path: where the reference is, for command lines.
    """
    narrow = str(pairing.model.narrow)
    dtype = HALF[narrow]
    limits = Range.of(casting(dtype))
    with case.attempt(f"every node in {narrow}") as notes:
        opened = resolve(NarrowModels).open(reference.proto, casting(dtype))
        tolerance = tolerance_for(casting(dtype), opened.facts())
        feeds = feeds_of(opened, [feed])
        found = Trial(opened, tolerance, feeds).result(limits, casting(dtype))
        notes.append(f"{found.verdict}: {found.before}.")
    mine, theirs = pairing.model, pairing.reference
    nodes = {theirs.identity(other): mine.identity(index) for index, other in pairing.nodes.items()}
    culprits = [
        evolve(one, nodes=[nodes.get(node, node) for node in one.nodes])
        for one in culprits_of(found, path, dtype)
    ]
    curve = isolated_loss(found, dtype)
    tensors = {other: name for name, other in pairing.tensors.items()}
    renamed = [evolve(one, name=tensors.get(one.name, one.name)) for one in curve.tensors]
    case.curves.append(evolve(curve, tensors=renamed))
    reason = f"Rounding the inputs to {narrow} alone changes the outputs as much."
    made = DiagnosisResult(
        found.verdict, culprits, reason=reason if found.verdict == ILL_CONDITIONED else ""
    )
    return made, tolerance.allowing(found.allowance)


def isolated_loss(found: HalfPrecision, dtype: str) -> Curve:
    """Return what each node loses alone, tensor by tensor, as the root mean square."""
    limits = Range.of(casting(dtype))
    tensors = [
        TensorError(
            one.name,
            None,
            one.error if not one.broken else inf,
            one.error / limits.spacing,
            bool(one.broken) or any(one.name == each.fault.tensor for each in found.culprits),
        )
        for loss in found.losses
        for one in loss.results
    ]
    return Curve(dtype, "isolated", tensors)


def _beside(culprit: HalfCulprit) -> str:
    names = ", ".join(map(repr, culprit.beside[:_NAMED]))
    more = len(culprit.beside) - _NAMED
    if len(culprit.beside) == 1:
        return f"{names} stays in fp32 with it, because it reads or hands on what it computes."
    return (
        f"{names}{f' and {more} more' if more > 0 else ''} stay in fp32 with it, because they read"
        " or hand on what it computes."
    )


def _reason(found: HalfPrecision, dtype: str) -> str:
    """Return why no party is to blame, where that is so."""
    if found.verdict == AGREE:
        said = f"All outputs match in {dtype}."
        return f"{said}{_allowed(found)}{_headroom(found, dtype)}"
    if found.verdict == ILL_CONDITIONED:
        return (
            f"Rounding nothing but the inputs to {dtype} changes outputs as much: {found.before}."
        )
    if found.verdict == INCONCLUSIVE and found.adds_up:
        return _of_rounding(found, dtype)
    if found.verdict == INCONCLUSIVE:
        return f"No set of nodes is found with which outputs match; in {dtype} {found.before}."
    return ""


def _beside_rounding(found: HalfPrecision) -> str:
    """Return what to think of what is left, where rounding everywhere does more than usual."""
    if found.allowance <= 1:
        return ""
    said = f", which is {found.allowance:.2g} times the usual because rounding everywhere adds up"
    return said if found.after.is_tolerable else f"{said}; that is too much by itself"


def _allowed(found: HalfPrecision) -> str:
    """Return why more than usual was tolerated, if it was."""
    if found.allowance <= 1:
        return ""
    return (
        f" That is {found.allowance:.2g} times as usual, because rounding everywhere adds"
        " up to it, and no node does more than others; --rtol and --atol ask for less."
    )


def _of_rounding(found: HalfPrecision, dtype: str) -> str:
    """Return that rounding in all nodes is why outputs are off, and how to accept that."""
    said = (
        f"In {dtype} {found.before}: rounding adds up to that everywhere, and no few nodes are to"
    )
    if found.kept:
        nodes = counted(len(found.kept), "node")
        said += f" blame: with {nodes} of {len(found.losses)} in fp32 {found.after}"
    else:
        said += " blame"
    return f"{said}. Where it is good enough, --rtol and --atol say so."


def _headroom(found: HalfPrecision, dtype: str) -> str:
    """Return how near the largest tensor is to the end of the range, and which are beyond it."""
    largest = Range.of(casting(dtype)).largest
    results = [result for loss in found.losses for result in loss.results if not result.above]
    top = max(results, key=lambda result: result.peak, default=None)
    beyond = _beyond(found, dtype)
    if top is None:
        return beyond
    share = 100 * top.peak / largest
    within = " within it" if beyond else ""
    said = (
        f"The largest tensor{within}, {top.name!r}, reaches {share:.2g}% of the range of {dtype}."
    )
    return f"{beyond} {said}"


def _beyond(found: HalfPrecision, dtype: str) -> str:
    """Return which tensors are beyond the range, such as masks, though outputs do not show it."""
    limits = Range.of(casting(dtype))
    made = {result.name for loss in found.losses for result in loss.results}
    faults = [
        fault
        for loss in found.losses
        if loss.name not in found.kept
        and (fault := loss.fault(limits, made)) is not None
        and fault.cause == "overflow"
    ]
    if not faults:
        return ""
    more = f" (and {len(faults) - 1} more tensors)" if len(faults) > 1 else ""
    return f" Outputs do not show that {faults[0].evidence}{more}."
