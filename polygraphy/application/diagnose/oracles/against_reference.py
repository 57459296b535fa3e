"""Expected results from a reference model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from attrs import evolve

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.comparisons.model_pair import (
    ModelComparison,
    ModelPair,
    pair_models,
)
from polygraphy.application.diagnose.comparisons.rounded_reference import diagnose_rounded_weights
from polygraphy.application.diagnose.data import data_options
from polygraphy.application.diagnose.oracle import Oracle, Request
from polygraphy.application.diagnose.outcome import (
    Found,
    Skip,
    Step,
    StepOutcome,
    step_from,
    take_steps,
)
from polygraphy.application.diagnose.rounding import (
    describe_tied_labels,
    rounding_explains,
    with_acceptance,
)
from polygraphy.application.diagnose.steps.model_differences import (
    explain_by_differences,
    explain_by_opset,
)
from polygraphy.application.diagnose.steps.model_rounding import explain_by_rounding
from polygraphy.application.diagnose.subprocesses import load_carefully
from polygraphy.binding import resolve
from polygraphy.domain.catalog.compute import PRECISION_ATTRIBUTE
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.diagnosis.commands import diagnose_command
from polygraphy.domain.diagnosis.culprit import AGREE, Culprit, DiagnosisResult
from polygraphy.domain.diagnosis.facts import join_statements
from polygraphy.domain.diagnosis.pairing import is_quantized
from polygraphy.domain.diagnosis.quantizing import USUAL_LOSS, rms_ratio
from polygraphy.domain.diagnosis.two_models import suspects
from polygraphy.domain.diagnosis.words import errors, evidence, reasons, steps, titles
from polygraphy.domain.errors import BackendError, InputError
from polygraphy.domain.rounding import deviation_sentence
from polygraphy.domain.tensors.facts import DeferredLayouts
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import REFERENCE, Compute, SuspectedParty
from polygraphy.ports.editing import open_model
from polygraphy.ports.machine import release_memory

STEPS: Sequence[Step[ModelComparison]] = (
    step_from(
        "steps.quantized.goal:reach_quantized_goal",
        lambda case, comparison: comparison.pair.goal is not None,
    ),
    step_from(
        "steps.precision.half_precision:explain_by_half_precision",
        lambda case, comparison: comparison.pair.pairing.model.narrow in HALF,
    ),
    step_from(
        "steps.precision.half_precision:explain_by_half_storage",
        lambda case, comparison: comparison.pair.stores_half(case),
    ),
    step_from(
        "steps.quantization:explain_by_quantization",
        lambda case, comparison: is_quantized(comparison.pair.pairing),
    ),
    explain_by_opset,
    explain_by_differences,
    explain_by_rounding,
)

MATCHING_STEPS: Sequence[Step[ModelComparison]] = (
    step_from(
        "steps.hidden_fault:explain_hidden_fault",
        lambda case, comparison: comparison.pair.goal is None
        and bool(suspects(comparison.pair.pairing)),
    ),
)
"""The steps for outputs that match within the precision of the model."""


def against_reference(case: Case, request: Request) -> StepOutcome:
    """Return the outcome of comparing a model with its reference.

    Returns:
        What was found; a skip where the models compute the same, so that a backend is at fault.

    Raises:
        BackendError: the reference cannot be run.
    """
    reference = request.reference
    path = reference if isinstance(reference, str) else "REFERENCE.onnx"
    options = data_options(case.model, request.data_loader, 0, request.feeds[0])
    case = evolve(case, data_options=options)
    is_large = False
    if request.goal is not None:
        from polygraphy.application.diagnose.steps.quantized.memory import (
            check_memory,
            missing_memory,
        )

        is_large = missing_memory(case) is not None
    opened = open_model(reference, maps_weights=is_large)
    pair = pair_models(case, opened, path, request.arbiter, diagnose_pair, request.goal)
    case = evolve(
        case,
        other_layouts=DeferredLayouts(
            lambda: pair.rename_outputs(case, getattr(opened.facts(), "layouts", {}))
        ),
    )
    if pair.goal is not None and not is_quantized(pair.pairing):
        raise errors.goal_without_quantization()
    if pair.goal is not None:
        _check_input_names(case, pair)
        check_memory(case)
    rounded = diagnose_rounded_weights(case, pair, request.feeds)
    return diagnose_pair(case, pair, request.feeds) if isinstance(rounded, Skip) else rounded


def _check_input_names(case: Case, pair: ModelPair) -> None:
    """Raise UsageError if the reference has inputs with other names or shapes."""
    inputs = pair.reference.inputs
    twins = {pair.pairing.tensors.get(name, name) for name in case.model.inputs}
    if extra := [name for name in inputs if name not in twins]:
        raise errors.reference_with_more_inputs(pair.path, extra)
    for name, input_name in case.model.inputs.items():
        twin = pair.pairing.tensors.get(name, name)
        if twin not in inputs:
            raise errors.reference_without_input(pair.path, name)
        shape, given_shape = inputs[twin].shape, input_name.shape
        if (
            shape is not None
            and given_shape is not None
            and not _are_compatible(shape, given_shape)
        ):
            raise errors.reference_with_other_inputs(
                pair.path, twin, tuple(shape), tuple(given_shape)
            )


def _are_compatible(shape: Sequence[Any], other_shape: Sequence[Any]) -> bool:
    """Return whether two shapes are compatible; named dimensions match any size."""
    return len(shape) == len(other_shape) and all(
        not (isinstance(a, int) and isinstance(b, int) and a != b and min(a, b) > 0)
        for a, b in zip(shape, other_shape)
    )


def diagnose_pair(case: Case, pair: ModelPair, feeds: Sequence[Feed]) -> StepOutcome:
    """Return the outcome of comparing two models, from the steps if they differ."""
    comparison = _compare(case, pair, feeds)
    if not isinstance(comparison, ModelComparison):
        return comparison
    case = evolve(case, feed=comparison.feed, expected=comparison.goal)
    return _compare_with_run(case, comparison, take_steps(STEPS, case, comparison))


def _compare_with_run(case: Case, comparison: ModelComparison, outcome: StepOutcome) -> StepOutcome:
    """Return the outcome with the fact that `run --rtol auto` accepts the outputs, if it does:
    two quantized models differ by less than the rounding limit, but `run` knows one model only."""
    if not isinstance(outcome, Found) or not outcome.result.culprits:
        return outcome
    if comparison.pair.goal is not None:
        return outcome
    sets = [(comparison.values, comparison.expected)]
    describe = evidence.accepted_by_run
    if all(map(_only_allows_rounding, outcome.result.culprits)):
        describe = partial(evidence.allowed_rounding, attribute=PRECISION_ATTRIBUTE)
    return with_acceptance(outcome, case, comparison.feeds, sets, describe)


def _only_allows_rounding(culprit: Culprit) -> bool:
    """Return whether a node differs from that of the reference only in the precision that an
    attribute allows."""
    changes = [fact.values["change"] for fact in culprit.facts if "change" in fact.values]
    return bool(changes) and all(
        change.kind == "other_attribute" and change.values["name"] == PRECISION_ATTRIBUTE
        for change in changes
    )


def _compare(case: Case, pair: ModelPair, feeds: Sequence[Feed]) -> ModelComparison | StepOutcome:
    """Return the differences between the outputs of two models, or the final outcome."""
    party, narrow = pair.party, pair.pairing.model.narrow
    with case.record_step("outputs") as notes:
        reference = _run_reference(case, pair, feeds)
        expected = reference.sets
        try:
            compute = case.load(party)
            values: list[Values] = [compute(feed) for feed in feeds]
        except BackendError as error:
            notes.append(steps.refuses_only_model(party.name))
            from polygraphy.application.diagnose.steps.model_refusal import explain_refusal

            return explain_refusal(case, pair, feeds, expected[0], error)
        case.record_comparison(reference.name, reference.left_out)
        compared = reference.compare(case, values)
        outputs = sum(name in expected[0] for name in case.model.outputs)
        note = deviation_sentence(compared.differences, outputs)
        rounded = None if narrow is None else _simulate_rounding(case, pair, feeds)
        loss_sentence = ""
        if rounded is not None:
            # Some backends compute in float32 what hardware would round.
            loss_sentence = deviation_sentence(
                reference.compare(case, rounded).differences, outputs
            )
            note = steps.with_rounding(party.name, note, str(narrow), loss_sentence)
        notes.append(note if outputs else "")
        notes += [steps.not_compared([reason]) for reason in reference.left_out]
    if pair.goal is not None:
        del compute
        case.unload()
        return ModelComparison(pair, feeds, values, expected, compared)
    comparison = ModelComparison(pair, feeds, values, expected, compared)
    del compute
    tied = describe_tied_labels(case, compared, values, expected)
    if compared.differs and not tied:
        case.unload()
        is_coarse = narrow is not None or is_quantized(pair.pairing)
        if not is_coarse or not _is_within_steps(case, pair, feeds, values, expected):
            return comparison
    if len(case.parties) > 1:  # Several backends are compared with each other.
        return Skip("the models give the same results within their precision")
    hidden = take_steps(MATCHING_STEPS, case, comparison)
    if isinstance(hidden, Found):
        return hidden
    is_lost = rounded is not None and not rounding_explains(case, feeds, rounded, expected)
    reason = join_statements(
        tied, _describe_match(case, comparison, loss_sentence if is_lost else "")
    )
    return Found(DiagnosisResult(AGREE, reason=reason), case)


def _is_within_steps(
    case: Case,
    pair: ModelPair,
    feeds: Sequence[Feed],
    values: Sequence[Values],
    expected: Sequence[Values],
) -> bool:
    """Return whether quantization steps explain the output differences, and these are no larger
    than usual for quantization."""
    if not rounding_explains(case, feeds, values, expected, by_steps=True):
        return False
    return not is_quantized(pair.pairing) or all(
        rms_ratio(value[name], expected[name]) <= USUAL_LOSS
        for value, expected in zip(values, expected)
        for name in expected
        if name in value and is_float(expected[name])
    )


def _run_reference(case: Case, pair: ModelPair, feeds: Sequence[Feed]) -> Oracle:
    """Return the outputs of the reference, computed by the first backend that runs it."""
    try:
        compute = _load_reference(pair, pair.feed_reference(feeds[0]))
        expected: list[Values] = [
            pair.rename_outputs(case, compute(pair.feed_reference(feed))) for feed in feeds
        ]
    except InputError as error:
        own, given = pair.reference.inputs, case.model.inputs
        raise errors.reference_rejects_data(pair.path, own, given) from error
    del compute  # A session takes as much memory as the model.
    release_memory()
    return Oracle(titles.REFERENCE, expected, [*_describe_left_out(case, expected)])


def _load_reference(pair: ModelPair, feed: Feed) -> Compute:
    """Return the reference, loaded by the backend of the model, or else by the arbiter."""
    party, model = pair.party, pair.reference.loadable
    try:
        return load_carefully(party, model, feed)
    except BackendError:
        if pair.arbiter is party:
            raise
        return pair.arbiter.load(model)


def _describe_left_out(case: Case, expected: Sequence[Values]) -> Iterator[str]:
    """Yield notes on outputs that only one model has."""
    for names, model in (
        (set(case.model.outputs) - expected[0].keys(), "model"),
        (expected[0].keys() - set(case.model.outputs), "reference"),
    ):
        if names:
            yield reasons.only_in(sorted(names), model)


def _simulate_rounding(case: Case, pair: ModelPair, feeds: Sequence[Feed]) -> list[Values] | None:
    """Return the outputs of the model with rounding at every operator, or None.
    The result is None if they cannot be computed."""
    try:
        compute = pair.arbiter.load(case.model.proto, plain=True)
        return [compute(feed) for feed in feeds]
    except BackendError:
        return None


def _describe_match(case: Case, comparison: ModelComparison, loss_sentence: str) -> str:
    """Return the sentences about outputs that match; empty if there is nothing to say.

    Args:
        case: the model.
        comparison: the comparison of the outputs.
        loss_sentence: the sentence about the larger error if every operator rounds, if it is too
            large.
    """
    pair = comparison.pair
    return join_statements(
        reasons.ROUNDED if comparison.compared.differs else "",
        _describe_hidden_loss(case, pair, loss_sentence) if loss_sentence else "",
        pair.describe_harmless(case, comparison.values, comparison.expected),
    )


def _describe_hidden_loss(case: Case, pair: ModelPair, loss_sentence: str) -> str:
    """Return the sentence that rounding at every operator loses more, with the command that finds
    out why."""
    evaluator = resolve(SuspectedParty, REFERENCE)
    command = diagnose_command(case.path, [evaluator], {"reference": pair.path}, case.data_options)
    return reasons.hardware_loses_more(pair.party.name, loss_sentence[:-1], command)
