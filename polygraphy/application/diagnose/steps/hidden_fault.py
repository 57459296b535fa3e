"""Step: a weight of a model differs from its reference, and the outputs still match within the
rounding limit of the data type.

One backend computes both models in the same way, so only the weight can cause a difference. It is
compared element by element with what rounding changes there. Models in half precision are computed
in float32, with weights that are rounded alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from polygraphy.application.diagnose.case import REFUSALS, Case, Values
from polygraphy.application.diagnose.changes.proven_differences import Differences
from polygraphy.application.diagnose.comparisons.differences import (
    add_copy_command,
    describe_difference,
)
from polygraphy.application.diagnose.comparisons.model_pair import FEW_DIFFERENCES, ModelComparison
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome
from polygraphy.application.diagnose.precision.half_verdict import widen_models
from polygraphy.binding import resolve
from polygraphy.domain.diagnosis.culprit import FAULT, DiagnosisResult
from polygraphy.domain.diagnosis.pairing import Pairing, is_quantized, pair_graphs
from polygraphy.domain.diagnosis.two_models import Suspect, plan_copies, suspects
from polygraphy.domain.diagnosis.words import evidence, steps, titles
from polygraphy.domain.errors import PolygraphyException
from polygraphy.domain.rounding import GROWTH
from polygraphy.domain.search import Outcome, smallest_good_set
from polygraphy.domain.tensors.precision import epsilon_of, is_float, widen_array
from polygraphy.ports.diagnosing import NarrowModels, apply_copies
from polygraphy.ports.editing import OpenModel, open_model

_PLAIN = frozenset({"weight", "attribute"})
"""Causes of faults. Other operators, or a larger epsilon, may be chosen for half precision."""
_CLEAR = 4.0
"""An effect of this multiple of the other errors is no rounding. Chosen, not measured; 7 to 185
was measured for weights that differ by 0.4% to 6%."""
_SHARE, _FEW = 100, 3
"""One element in this number has to show it, or so many elements."""


@frozen
class _Effect:
    """The largest effect of a difference on an output: its name, the element, the change, and how
    much rounding changes that element."""

    name: str
    where: tuple[int, ...]
    size: float
    rest: float


@frozen
class _Models:
    """A model and its reference, in a form that one backend computes in the same way.

    Attributes:
        model: the model, in float32 if it computes in half precision.
        reference: the reference, with weights that are rounded like the model's.
        pairing: the pairs of their nodes.
        dtype: the data type in which the model computes.
        is_half: whether that is half precision.
    """

    model: OpenModel
    reference: OpenModel
    pairing: Pairing
    dtype: str
    is_half: bool

    @property
    def suspects(self) -> list[Suspect]:
        """Return the differences if each may be a fault, else none.
        The result is empty if any is of another kind, or there are too many."""
        differing = suspects(self.pairing)
        is_few = len(differing) <= FEW_DIFFERENCES
        return differing if is_few and all(culprit.cause in _PLAIN for culprit in differing) else []


def explain_hidden_fault(case: Case, comparison: ModelComparison) -> StepOutcome:
    """Return the weights or attributes that differ,
    if they change the outputs by more than rounding does."""
    if is_quantized(comparison.pair.pairing):
        return Skip("quantization changes weights")
    models = _models(case, comparison)
    if models is None or not models.suspects:
        return Skip(
            "the difference between the models is not limited to a few weights or attributes"
        )
    with case.record_step(titles.ELEMENT_BY_ELEMENT) as notes:
        for index in range(len(comparison.feeds)):
            search = _EffectSearch(case, comparison, models, index)
            effect = search.effect([])
            if effect is None:
                continue
            notes.append(steps.more_than_rounding_of_element(effect.name, effect.where))
            needed = smallest_good_set(models.suspects, search.test)
            if needed is None:
                break
            return _fault(case, comparison, models, needed, effect, index)
        notes.append(steps.ROUNDING_HIDES_IT)
    return Skip("rounding has as large an effect")


def _fault(
    case: Case,
    comparison: ModelComparison,
    models: _Models,
    needed: Sequence[Suspect],
    effect: _Effect,
    index: int,
) -> Found:
    """Return the verdict with the differences at fault: without them, no element differs."""
    pair, feed = comparison.pair, comparison.feeds[index]
    expected = comparison.expected[index]
    side = models.pairing.model
    culprits = [describe_difference(side, suspect, len(needed)) for suspect in needed]
    facts = [
        evidence.larger_than_rounding(effect.name, effect.where, effect.size, effect.rest),
        evidence.accepted_by_run(models.dtype),
    ]
    culprits[-1] = evolve(culprits[-1], facts=[*culprits[-1].facts, *facts])
    differences = Differences(culprits)
    if pair.pairing.model.narrow is None:  # Weights have the same type in both.
        differences = add_copy_command(case, pair, differences, feed, expected)
    result = DiagnosisResult(FAULT, differences.culprits)
    return Found(result, evolve(case, feed=feed, expected=expected))


def _models(case: Case, comparison: ModelComparison) -> _Models | None:
    """Return model and reference as they are, or in float32, or None.
    The result is None if one backend cannot compute both in the same way."""
    pair = comparison.pair
    nodes = resolve(NarrowModels).narrow_nodes(case.model.proto)
    if nodes is None:
        return _Models(case.model, pair.reference, pair.pairing, "float32", is_half=False)
    widened = widen_models(case.model.proto, pair.reference.proto)
    if widened is None:
        return None
    model, reference = map(open_model, widened)
    pairing = pair_graphs(model.graph, reference.graph)
    return _Models(model, reference, pairing, nodes[0].name, is_half=True)


class _EffectSearch:
    """Searches the differences that change elements of the outputs for one input set."""

    def __init__(
        self, case: Case, comparison: ModelComparison, models: _Models, index: int
    ) -> None:
        """Compute the reference, and how much rounding changes each element."""
        self._models, self._party = models, comparison.pair.party
        self._feed = {
            name: widen_array(array) if models.is_half else array
            for name, array in comparison.feeds[index].items()
        }
        pair, expected = comparison.pair, comparison.expected[index]
        twins = {pair.pairing.tensors.get(name, name): array for name, array in self._feed.items()}
        self._expected: Values = {}
        output_pairs: list[tuple[Values, Values]] = []
        try:
            reference = models.reference.proto
            self._expected = pair.rename_outputs(case, self._party.load(reference)(twins))
            if models.is_half:
                own_values = self._party.load(models.model.proto)(self._feed)
                output_pairs = [(comparison.values[index], own_values), (expected, self._expected)]
            else:
                other_values = pair.rename_outputs(
                    case, pair.arbiter.load(reference, plain=True)(twins)
                )
                output_pairs = [(other_values, self._expected)]
        except REFUSALS:
            self._expected = {}
        self._rest = {name: _distance(name, output_pairs) for name in self._expected}

    def effect(self, restored: Sequence[Suspect]) -> _Effect | None:
        """Return the largest effect of the differences that are not restored, or None.
        The result is None if rounding explains all effects."""
        models = self._models
        proto = models.model.proto
        try:
            if restored:
                plan = plan_copies(models.pairing, restored)
                proto = apply_copies(proto, models.reference.proto, plan)
            values = self._party.load(proto)(self._feed)
        except (PolygraphyException, KeyError):
            return None
        effects = (self._effect_on(name, values.get(name)) for name in self._expected)
        known_effects = [effect for effect in effects if effect is not None]
        return max(
            known_effects, key=lambda effect: effect.size / (effect.rest or 1e-30), default=None
        )

    def test(self, restored: Sequence[Suspect]) -> Outcome:
        """Return GOOD if no element differs with some differences restored, else BAD."""
        is_right = bool(restored) and self.effect(restored) is None
        return Outcome.GOOD if is_right else Outcome.BAD

    def _effect_on(self, name: str, value: Any) -> _Effect | None:
        """Return the largest effect of the differences on an output, or None.
        The result is None if too few elements show one."""
        expected, rounding = self._expected[name], self._rest[name]
        if rounding is None or not is_float(value) or np.shape(value) != np.shape(expected):
            return None
        wide = np.asarray(expected, np.float64)
        with np.errstate(invalid="ignore"):
            effect = np.abs(np.asarray(value, np.float64) - wide)
        share = 1.0 if self._models.is_half else GROWTH
        limit = share * epsilon_of(self._models.dtype) * np.abs(wide)
        shown = np.isfinite(effect) & (effect > _CLEAR * rounding) & (effect > limit)
        if np.count_nonzero(shown) < max(1, min(_FEW, effect.size // _SHARE)):
            return None
        largest_index = np.unravel_index(int(np.argmax(np.where(shown, effect, 0.0))), effect.shape)
        where = tuple(int(index) for index in largest_index)
        return _Effect(name, where, float(effect[where]), float(rounding[where]))


def _distance(name: str, pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Any:
    """Return, by element, the largest distance between computations of an output that round
    differently; None if it is unknown."""
    result: Any = 0.0
    for values, other_outputs in pairs:
        value, other_value = values.get(name), other_outputs.get(name)
        if not is_float(value) or not is_float(other_value):
            return None
        if np.shape(np.asarray(value)) != np.shape(np.asarray(other_value)):
            return None
        with np.errstate(invalid="ignore"):
            apart = np.abs(np.asarray(value, np.float64) - np.asarray(other_value, np.float64))
        result = np.maximum(result, np.nan_to_num(apart, nan=0.0))
    return result if pairs else None
