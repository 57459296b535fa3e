"""Why the outputs of a model are wrong that computes in half precision as it is.

ONNX Runtime computes it in float32 on the CPU, the evaluator rounds at every operator, and hardware
does something between: where they differ, the same model in float32 separates what half
precision loses from what a backend does wrong.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values
from polygraphy.application.diagnose.half import (
    HalfPrecision,
    Tolerance,
    Trial,
    casting_flag,
    named,
    tolerance_for,
)
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    ILL_CONDITIONED,
    MODEL,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.half import HalfCulprit
from polygraphy.domain.diagnosis.headroom import ADDING, Range
from polygraphy.domain.diagnosis.pairing import Side
from polygraphy.domain.diagnosis.remedies import keeping
from polygraphy.domain.diagnosis.two_models import is_guard
from polygraphy.domain.diagnosis.variants import epsilon_of
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.rounding import LARGE, OutputError
from polygraphy.domain.tensors.datatype import DataTypeEntry
from polygraphy.ports.binding import resolve
from polygraphy.ports.diagnosing import ModelPairs, NarrowModels, SuspectedParty

_MOST = 0.5
"""From this share of nodes on a model computes in half precision; below, only a part of it does."""
_OBSERVED = 0.1
"""The share of what half precision loses by which backends differ at least, if that is why."""
_GONE = 4
"""Of so few times the smallest number, what is left of an epsilon has no digits any more."""


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


def half_model(case: Case, feeds: Sequence[Feed]) -> HalfModel | None:
    """Return the model in float32, if it computes in half precision; else None."""
    models = resolve(NarrowModels)
    found = models.narrow_nodes(case.model.proto)
    if found is None:
        return None
    dtype, nodes = found
    wide = [{name: in_float(array) for name, array in feed.items()} for feed in feeds]
    share = len(nodes) / max(1, len(case.model.nodes))
    return HalfModel(models.widened(case.model.proto), dtype, nodes, wide, share >= _MOST)


def in_float32(model: Any, reference: Any) -> tuple[Any, Any] | None:
    """Return two models as they are in float32, where one of them computes in half precision: it in
    that type, the other with weights that are rounded alike. None where neither does.

    Args:
        model: an ``onnx.ModelProto``.
        reference: another.
    """
    models = resolve(NarrowModels)
    if (rounded := models.with_rounded_weights(reference, model)) is not None:
        return models.widened(model), rounded[0]
    if (rounded := models.with_rounded_weights(model, reference)) is not None:
        return rounded[0], models.widened(reference)
    return None


def is_wrong_in_float32(case: Case, half: HalfModel, third: SuspectedParty) -> bool:
    """Return whether parties differ in float32 as well: then it is not the precision."""
    with case.attempt("in float32") as said:
        try:
            runs = [_runs(party, half) for party in dict.fromkeys((*case.parties, third))]
        except REFUSALS as error:
            said.append(f"Cannot be run: {error}")
            return False
        most = max(
            (
                each.relative
                for one in runs[1:]
                for values, expected in zip(one, runs[0])
                for each in case.differing(values, expected).values()
            ),
            default=0.0,
        )
        is_wrong = most > LARGE
        said.append("The backends differ." if is_wrong else "The backends agree.")
    return is_wrong


def of_half_model(
    case: Case, half: HalfModel, outputs: Sequence[Sequence[Values]], third: SuspectedParty
) -> DiagnosisResult | None:
    """Find out what half precision loses of a model that is right in float32.

    Args:
        case: the model as it is.
        half: the same in float32.
        outputs: of each backend, what it makes of each set of data.
        third: who computes what is right.

    Returns:
        What was found; None where precision does not explain the outputs.
    """
    name = named(half.dtype)
    limits = Range.of(half.dtype)
    with case.attempt(f"every node in {name}") as said:
        try:
            measured = resolve(NarrowModels).open(half.wide, half.dtype, half.nodes)
            tolerance = tolerance_for(half.dtype, measured.facts())
            found = Trial(measured, tolerance, half.feeds).result(limits, half.dtype)
            exact = _runs(third, half)
        except PolygraphyException as error:
            said.append(f"Cannot be computed: {error}")
            return None
        said.append(f"{found.verdict}: {found.before}.")
        if found.verdict != "agree" and not _is_observed(outputs, found.before):
            said.append("The backends are not so far apart, so it is not why they differ.")
            return None
    if found.verdict == "ill-conditioned":
        reason = f"Rounding the inputs to {name} alone changes the outputs as much."
        return DiagnosisResult(ILL_CONDITIONED, reason=reason)
    if found.verdict == "agree":
        return _of_agreement(exact, outputs, tolerance, found, name)
    if found.verdict != "fault":
        return None
    culprits = [_culprit(half, found, one) for one in found.culprits]
    if all(one.cause in ("nan", "rounding") for one in culprits):
        # What the weights have lost already is lost in float32 as well.
        culprits = _lost_epsilons(case, limits) or culprits
    return DiagnosisResult(FAULT, culprits)


def of_saved_outputs(
    case: Case, half: HalfModel, saved: Values, values: Values, third: SuspectedParty
) -> DiagnosisResult | None:
    """Find out whether half precision explains outputs that are not those that were saved.

    Args:
        case: the model as it is.
        half: the same in float32, and one set of data.
        saved: what is right.
        values: what the first party makes of the data.
        third: who computes what is right.

    Returns:
        What was found; None where the model does not give them in float32 either.
    """
    name = named(half.dtype)
    goal = {output: in_float(array) for output, array in saved.items() if output in values}
    with case.attempt("in float32") as said:
        try:
            opened = resolve(NarrowModels).open(half.wide, half.dtype, half.nodes)
            [wide] = _runs(case.parties[0], half)
        except REFUSALS as error:
            said.append(f"Cannot be run: {error}")
            return None
        tolerance = tolerance_for(half.dtype, opened.facts())
        is_right = tolerance.error(goal, wide).is_tolerable
        said.append(f"It {'gives' if is_right else 'does not give'} what was saved.")
    if not is_right:
        return None
    off = tolerance.error(goal, {output: in_float(array) for output, array in values.items()})
    if off.is_tolerable:
        return DiagnosisResult(
            AGREE, reason=f"What differs is what rounding to {name} does: {off}."
        )
    return of_half_model(case, half, [[values]], third)


def _is_observed(outputs: Sequence[Sequence[Values]], loss: OutputError) -> bool:
    """Return whether what half precision loses shows: backends that lose the same differ by
    something else.
    """
    apart = 0.0
    for made in zip(*outputs):
        arrays = [
            np.asarray(values[loss.name], np.float64) for values in made if loss.name in values
        ]
        if not all(np.isfinite(array).all() for array in arrays):
            return True
        shapes = {array.shape for array in arrays}
        if len(shapes) > 1:
            return True
        apart = max([apart, *(float(np.max(abs(one - arrays[0]), initial=0)) for one in arrays)])
    return not loss.broken and apart >= _OBSERVED * loss.error


def _of_agreement(
    exact: Sequence[Values],
    outputs: Sequence[Sequence[Values]],
    tolerance: Tolerance,
    found: HalfPrecision,
    name: str,
) -> DiagnosisResult | None:
    """Half precision is good enough, so each backend has to be."""
    allowed = tolerance.allowing(found.allowance)
    for made in outputs:
        for right, values in zip(exact, made):
            wide = {output: in_float(array) for output, array in values.items()}
            if not allowed.error(right, wide).is_tolerable:
                return None
    reason = f"What differs is what rounding to {name} does: {found.before}."
    return DiagnosisResult(AGREE, reason=reason)


def _culprit(half: HalfModel, found: HalfPrecision, one: HalfCulprit) -> Culprit:
    name = named(half.dtype)
    evidence = [f"{one.fault.evidence[:1].upper()}{one.fault.evidence[1:]}."]
    remedy = Remedy()
    if found.kept:
        evidence.append(f"With all of its nodes in {name} {found.before}.")
        evidence.append(f"With {', '.join(map(repr, found.kept))} in float32 {found.after}.")
        options = shlex.join([casting_flag(name), *keeping(found.kept)])
        note = f"Convert the model in float32 again, with {options}."
        remedy = Remedy(None, found.after.is_tolerable, note)
    return Culprit(
        list(one.nodes), one.fault.tensor, MODEL, one.fault.cause,
        evidence=evidence, remedy=remedy, op=one.op,
    )  # fmt: skip


def _lost_epsilons(case: Case, limits: Range) -> list[Culprit]:
    """Return the nodes that add a number to keep another away from zero which half precision made
    zero, or nearly.
    """
    side = Side(resolve(ModelPairs).graph(case.model.proto))
    found = []
    for index, node in enumerate(side.nodes):
        held = [(name, epsilon_of(side, name)) for name in node.inputs if node.op in ADDING]
        lost = [(name, value) for name, value in held if value is not None]
        if not lost or not is_guard(side, index) or lost[0][1] > _GONE * limits.smallest:
            continue
        name, value = lost[0]
        evidence = [
            f"{node.op} {side.identity(index)!r} keeps what it reads away from zero with {name!r},"
            f" which is {value:.3g}; {limits.name} begins at {limits.smallest:.2g}.",
        ]
        note = f"Make {name!r} at least {limits.normal:.1g}, or keep the node in float32."
        nodes, remedy = [side.identity(index)], Remedy(note=note)
        made = Culprit(nodes, node.outputs[0], MODEL, "epsilon", None, evidence, remedy, node.op)
        found.append(made)
    return found


def _runs(party: SuspectedParty, half: HalfModel) -> list[Mapping[str, Any]]:
    compute = party.load(half.wide, plain=True) if party.name == "onnx" else party.load(half.wide)
    return [compute(feed) for feed in half.feeds]


def in_float(array: Any) -> Any:
    """Return an array of half precision in float32, and any other as it is."""
    narrow = isinstance(array, np.ndarray) and array.dtype.name in HALF
    return array.astype(np.float32) if narrow else array
