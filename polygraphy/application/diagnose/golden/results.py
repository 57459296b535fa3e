"""Finds out why a model does not give the results that were saved once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.golden.outputs_alone import of_outputs
from polygraphy.application.diagnose.golden.saved import Fitted, fitting, in_types_of
from polygraphy.application.diagnose.half_model import half_model, of_saved_outputs
from polygraphy.application.diagnose.locating import first_non_finite, first_wrong, nodes_alone
from polygraphy.application.diagnose.tracing import Trace, trace
from polygraphy.domain.diagnosis.closeness import breaks, is_partly, together
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.pairing import Side
from polygraphy.domain.diagnosis.regions import producers, region_before
from polygraphy.domain.diagnosis.variants import (
    Variant,
    explains,
    guess,
    unknowns,
    variants,
    with_number,
)
from polygraphy.domain.errors import BackendError
from polygraphy.domain.rounding import LARGE, Deviation
from polygraphy.domain.search.numbers import nearest_number
from polygraphy.ports.binding import resolve
from polygraphy.ports.diagnosing import Compute, ModelPairs, SuspectedParty

_CANDIDATES = 64
"""Tensors that are tried instead of an operand."""
_STRONGLY = 0.95
_STEPS = 8
"""Epsilons that rounding does at most between two tensors that were saved."""
_EXPONENTS = tuple(step / 2 for step in range(-16, 5))
"""Powers of ten that are tried for a number that is not known."""


def against_results(
    case: Case, saved: Sequence[Values], feeds: Sequence[Feed], third: SuspectedParty
) -> DiagnosisResult | None:
    """Find out why a model does not give saved results.

    Returns:
        What was found out; None where the model gives them, or a backend is at fault.

    Raises:
        UsageError: the results are of other tensors than the model has.
    """
    return _Comparison(case, saved, feeds, third).result()


class _Comparison:
    """A model, what it was fed with, and what it should have made of it."""

    def __init__(
        self, case: Case, saved: Sequence[Values], feeds: Sequence[Feed], third: SuspectedParty
    ) -> None:
        self._case = case
        self._count = min(len(saved), len(feeds))
        self._saved = list(saved)
        self._feeds = list(feeds)
        self._third = third
        self._party: SuspectedParty = case.parties[0]
        self._pairs = resolve(ModelPairs)
        self._lost: Values = {}
        self._changed: list[Variant] = []

    def result(self) -> DiagnosisResult | None:
        """Go through the steps."""
        case = self._case
        with case.attempt("saved results") as notes:
            try:
                compute = case.loaded(self._party)
                values = [compute(feed) for feed in self._feeds[: self._count]]
            except BackendError:
                return None
            fitted = fitting(case.model, self._saved, values)
            self._saved = fitted.sets
            number, found = self._worst(values)
            notes.extend(fitted.notes(len(found)))
        if not found:
            reason = fitted.doubt()
            if fitted.is_proof:
                return DiagnosisResult(AGREE, reason=reason) if len(case.parties) == 1 else None
            return DiagnosisResult(INCONCLUSIVE, reason=reason)
        feed, saved = self._feeds[number], self._saved[number]
        if breaks(values[number], saved):
            broken = first_non_finite(case, trace(case, self._third, feed))
            if broken is not None:
                return DiagnosisResult(FAULT, [broken])
        if fitted.inner:
            saved = in_types_of(case, self._party, feed, saved)
            made = self._of_tensors(feed, saved, found)
            if made is None and case.unexplained:
                return self._of_half_model(number, values[number])
            return made
        return self._of_outputs(number, values[number], found, fitted)

    def _of_outputs(
        self, number: int, values: Values, found: Mapping[str, Deviation], fitted: Fitted
    ) -> DiagnosisResult | None:
        """Find out why outputs differ, where nothing before them was saved."""
        if (lost := self._of_half_model(number, values)) is not None:
            return lost
        run = (self._feeds[number], self._saved[number], values)
        made = of_outputs(self._case, run, found, self._third)
        if fitted.lost and made is not None and made.verdict == INCONCLUSIVE:
            return evolve(made, reason=fitted.doubt(differs=True))
        return made

    def _of_half_model(self, number: int, values: Values) -> DiagnosisResult | None:
        """Return what half precision does to a model that computes in it, if that explains it."""
        half = half_model(self._case, [self._feeds[number]])
        if half is None or not half.is_whole:
            return None
        made = of_saved_outputs(self._case, half, self._saved[number], values, self._third)
        self._case.unexplained = self._case.unexplained and made is None
        return made

    def _worst(self, values: Sequence[Values]) -> tuple[int, dict[str, Deviation]]:
        worst: tuple[int, dict[str, Deviation]] = (0, {})
        most = -1.0
        for number, one in enumerate(values):
            found = self._case.differing(one, self._saved[number])
            size = max((each.relative for each in found.values()), default=0.0)
            if found and size > most:
                worst, most = (number, found), size
        return worst

    def _of_tensors(
        self, feed: Feed, saved: Values, outputs: Mapping[str, Deviation]
    ) -> DiagnosisResult | None:
        """Compute every node from what was saved, which says where they part."""
        case, model = self._case, self._case.model
        order = producers(model.nodes)
        known = Trace({name: saved[name] for name in saved if name in order}, feed, self._third)
        self._lost = {name: value for name, value in saved.items() if name not in order}
        with case.attempt("layer by layer") as notes:
            first = first_wrong(case, self._party, known)
            notes.append(
                "No tensor differs." if first is None else f"The first to differ is {first}."
            )
        with case.attempt("node by node") as notes:
            wrong: list[dict[str, tuple[Deviation, Any]]] = []
            for party in dict.fromkeys((self._third, self._party)):
                try:
                    made_alone = nodes_alone(case, model, party, known)
                except BackendError as error:
                    notes.append(f"{party.name} cannot run the nodes alone: {error}")
                    continue
                case.measured(party.name, "isolated", made_alone.compared)
                wrong.append(
                    {
                        name: (made, made_alone.values[name])
                        for name, made in made_alone.wrong
                        if _counts(made, self._rounding(name))
                    }
                )
            if not wrong:
                return None
            # What only one of two makes otherwise is no fault of the model.
            differing = {
                name: made for name, made in wrong[0].items() if all(name in one for one in wrong)
            }
            notes.append(f"{len(differing)} tensors are not made of what was saved.")
        regions: dict[str, list[int]] = {}
        for name in differing:  # A node with several results is one culprit.
            region = region_before(model.nodes, name, known.values.keys() | feed.keys())
            if region not in regions.values():
                regions[name] = region
        if not regions:
            case.unexplained = max(each.relative for each in outputs.values()) > LARGE
            return None
        side = Side(self._pairs.graph(model.proto))
        positions = {self._first(side, index): index for index in range(len(side.nodes))}
        culprits = []
        for name, region in regions.items():
            index = positions.get(next(iter(model.nodes[region[-1]].makes), ""))
            culprits.append(self._named(name, region, differing[name], side, index, known))
        entering = [
            one for one, region in zip(culprits, regions.values())
            if any(set(model.nodes[index].reads) & feed.keys() for index in region)
        ]  # fmt: skip
        is_entry = len(entering) == len(culprits) and not any(x.remedy.proven for x in culprits)
        if is_entry and self._is_other_data(known, regions, differing, feed):
            return self._of_data(culprits)
        if len(self._changed) == len(culprits):
            remedy = case.undoing(side, self._changed)
            culprits = [evolve(one, remedy=remedy) for one in culprits]
        return DiagnosisResult(FAULT, culprits)

    def _rounding(self, name: str) -> float:
        """Return what rounding explains of an output that is cast to another type at the end."""
        epsilon = self._case.epsilon(name) if name in self._case.model.outputs else None
        return _STEPS * (epsilon or 0.0)

    @staticmethod
    def _first(side: Side, index: int) -> str:
        return next(filter(None, side.nodes[index].outputs), "")

    def _named(
        self,
        name: str,
        region: Sequence[int],
        wrong: tuple[Deviation, Any],
        side: Side,
        index: int | None,
        known: Trace,
    ) -> Culprit:
        """Return what is known of nodes that make something else than was saved."""
        nodes = self._case.model.nodes
        names = [nodes[one].name for one in region]
        evidence = [
            f"Of what was saved before it, it makes a {name!r} that {wrong[0].in_words()},"
            f" in {self._party.name} and in {self._third.name}."
        ]
        cause, proven, what = "structure", False, ""
        if index is not None and len(region) == 1:
            variant = self._variant(name, region[0], side, index, known)
            variant = variant or self._rewired(name, region[0], side, index, known)
            if variant is not None:
                cause, what, proven = variant.cause, variant.what, True
                self._changed.append(variant)
            else:
                cause, what = guess(side, index, wrong[1], known.values[name])
            evidence.append(f"{what[0].upper()}{what[1:]}.")
            if proven:
                evidence.append("With only that changed, it makes what was saved.")
        return Culprit(
            names,
            name,
            MODEL,
            cause,
            evidence=evidence,
            remedy=Remedy(f"Undo: {what}." if what else None, proven),
            op=nodes[region[-1]].op,
        )

    def _loaded(self, part: Any) -> Compute:
        """Return what computes a part of the model, by a party that has its operators."""
        try:
            return self._third.load(part)
        except BackendError:
            return self._party.load(part)

    def _variant(
        self, name: str, position: int, side: Side, index: int, known: Trace
    ) -> Variant | None:
        """Return what a node may have been, if that makes what was saved."""
        held = known.held
        part = self._case.model.part([position], held)
        given = {value.name: held[value.name] for value in part.graph.input if value.name in held}
        goal = known.values[name]

        def compute(variant: Variant) -> Any:
            made = self._pairs.altered(part, name, variant)
            return self._loaded(made)(given)[name]

        for variant in variants(side, index):
            if not set(variant.node.inputs) <= {"", *given, *side.weights}:
                continue
            try:
                if explains(compute(variant), goal):
                    return variant
            except Exception:  # A variant that no backend takes is none.
                continue
        node = side.nodes[index]
        for unknown in unknowns(node):
            solved = self._solved(partial(with_number, node, unknown), compute, goal)
            if solved is not None:
                return solved
        return None

    @staticmethod
    def _solved(
        made: Callable[[float], Variant], compute: Callable[[Variant], Any], goal: Any
    ) -> Variant | None:
        """Return the variant whose number, found by golden section, makes what was saved."""

        def error(number: float) -> float:
            try:
                apart = np.asarray(compute(made(number)), np.float64) - goal
            except Exception:  # As above.
                return np.inf
            return float(np.mean(np.square(apart))) if np.isfinite(apart).all() else np.inf

        variant = made(nearest_number(error, signs=(1.0,), exponents=_EXPONENTS, digits=3))
        try:
            return variant if explains(compute(variant), goal) else None
        except Exception:  # As above.
            return None

    def _rewired(
        self, name: str, position: int, side: Side, index: int, known: Trace
    ) -> Variant | None:
        """Return that a node reads another tensor than it should, if one that was saved makes what
        was saved; first of those that the model does not have.
        """
        held = known.held
        part = self._case.model.part([position], held)
        given = {value.name: held[value.name] for value in part.graph.input if value.name in held}
        compute = self._loaded(part)
        node = side.nodes[index]
        others = {**self._lost, **held}
        behind = {after for one in side.nodes[index:] for after in one.outputs}
        for operand in dict.fromkeys(given):
            alike = [
                other
                for other, array in others.items()
                if other not in (name, operand)
                and other not in behind
                and getattr(array, "shape", None) == given[operand].shape
                and array.dtype == given[operand].dtype
            ]
            for other in alike[:_CANDIDATES]:
                try:
                    made = compute({**given, operand: others[other]})[name]
                except BackendError:
                    continue
                if explains(made, known.values[name]):
                    what = f"{node.op} reads {operand!r} instead of {other!r}"
                    if other in self._lost:
                        what = f"what makes {other!r} is missing before {node.op}"
                    return Variant("structure", what, node)
        return None

    def _is_other_data(
        self,
        known: Trace,
        regions: Mapping[str, Sequence[int]],
        wrong: Mapping[str, tuple[Deviation, Any]],
        feed: Feed,
    ) -> bool:
        """Return whether everything that reads the inputs differs, and all over: what a node loses
        has another look than what other data change.
        """
        nodes = self._case.model.nodes
        readers = {i for i, node in enumerate(nodes) if set(node.reads) & feed.keys()}
        differing = {index for region in regions.values() for index in region}
        if readers - differing:
            return False
        return all(not _is_related(value, known.values[name]) for name, (_, value) in wrong.items())

    def _of_data(self, culprits: Sequence[Culprit]) -> DiagnosisResult:
        evidence = [
            "Every node computes what was saved from what was saved; only those that read the"
            " inputs do not: the results were made with other data."
        ]
        one = Culprit(
            [], culprits[0].tensor, "data", "data", evidence=evidence,
            remedy=Remedy("Give the data that the results were made with: --load-inputs."),
        )  # fmt: skip
        return DiagnosisResult(FAULT, [one])


def _counts(made: Deviation, rounding: float) -> bool:
    return made.relative > max(1e-5, rounding) or not np.isfinite(made.relative)


def _is_related(one: Any, other: Any) -> bool:
    """Return whether two arrays go together, or are the same in many places."""
    if np.shape(one) != np.shape(other) or np.size(one) < 2:
        return False
    return is_partly(one, other) or together(one, other) > _STRONGLY
