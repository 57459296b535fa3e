"""Diagnoses half precision in all its forms: which nodes have to stay in float32, why, and
the command that makes them.

A float32 model is computed with rounding at every operator. So is one that computes in half
precision as it is, once as it would be in float32: ONNX Runtime computes it in float32 on the CPU,
the evaluator rounds at every operator, and hardware does something between; where they differ, this
separates what half precision loses from what a backend does wrong. Of a backend that computes in
half precision, what each node loses alone is measured where every operator rounds, and whether it
helps to keep nodes in float32 is tried on what the backend builds of the whole model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from math import inf, nan
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.application.diagnose.case import (
    REFUSALS,
    Case,
    Feed,
    Values,
)
from polygraphy.application.diagnose.data import (
    choose_feeds,
)
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.precision.half import (
    HalfPrecision,
    OpenedHalf,
    Tolerance,
    half_type,
    open_half,
    type_name,
)
from polygraphy.application.diagnose.subprocesses import CarefulParty
from polygraphy.binding import resolve
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.diagnosis.commands import cast_words, convert_command
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    ILL_CONDITIONED,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    Curve,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.facts import Fact, join_statements
from polygraphy.domain.diagnosis.headroom import ADDING, Range
from polygraphy.domain.diagnosis.pairing import Pairing
from polygraphy.domain.diagnosis.two_models import is_guard
from polygraphy.domain.diagnosis.variants import epsilon_of
from polygraphy.domain.diagnosis.words import (
    precision,
    reasons,
    remedies,
    steps,
    titles,
)
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.rounding import LARGE, Deviation
from polygraphy.domain.sizes import flat_elements
from polygraphy.domain.tensors.datatype import DataTypeEntry
from polygraphy.domain.tensors.precision import widen_array
from polygraphy.logger import G_LOGGER
from polygraphy.ports.diagnosing import (
    NarrowModels,
    SuspectedParty,
)
from polygraphy.ports.editing import OpenModel, cast_precision

_NAMED = 4
"""Nodes that are named as also staying in float32."""
_MOST = 0.5
"""With this share of its nodes in half precision, a model counts as a half-precision model.
Chosen, not measured."""
OBSERVED = 0.1
"""Half precision explains why backends differ if they differ by at least this share of what it
loses. Chosen, not measured."""
_GONE = 4
"""An epsilon below this multiple of the smallest number has no correct digits left: such numbers
have at most two bits."""
_MOST_HOPS = 2
"""Distance in nodes within which a backend may fuse nodes."""


def diagnose_cast(half_result: HalfPrecision, path: str, dtype: str) -> DiagnosisResult:
    """Return the diagnosis of a float32 model tried in half precision.

    Args:
        half_result: the effect of half precision.
        path: the path of the model, for command lines.
        dtype: ``fp16`` or ``bf16``.
    """
    curves = [loss_by_node(half_result, dtype)] if half_result.losses else []
    return DiagnosisResult(
        half_result.verdict,
        _cast_culprits(half_result, path, dtype),
        reason=_reason(half_result, dtype),
        curves=curves,
    )


def half_culprits(
    half: HalfPrecision,
    remedy: Remedy,
    proof: Sequence[Fact],
    party: str = MODEL,
    names: Mapping[str, str] | None = None,
    *,
    is_cast: bool = False,
) -> Iterator[Culprit]:
    """Yield the nodes at fault in half precision.

    Args:
        half: the effect of half precision.
        remedy: the remedy.
        proof: the proof.
        party: the party that computes in half precision.
        names: the names of nodes that have other names than those found.
        is_cast: whether it is cast by a command, which says what stays in float32 with them.
    """
    for culprit in half.culprits:
        fault = culprit.fault
        facts = [precision.half_precision_loss(fault.loss), *proof]
        if is_cast and culprit.beside:
            hidden = max(len(culprit.beside) - _NAMED, 0)
            facts.insert(1, precision.stay_in_float32([*culprit.beside[:_NAMED]], hidden))
        nodes = [(names or {}).get(node, node) for node in culprit.nodes]
        yield Culprit(nodes, fault.tensor, party, fault.cause, None, facts, remedy, culprit.op)


def _cast_culprits(
    half: HalfPrecision, path: str, dtype: str, names: Mapping[str, str] | None = None
) -> list[Culprit]:
    """Return the nodes at fault after a cast, with the command that casts the model correctly."""
    if not half.kept:
        return [*half_culprits(half, Remedy(), [], names=names, is_cast=True)]
    remedy = Remedy(convert_command(path, dtype, half.kept) or None, half.after.is_tolerable)
    after, is_enough = half.after, half.after.is_tolerable
    proof = precision.error_by_kept_nodes(
        dtype, str(half.before), len(half.kept), str(after), half.allowance, is_enough,
        half.is_fewest,
    )  # fmt: skip
    return [*half_culprits(half, remedy, [proof], names=names, is_cast=True)]


def diagnose_precision_loss(
    case: Case, reference: OpenModel, pairing: Pairing, feed: Feed, path: str
) -> tuple[DiagnosisResult, Deviation, Tolerance]:
    """Return the precision loss of a reference in half precision, the output error, its tolerance.

    Args:
        case: the model that computes in half precision.
        reference: the same in float32.
        pairing: the pairs of corresponding tensors in them.
        feed: data of the reference.
        path: the path of the reference, for command lines.
    """
    narrow = str(pairing.model.narrow)
    dtype = HALF[narrow]
    with case.record_step(titles.all_nodes_in(dtype)) as notes:
        half = open_half(reference.proto, half_type(dtype))
        precision_loss = half.result(choose_feeds(half.model, [feed]), notes)
    model, reference_graph = pairing.model, pairing.reference
    nodes = {
        reference_graph.nodes[node].label: model.nodes[index].label
        for index, node in pairing.nodes.items()
    }
    culprits = _cast_culprits(precision_loss, path, dtype, nodes)
    curve = loss_by_node(precision_loss, dtype)
    tensors = {tensor: name for name, tensor in pairing.tensors.items()}
    case.record_curve(curve.rename(tensors))
    is_alone = precision_loss.verdict == ILL_CONDITIONED
    reason = reasons.inputs_alone(narrow) if is_alone else _reason(precision_loss, dtype)
    diagnosis = DiagnosisResult(precision_loss.verdict, culprits, reason=reason)
    return diagnosis, precision_loss.before, half.tolerance.scale(precision_loss.allowance)


def cast_model(model: Any, dtype: str, kept_names: Collection[str] = ()) -> Any:
    """Return a model cast to half precision except some nodes, without warnings about losses."""
    with G_LOGGER.verbosity(G_LOGGER.ERROR):
        return cast_precision(model, half_type(dtype), keep_nodes=kept_names)


def find_cast(
    case: Case, reference: OpenModel, feeds: Sequence[Feed], path: str, dtype: str
) -> Remedy | None:
    """Return a verified command that casts a float32 model so that it works in the first backend.
    The result is None if there is none.

    Args:
        case: a model in half precision that is refused.
        reference: the same in float32.
        feeds: data of the reference.
        path: the path of the reference.
        dtype: ``fp16`` or ``bf16``.
    """
    with case.record_step(titles.CAST_REFERENCE) as notes:
        try:
            half = open_half(reference.proto, half_type(dtype))
            if not half.model.passes:
                # The model already computes in half precision, so there is nothing to cast.
                return None
            half_result = half.result(choose_feeds(half.model, feeds))
            off = half_result.after if half_result.kept else half_result.before
            party = CarefulParty(case.parties[0])  # The refusal may have been a crash.
            compute = party.load(cast_model(reference.proto, dtype, half_result.kept))
            ran = [compute(feed) for feed in feeds]
        except PolygraphyException as error:
            notes.append(str(error))
            return None
        notes.append(steps.runs_cast(case.parties[0].name, len(ran), off))
    command = convert_command(path, dtype, half_result.kept) or None
    return Remedy(command, True) if off.is_tolerable else None


def loss_by_node(half_result: HalfPrecision, dtype: str) -> Curve:
    """Return the RMS loss of each node when only that node is in half precision, by tensor."""
    limits = Range.of(half_type(dtype))
    results = [result for loss in half_result.losses for result in loss.results]
    tensors = {
        result.name: Deviation(
            result.error / limits.spacing,
            largest=nan,
            relative=result.error if not result.broken else inf,
            broken=result.broken,
        )
        for result in results
    }
    broken = {result.name for result in results if result.broken}
    faults = {culprit.fault.tensor for culprit in half_result.culprits} & tensors.keys()
    return Curve(dtype, "isolated", tensors, broken | faults)


@frozen
class HalfModel:
    """A model that computes in half precision, and the same in float32.

    Attributes:
        wide: the model in float32, an ``onnx.ModelProto``.
        dtype: the type in which it computes.
        nodes: the names of the nodes that do.
        feeds: input data in float32.
        is_whole: whether most of its nodes do.
    """

    wide: Any
    dtype: DataTypeEntry
    nodes: Sequence[str]
    feeds: Sequence[Feed]
    is_whole: bool

    def open(self) -> OpenedHalf:
        """Return the float32 model, opened to compute in half precision."""
        return open_half(self.wide, self.dtype, self.nodes)

    def outputs_of(self, party: SuspectedParty) -> list[Values]:
        """Return the outputs of a backend in float32 for each input set."""
        return [*map(party.load(self.wide), self.feeds)]


def find_half_model(case: Case, feeds: Sequence[Feed]) -> HalfModel | None:
    """Return the model in float32, if it computes in half precision; else None."""
    models = resolve(NarrowModels)
    half_nodes = models.narrow_nodes(case.model.proto)
    if half_nodes is None:
        return None
    dtype, nodes = half_nodes
    wide = [{name: widen_array(array) for name, array in feed.items()} for feed in feeds]
    share = len(nodes) / max(1, len(case.model.nodes))
    return HalfModel(models.widen_model(case.model.proto), dtype, nodes, wide, share >= _MOST)


def widen_models(model: Any, reference: Any, *, keeps_range: bool = True) -> tuple[Any, Any] | None:
    """Return two models in float32, with weights rounded alike; None if neither needs it.
    One of them computes in half precision.

    Args:
        model: an ``onnx.ModelProto``.
        reference: another.
        keeps_range: whether weights keep numbers that half precision cannot hold.
    """
    models = resolve(NarrowModels)
    widen = partial(models.widen_model, drops_casts=True)
    if models.narrow_nodes(model) is not None:
        return widen(model), widen(reference, like=model, keeps_range=keeps_range)
    if models.narrow_nodes(reference) is not None:
        return widen(model, like=reference, keeps_range=keeps_range), widen(reference)
    return None


def is_wrong_in_float32(case: Case, half: HalfModel, third: SuspectedParty) -> bool:
    """Return whether parties also differ in float32, so that precision is not the cause."""
    with case.record_step(titles.IN_FLOAT32) as notes:
        try:
            runs = [half.outputs_of(party) for party in dict.fromkeys((*case.parties, third))]
        except REFUSALS as error:
            notes.append(steps.cannot_run(error))
            return False
        most = max(
            (
                deviation.relative
                for run in runs[1:]
                for values, expected in zip(run, runs[0])
                for deviation in case.find_deviations(values, expected).values()
            ),
            default=0.0,
        )
        is_wrong = most > LARGE
        notes.append(steps.BACKENDS_DIFFER if is_wrong else steps.BACKENDS_AGREE)
    return is_wrong


def diagnose_half_model(
    case: Case, half: HalfModel, outputs: Sequence[Sequence[Values]], third: SuspectedParty
) -> StepOutcome:
    """Return the half-precision losses of a model that is correct in float32.

    Args:
        case: the case of the unmodified model.
        half: the same in float32.
        outputs: of each backend, what it makes of each input set.
        third: the backend that computes the expected results.
    """
    name = type_name(half.dtype)
    with case.record_step(titles.all_nodes_in(name)) as notes:
        try:
            opened = half.open()
            exact = half.outputs_of(third)
            half_result = opened.result(half.feeds, notes)
        except PolygraphyException as error:
            notes.append(steps.cannot_run(error))
            return Skip(str(error))
        if half_result.verdict != AGREE and not is_observed(outputs, half_result.before):
            notes.append(steps.LOWERING_NOT_OBSERVED)
            return Skip(steps.LOWERING_NOT_OBSERVED)
    if half_result.verdict == ILL_CONDITIONED:
        reason = reasons.inputs_alone(name)
        return Found(DiagnosisResult(ILL_CONDITIONED, reason=reason), case)
    if half_result.verdict == AGREE:
        if not _are_tolerable(exact, outputs, opened.tolerance.scale(half_result.allowance)):
            return Skip("the outputs differ by more than half precision explains")
        reason = reasons.rounding_only(name, half_result.before)
        return Found(DiagnosisResult(AGREE, reason=reason), case)
    if half_result.verdict != FAULT:
        return Skip("no set of nodes explains the differences")
    remedy, proof = Remedy(), list[Fact]()
    if half_result.kept:
        note = remedies.convert_again(cast_words(name, half_result.kept))
        remedy = Remedy(None, half_result.after.is_tolerable, note)
        proof.append(precision.error_in_narrow_type(name, str(half_result.before)))
        proof.append(
            precision.error_with_nodes_in_float32(half_result.kept, str(half_result.after))
        )
    culprits = [*half_culprits(half_result, remedy, proof)]
    if all(culprit.cause in ("nan", "rounding") for culprit in culprits):
        # The weights have already lost this, so it is also lost in float32.
        culprits = _find_lost_epsilons(case, Range.of(half.dtype)) or culprits
    return Found(DiagnosisResult(FAULT, culprits), case)


def diagnose_saved_outputs(
    case: Case, half: HalfModel, saved: Values, values: Values, third: SuspectedParty
) -> StepOutcome:
    """Return the outcome: whether half precision explains outputs that differ from saved ones.
    Rounding was excluded before.

    Args:
        case: the case of the unmodified model.
        half: the same in float32, and one input set.
        saved: the saved results, which are correct.
        values: the outputs of the first party for the data.
        third: the backend that computes the expected results.
    """
    name = type_name(half.dtype)
    goal = {output: widen_array(array) for output, array in saved.items() if output in values}
    with case.record_step(titles.IN_FLOAT32) as notes:
        try:
            tolerance = half.open().tolerance
            [wide] = half.outputs_of(case.parties[0])
        except REFUSALS as error:
            notes.append(steps.cannot_run(error))
            return Skip(str(error))
        is_right = tolerance.error(goal, wide).is_tolerable
        notes.append(steps.matches_saved(titles.FLOAT32_MODEL, is_right))
    if not is_right:
        return Skip("the model also differs from the saved results in float32")
    answer = diagnose_half_model(case, half, [[values]], third)
    if not isinstance(answer, Found) or answer.result.verdict != AGREE:
        return answer
    off = tolerance.error(goal, {output: widen_array(array) for output, array in values.items()})
    reason = reasons.right_in_float32(name, off)
    return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)


def is_observed(outputs: Sequence[Sequence[Values]], loss: Deviation) -> bool:
    """Return whether the expected half-precision loss is visible in the backends' difference."""
    apart = 0.0
    for result in zip(*outputs):
        arrays = [
            flat_elements(values[loss.part]).astype(np.float64)
            for values in result
            if loss.part in values
        ]
        if not all(np.isfinite(array).all() for array in arrays):
            return True
        shapes = {array.shape for array in arrays}
        if len(shapes) > 1:
            return True
        apart = max(
            [apart, *(float(np.max(abs(array - arrays[0]), initial=0)) for array in arrays)]
        )
    return not loss.broken and apart >= OBSERVED * loss.off


def _are_tolerable(
    exact: Sequence[Values], outputs: Sequence[Sequence[Values]], allowed: Tolerance
) -> bool:
    """Return whether each backend's outputs are within tolerance of the exact ones
    and of the first backend's.
    """
    wide = [
        [{output: widen_array(array) for output, array in values.items()} for values in result]
        for result in outputs
    ]
    return all(
        allowed.worst_error(expected, result).is_tolerable
        for result in wide
        for expected in (exact, wide[0])
    )


def _find_lost_epsilons(case: Case, limits: Range) -> list[Culprit]:
    """Return the nodes that add an epsilon which half precision rounds to zero, or nearly."""
    side = case.model.graph
    lost_epsilons = []
    for index, node in side.operations.items():
        epsilons = [(name, epsilon_of(side, name)) for name in node.inputs if node.op in ADDING]
        finite_epsilons = [(name, value) for name, value in epsilons if value is not None]
        if (
            not finite_epsilons
            or not is_guard(side, index)
            or finite_epsilons[0][1] > _GONE * limits.smallest
        ):
            continue
        name, value = finite_epsilons[0]
        label = node.label
        facts = [
            precision.epsilon_below_range(node.op, label, name, value, limits.name, limits.smallest)
        ]
        note = remedies.raise_epsilon(name, limits.normal)
        nodes, remedy = [node.label], Remedy(note=note)
        culprit = Culprit(nodes, node.outputs[0], MODEL, "epsilon", None, facts, remedy, node.op)
        lost_epsilons.append(culprit)
    return lost_epsilons


def _reason(half_result: HalfPrecision, dtype: str) -> str:
    """Return the reason why no backend is at fault; empty if one is."""
    if half_result.verdict == AGREE:
        works = reasons.half_works(dtype)
        return join_statements(
            works,
            _describe_allowance(half_result),
            _describe_overflow(half_result, dtype),
            _headroom(half_result, dtype),
        )
    if half_result.verdict == ILL_CONDITIONED:
        return reasons.inputs_alone_by(dtype, half_result.before)
    if half_result.verdict == INCONCLUSIVE and half_result.adds_up:
        return _describe_rounding(half_result, dtype)
    if half_result.verdict == INCONCLUSIVE:
        return reasons.no_set_of_nodes(dtype, half_result.before)
    return ""


def _describe_allowance(half_result: HalfPrecision) -> str:
    """Return the clause that explains a raised tolerance; empty if it is the usual one."""
    if half_result.allowance <= 1:
        return ""
    return reasons.more_allowed(half_result.allowance)


def _describe_rounding(half_result: HalfPrecision, dtype: str) -> str:
    """Return the sentence that rounding in all nodes causes the error, with a command that accepts
    it."""
    rounding, nodes = len(half_result.kept), len(half_result.losses)
    return reasons.rounding_accumulates(
        dtype, half_result.before, rounding, nodes, half_result.after
    )


def _headroom(half_result: HalfPrecision, dtype: str) -> str:
    """Return the sentence with the largest tensor as a share of the type's range."""
    largest = Range.of(half_type(dtype)).largest
    results = [result for loss in half_result.losses for result in loss.results if not result.above]
    top = max(results, key=lambda result: result.peak, default=None)
    if top is None:
        return ""
    share = 100 * top.peak / largest
    return reasons.headroom(top.name, share, dtype, bool(_describe_overflow(half_result, dtype)))


def _describe_overflow(half: HalfPrecision, dtype: str) -> str:
    """Return a sentence that lists tensors beyond the type's range (such as masks) without effect
    on outputs.
    """
    limits = Range.of(half_type(dtype))
    names = {result.name for loss in half.losses for result in loss.results}
    faults = [
        fault
        for loss in half.losses
        if loss.name not in half.kept
        and (fault := loss.fault(limits, names)) is not None
        and fault.cause == "overflow"
    ]
    if not faults:
        return ""
    return reasons.hidden_overflow(faults[0].loss, len(faults) - 1)
