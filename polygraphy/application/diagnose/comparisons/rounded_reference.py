"""A reference whose weights are those that the model rounded: a checkpoint that was saved in half
precision, and exported in float32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attrs import evolve

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.comparisons.model_pair import ModelPair
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.domain.diagnosis.culprit import AGREE
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.pairing import pair_graphs
from polygraphy.domain.diagnosis.quantizing import rms_ratio
from polygraphy.domain.diagnosis.two_models import (
    Suspect,
    plan_copies,
    precision_of_rounding,
    suspects,
)
from polygraphy.domain.diagnosis.words import reasons, steps, titles
from polygraphy.domain.errors import BackendError
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import apply_copies
from polygraphy.ports.editing import open_model

_LARGEST_LOSS = 0.1
"""Share of an output's RMS up to which rounding weights is a choice of precision, not a fault.
Chosen, not measured."""
_FEWEST_ELEMENTS = 16
"""With fewer elements, all of a weight can be numbers of half precision by chance, such as 0 and
1. Chosen, not measured."""


def diagnose_rounded_weights(case: Case, pair: ModelPair, feeds: Sequence[Feed]) -> StepOutcome:
    """Return the outcome of comparing a model with its reference, whose weights are first rounded
    like the model's; Skip if the model has no rounded weights, or rounding changes outputs too
    much.
    """
    side = pair.pairing
    if side.model.narrow is not None or pair.goal is not None:
        return Skip("the model has float16 weights, or a target for quantization")
    chosen: list[Suspect] = []
    counts: Counter[str] = Counter()
    is_evident = False
    reverse = pair_graphs(side.reference, side.model)
    for suspect in suspects(reverse):
        for name, own_name in suspect.weights:
            expected_values, values = (
                reverse.model.constants[name].values,
                reverse.reference.constants[own_name].values,
            )
            dtype = precision_of_rounding(values, expected_values)
            if dtype is not None:
                chosen.append(suspect)
                counts[dtype] += 1
                is_evident |= expected_values.size >= _FEWEST_ELEMENTS
    # Optimizers move weights to other operators, and keep their names.
    moved: dict[str, str] = {}
    copied = {name for suspect in chosen for _, name in suspect.weights}
    for name in sorted(side.model.constants.keys() & side.reference.constants.keys() - copied):
        values, expected_values = (
            graph.constants[name].values for graph in (side.model, side.reference)
        )
        dtype = precision_of_rounding(values, expected_values)
        if dtype is not None:
            moved[name] = name
            counts[dtype] += 1
            is_evident |= values.size >= _FEWEST_ELEMENTS
    if not is_evident:
        return Skip("no weight of the model is clearly a rounded weight of the reference")
    with case.record_step(titles.WEIGHTS) as notes:
        notes.append(steps.weights_are_rounded(dict(counts)))
        plan = plan_copies(reverse, chosen)
        plan = evolve(plan, weights={**plan.weights, **moved})
        rounded = open_model(apply_copies(pair.reference.proto, case.model.proto, plan))
        own_pairing = pair_graphs(case.model.graph, rounded.graph)
        rounded_pair = evolve(pair, reference=rounded, pairing=own_pairing)
        loss = _largest_loss(pair, rounded_pair, feeds)
        if loss is None or loss > _LARGEST_LOSS:
            notes.append(steps.ROUNDING_LOSES_TOO_MUCH)
            return Skip("rounding weights of the reference changes its outputs too much")
    outcome = pair.diagnose(case, rounded_pair, feeds)
    if isinstance(outcome, Found) and outcome.result.verdict == AGREE:
        reason = reasons.weights_are_rounded(dict(counts), loss)
        reason = join_statements(reason, outcome.result.reason)
        return evolve(outcome, result=evolve(outcome.result, reason=reason))
    return outcome


def _largest_loss(pair: ModelPair, rounded: ModelPair, feeds: Sequence[Feed]) -> float | None:
    """Return the largest change of a reference output due to weight rounding,
    as a share of its RMS; None if unknown.
    """
    runs: list[list[Values]] = []
    try:
        for model in (pair.reference, rounded.reference):
            compute = pair.party.load(model.proto)
            runs.append([compute(pair.feed_reference(feed)) for feed in feeds])
    except BackendError:
        return None
    return max(
        (
            rms_ratio(value, exact[name])
            for own_values, exact in zip(runs[1], runs[0])
            for name, value in own_values.items()
            if is_float(value)
        ),
        default=0.0,
    )
