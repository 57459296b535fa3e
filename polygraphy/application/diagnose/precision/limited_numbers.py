"""The command that limits numbers beyond the range of half precision, such as those of masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import REFUSALS, Case, Feed, Values
from polygraphy.application.diagnose.parts import Submodel
from polygraphy.application.diagnose.precision.half import type_name
from polygraphy.application.diagnose.precision.half_verdict import (
    HalfModel,
    cast_model,
    find_half_model,
)
from polygraphy.application.diagnose.subprocesses import CarefulParty
from polygraphy.domain.diagnosis.closeness import has_nan, is_broken
from polygraphy.domain.diagnosis.commands import convert_command
from polygraphy.domain.diagnosis.culprit import Culprit, Remedy
from polygraphy.domain.diagnosis.variants import Variant
from polygraphy.domain.diagnosis.words import changes, precision, remedies, steps, titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.rounding import Deviation
from polygraphy.domain.tensors.precision import limits_of, widen_array
from polygraphy.ports.diagnosing import SuspectedParty

_MOST = 64 << 20
"""Larger weights, in bytes, are not searched for infinity: masks are smaller. Chosen, not measured.
"""


def add_limiting_command(
    case: Case,
    culprits: Sequence[Culprit],
    feeds: Sequence[Feed],
    third: SuspectedParty,
    expected: Sequence[Values] | None = None,
) -> Sequence[Culprit]:
    """Return culprits whose numbers exceed the range of half precision,
    with the command that converts the float32 nodes of the model too, and so limits the numbers;
    unchanged if outputs are not correct then. NaN may be due to weights that are infinite already.

    Args:
        case: the model, which computes in half precision.
        culprits: the culprits.
        feeds: the data.
        third: the backend that rounds at every operator.
        expected: the correct outputs (default: those of the model in float32).
    """
    if {culprit.cause for culprit in culprits} == {"nan"}:
        return [_limit_weights(case, culprit, feeds) for culprit in culprits]
    is_file = case.is_given and case.whole.given is case.whole.proto
    if not is_file or {culprit.cause for culprit in culprits} != {"overflow"}:
        return culprits
    half = find_half_model(case, feeds)
    if half is None:
        return culprits
    name = type_name(half.dtype)
    with case.record_step(titles.limited_to(name)) as notes:
        try:
            error = _error_if_limited(case, half, feeds, third, expected)
        except REFUSALS as refusal:
            notes.append(steps.cannot_run(refusal))
            return culprits
        notes.append(steps.error_of_all(error))
    command = convert_command(case.path, name, ())
    if not error.is_tolerable or not command:
        return culprits
    proof = precision.error_with_limited_numbers(name, str(error))
    remedy = Remedy(command, True)
    return [evolve(culprit, facts=[*culprit.facts, proof], remedy=remedy) for culprit in culprits]


def _error_if_limited(
    case: Case,
    half: HalfModel,
    feeds: Sequence[Feed],
    third: SuspectedParty,
    expected: Sequence[Values] | None,
) -> Deviation:
    """Return the error of the outputs, rounded at every operator, of a model that computes in half
    precision everywhere; that of a backend if it computes NaN or infinity."""
    model, tolerance = cast_model(case.whole.proto, type_name(half.dtype)), half.open().tolerance
    exact = half.outputs_of(third) if expected is None else expected
    exact = [{name: widen_array(array) for name, array in values.items()} for values in exact]
    if any(has_nan(array) for values in exact for array in values.values()):
        return Deviation(np.inf, broken=1)
    worst = Deviation()
    for party in dict.fromkeys((third, *case.parties)):
        compute = CarefulParty(party).load(model)
        with np.errstate(all="ignore"):
            computed = [
                {name: widen_array(array) for name, array in compute(feed).items()}
                for feed in feeds
            ]
        error = tolerance.worst_error(exact, computed)
        if party is third or error.broken:
            worst = max(worst, error, key=lambda deviation: deviation.excess)
    return worst


def _limit_weights(case: Case, culprit: Culprit, feeds: Sequence[Feed]) -> Culprit:
    """Return the culprit of NaN, with the infinite weights of the model if all outputs are finite
    with the largest number in their place; unchanged if not."""
    graph = case.whole.graph
    infinite = {
        name: np.asarray(weight.values)
        for name, weight in graph.constants.items()
        if weight.nbytes <= _MOST
        and weight.values is not None
        and is_broken(weight.values)
        and not has_nan(weight.values)
    }
    if not infinite:
        return culprit
    limited = {name: _limit(array) for name, array in infinite.items()}
    part = Submodel(case.whole.proto, feeds[0])
    try:
        for node in graph.operations.values():
            if read := {name: limited[name] for name in node.inputs if name in limited}:
                variant = Variant("weight", changes.differs(), node, read)
                part = part.change(next(filter(None, node.outputs)), variant)
        computed = [compute(feed) for compute in map(part.load, case.parties) for feed in feeds]
    except PolygraphyException:
        return culprit
    names = case.model.outputs
    if any(is_broken(values[name]) for values in computed for name in names):
        return culprit
    numbers = [float(limited[name][np.isinf(array)].flat[0]) for name, array in infinite.items()]
    proof = precision.finite_with_limited_weights([*limited], numbers)
    remedy = Remedy(None, True, remedies.limit_weights([*limited], numbers))
    return evolve(culprit, facts=[*culprit.facts, proof], remedy=remedy)


def _limit(array: Any) -> Any:
    """Return an array with the largest finite numbers in place of infinity."""
    largest = limits_of(array.dtype)[0]
    return np.clip(array, -largest, largest).astype(array.dtype)
