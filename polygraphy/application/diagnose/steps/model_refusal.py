"""Step: a backend refuses a model whose reference it runs."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.comparisons.differences import (
    add_copy_command,
    prove_differences,
)
from polygraphy.application.diagnose.comparisons.model_pair import ModelPair
from polygraphy.application.diagnose.outcome import Found, StepOutcome, Unexplained
from polygraphy.application.diagnose.precision.half_verdict import find_cast
from polygraphy.application.diagnose.steps.invalid_models import diagnose_invalid_model
from polygraphy.application.diagnose.subprocesses import CarefulParty
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.diagnosis.culprit import FAULT, MODEL, Culprit, DiagnosisResult
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.two_models import suspects
from polygraphy.domain.diagnosis.words import evidence
from polygraphy.domain.errors import BackendError


def explain_refusal(
    case: Case, pair: ModelPair, feeds: Sequence[Feed], expected: Values, error: BackendError
) -> StepOutcome:
    """Return the differences that make a backend refuse a model whose reference it runs.

    Args:
        case: the model.
        pair: the model and its reference.
        feeds: the data.
        expected: the outputs of the reference for the first of them.
        error: the error with which the backend rejects the model.
    """
    feed = feeds[0]
    case = evolve(case, feed=feed, expected=expected)
    # A backend that crashed may crash again, with parts of the model or a fixed model.
    pair = evolve(pair, party=CarefulParty(pair.party))
    pairing = pair.pairing
    differences = prove_differences(
        case, pair, case.model.proto, pairing, suspects(pairing), feed, expected
    )
    differences = add_copy_command(case, pair, differences, feed, expected)
    case = evolve(case, repaired=differences.repaired)
    if differences.culprits:
        refusal = evidence.refusal(pair.party.name, str(error), by_wrong_value=True)
        culprits = [
            evolve(culprit, facts=[*culprit.facts, refusal]) for culprit in differences.culprits
        ]
        return Found(DiagnosisResult(FAULT, culprits), case)
    refusal = evidence.refusal(pair.party.name, str(error))
    cast = _describe_cast(case, pair, feeds, refusal)
    if cast is not None:
        return Found(DiagnosisResult(FAULT, [cast]), case)
    invalid = diagnose_invalid_model(case, error, feeds)
    return invalid if isinstance(invalid, Found) else Unexplained(str(refusal))


def _describe_cast(
    case: Case, pair: ModelPair, feeds: Sequence[Feed], refusal: Fact
) -> Culprit | None:
    """Return the culprit for a refused half-precision model whose reference works after a cast;
    else None.
    """
    narrow = str(pair.pairing.model.narrow)
    if narrow not in HALF:
        return None
    facts, party = [refusal], pair.party.name
    try:
        pair.arbiter.load(case.model.proto)(feeds[0])
        facts.append(evidence.runs(pair.arbiter.name))
    except BackendError as error:
        facts.append(evidence.cannot_run_either(pair.arbiter.name, str(error)))
        party = MODEL
    reference_feeds = [*map(pair.feed_reference, feeds)]
    remedy = find_cast(case, pair.reference, reference_feeds, pair.path, HALF[narrow])
    if remedy is None:
        return None
    facts.append(evidence.runs_when_cast(pair.party.name, pair.path, HALF[narrow]))
    refused = str(refusal)
    named = [node for node in case.model.nodes if f"({node.label})" in refused and node.label]
    nodes, op = [node.label for node in named], named[0].operator if named else "Model"
    return Culprit(nodes, None, party, "refusal", None, facts, remedy, op)
