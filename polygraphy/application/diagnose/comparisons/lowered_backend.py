"""A backend that computes a float32 model in half precision, compared with float32."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from attrs import evolve, frozen

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.data import (
    choose_feeds_for_half,
    choose_feeds_for_parties,
    data_options,
)
from polygraphy.application.diagnose.oracle import Request
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.precision.half import (
    LoweredModel,
    OpenedHalf,
    Tolerance,
    half_type,
    open_half,
)
from polygraphy.application.diagnose.subprocesses import try_alone
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.culprit import AGREE, DiagnosisResult
from polygraphy.domain.diagnosis.words import steps, titles
from polygraphy.domain.errors import ModelError
from polygraphy.domain.rounding import Deviation
from polygraphy.ports.diagnosing import USUAL, LoweringParty, SuspectedParty


@frozen
class OpenedLowering:
    """A model whose nodes a backend can compute in half precision or in float32.

    Attributes:
        half: the model, with rounding at every operator.
        built: the model as the backend builds it.
    """

    half: OpenedHalf
    built: LoweredModel


@frozen
class LoweredBackend:
    """A backend that is too far from float32 in half precision, although it is correct in float32.

    Attributes:
        party: the backend.
        reference: the backend that computed the exact outputs.
        feeds: the data.
        exact: the outputs in float32, of each input set.
        tolerance: the tolerance of outputs in half precision.
        worst: the largest error of the outputs.
        opened: the model with its nodes, or why they cannot be measured.
    """

    party: LoweringParty
    reference: SuspectedParty
    feeds: Sequence[Feed]
    exact: Sequence[Values]
    tolerance: Tolerance
    worst: Deviation
    opened: OpenedLowering | str


def lowering_party(parties: Sequence[SuspectedParty]) -> LoweringParty | None:
    """Return the backend that computes in half precision; None if there is none."""
    for party in parties:
        if getattr(party, "lowers_to", None):
            return party  # type: ignore[return-value]
    return None


def compare_lowering(
    case: Case, party: LoweringParty, request: Request
) -> tuple[Case, LoweredBackend] | StepOutcome:
    """Return the case on its data, and a backend's half precision beside float32.
    The result is the outcome if there is nothing to compare.

    Returns:
        The comparison; a result if half precision works, and a skip if the backend is also wrong
        in float32.

    Raises:
        BackendError: it refuses the model.
    """
    proto, data_loader = case.model.proto, request.data_loader
    dtype = half_type(party.lowers_to or "")
    opened: OpenedLowering | str
    try:
        half = open_half(proto, dtype)
    except ModelError as error:  # For an older opset, outputs can be compared, but nodes cannot.
        opened, tolerance = str(error), Tolerance(dtype, case.facts)
        feeds, run = choose_feeds_for_parties(case, data_loader), None
    else:
        built = LoweredModel(half.model.passes, partial(party.load, proto))
        opened, tolerance, run = OpenedLowering(half, built), half.tolerance, built.run
        feeds = choose_feeds_for_half(half.model, data_loader, case.record_left_out)
    parties = [other_party for other_party in case.parties if other_party is not party]
    reference = parties[0] if parties else resolve(SuspectedParty, USUAL)
    with case.record_step(f"{party.lowers_to}, {party.name}") as notes:
        case = evolve(case, feed=feeds[0])
        compute = case.load(reference)
        exact = [compute(feed) for feed in feeds]
        try_alone(party, proto, case.feed)
        worst = tolerance.worst_error(exact, map(run or party.load(proto), feeds))
        notes.append(steps.is_error_tolerable(worst.is_tolerable, worst))
    if worst.is_tolerable:
        return Found(DiagnosisResult(AGREE), case)
    with case.record_step(titles.in_float32(party.name)) as notes:
        # With rewrites, because a fault of a rewrite also shows in float32.
        wide = party.in_float32().load(proto)
        is_lowering = tolerance.worst_error(exact, map(wide, feeds)).is_tolerable
        notes.append(steps.MATCHES if is_lowering else steps.WRONG_IN_FLOAT32)
    if not is_lowering:
        return Skip(steps.WRONG_IN_FLOAT32)
    case = evolve(case, data_options=data_options(case.model, data_loader, 0, feeds[0]))
    return case, LoweredBackend(party, reference, feeds, exact, tolerance, worst, opened)
