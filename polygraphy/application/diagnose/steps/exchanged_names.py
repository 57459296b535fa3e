"""Step: two inputs, or two outputs, have each other's name, because names were listed in another
order at the export.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from polygraphy.application.diagnose.case import REFUSALS, Case, Values
from polygraphy.application.diagnose.comparisons.program_comparison import ProgramComparison
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.rounding import rounding_explains
from polygraphy.domain.diagnosis.culprit import FAULT, MODEL_FILE, Culprit, DiagnosisResult, Remedy
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.words import program_evidence, remedies, steps, titles

_MOST = 16
"""Most pairs that are tried; each of inputs costs a run for each input set."""

Names = tuple[str, str]


def explain_by_exchanged_names(case: Case, comparison: ProgramComparison) -> StepOutcome:
    """Return the two inputs or outputs that have each other's name,
    if the model matches its program as soon as they are exchanged.
    """
    inputs = list(_pairs_alike(comparison.feed))
    outputs = list(_pairs_alike(comparison.expected))
    if not inputs and not outputs:
        return Skip("no two inputs or outputs have the same type and shape")
    with case.record_step(titles.EXCHANGED_NAMES) as notes:
        found = _first_match(case, comparison, inputs, outputs)
        notes.append(steps.exchange_tried(() if found is None else found[0]))
    if found is None:
        return Skip("exchanging names does not explain the difference")
    names, fact, note = found
    culprit = Culprit(
        [], None, MODEL_FILE, "structure", None, [fact(names)], Remedy(None, True, note), "Model"
    )
    return Found(DiagnosisResult(FAULT, [culprit]), case)


def _first_match(
    case: Case, comparison: ProgramComparison, inputs: Sequence[Names], outputs: Sequence[Names]
) -> tuple[Names, Callable[[Names], Fact], str] | None:
    """Return the first pair of names that explains the difference, its fact, and advice.

    The names explain it when exchanged; None if no pair does.
    """
    compute = case.load(case.parties[0])
    values = [compute(feed) for feed in comparison.feeds]
    for names in outputs:
        if _matches(case, comparison, [_exchange(value, names) for value in values]):
            return names, program_evidence.exchanged_outputs, remedies.RENAME_OUTPUTS
    for names in inputs:
        try:
            exchanged = [compute(_exchange(feed, names)) for feed in comparison.feeds]
        except REFUSALS:  # For example, positions that are no tokens.
            continue
        if _matches(case, comparison, exchanged):
            return names, program_evidence.exchanged_inputs, remedies.RENAME_INPUTS
    return None


def _matches(case: Case, comparison: ProgramComparison, values: Sequence[Values]) -> bool:
    """Return whether outputs are those of the program on all data, up to rounding."""
    sets = [
        {name: value for name, value in expected.items() if name in own}
        for own, expected in zip(values, comparison.sets)
    ]
    pairs = zip(values, sets)
    if not any(case.find_deviations(own, expected) for own, expected in pairs):
        return True
    return rounding_explains(case, comparison.feeds, values, sets)


def _pairs_alike(arrays: Mapping[str, Any]) -> Iterator[Names]:
    """Yield the names of two arrays with one type and shape, and different values;
    at most a few pairs."""
    pairs = (
        (name, other_name)
        for name, other_name in combinations(arrays, 2)
        if _kind_of(arrays[name]) == _kind_of(arrays[other_name])
        and not np.array_equal(arrays[name], arrays[other_name])
    )
    yield from (names for names, _ in zip(pairs, range(_MOST)))


def _kind_of(value: Any) -> object:
    """Return the type and shape of an array, by which two can be mistaken for each other."""
    array = np.asarray(value)
    return array.dtype, array.shape


def _exchange(arrays: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """Return arrays with those of two names exchanged."""
    exchanged = dict(arrays)
    exchanged[names[0]], exchanged[names[1]] = arrays[names[1]], arrays[names[0]]
    return exchanged
