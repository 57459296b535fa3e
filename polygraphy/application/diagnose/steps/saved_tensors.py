"""Step: each node is computed from saved results, which says which nodes do not give them."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.comparisons.saved_comparison import SavedComparison
from polygraphy.application.diagnose.golden_files import LazySubset
from polygraphy.application.diagnose.outcome import Found, StepOutcome, Unexplained
from polygraphy.application.diagnose.parts import Part, cut_part
from polygraphy.application.diagnose.rounding import rounding_accumulates
from polygraphy.application.diagnose.steps.saved_outputs import find_first_nan
from polygraphy.application.diagnose.tensor_trace import Trace
from polygraphy.application.diagnose.wrong_nodes import compare_isolated_nodes, describe_first_error
from polygraphy.domain.diagnosis.closeness import correlation, is_partly_equal, mean_square_error
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
    Remedy,
    with_reasons,
)
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.pairing import Side
from polygraphy.domain.diagnosis.regions import fed_nodes, producers, region_before
from polygraphy.domain.diagnosis.solving import solve_weights
from polygraphy.domain.diagnosis.variants import (
    Variant,
    guess_cause,
    integers,
    matches_expected,
    resize_variants,
    unknowns,
    variants,
    with_number,
)
from polygraphy.domain.diagnosis.words import changes, evidence, reasons, remedies, steps, titles
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.rounding import LARGE, Deviation
from polygraphy.domain.search.numbers import nearest_number
from polygraphy.domain.tensors.precision import epsilon_of, is_float, is_float_code
from polygraphy.ports.diagnosing import Compute, SuspectedParty

_CANDIDATES = 64
"""Tensors that are tried instead of an operand."""
_STRONGLY = 0.95
_STEPS = 8
"""Epsilons that rounding does at most between two tensors that were saved."""
_INSIDE = 12
"""Of so many nodes at most each is tried as another, where what is between them is not known."""
_EXPONENTS = tuple(step / 2 for step in range(-16, 5))
"""Powers of ten that are tried for a number that is not known."""


def explain_by_tensors(case: Case, comparison: SavedComparison) -> StepOutcome:
    """Return the nodes that do not reproduce saved tensors from saved inputs; the one that creates
    NaN, if any.
    """
    broken = find_first_nan(case, comparison)
    answer = _SavedTensors(case, comparison).result()
    if broken is None:
        return answer
    culprits = answer.result.culprits if isinstance(answer, Found) else []
    return Found(DiagnosisResult(FAULT, _with_nan(broken, culprits)), case)


def _with_nan(broken: Culprit, culprits: Sequence[Culprit]) -> Sequence[Culprit]:
    """Return the culprit with the origin of NaN, and the other differences."""
    same = [one for one in culprits if not set(one.nodes).isdisjoint(broken.nodes)]
    if not any(one.remedy.proven for one in same):
        return [with_reasons(broken, culprits)]
    said = {id(one): evolve(one, facts=[*broken.facts, *one.facts]) for one in same}
    return [said.get(id(one), one) for one in culprits]


class _SavedTensors:
    """The nodes of a model, each on what was saved before it."""

    def __init__(self, case: Case, comparison: SavedComparison) -> None:
        self._case = case
        self._comparison = comparison
        self._run = comparison.run
        self._third = comparison.arbiter
        self._party: SuspectedParty = case.parties[0]
        self._lost: Values = {}
        self._changed: list[Variant] = []
        self._computed: list[str] = []
        # Codes are what the model rounds to, not what results were saved in.
        floats = [
            array.dtype
            for array in comparison.saved.values()
            if is_float(array) and not is_float_code(array)
        ]
        self._coarse = max(map(epsilon_of, floats), default=0.0)

    def result(self) -> StepOutcome:
        """Compute every node from saved values, and return where results diverge."""
        case, model, comparison = self._case, self._case.model, self._comparison
        feed, saved = comparison.feed, comparison.in_own_types()
        order = producers(model.nodes)
        values = LazySubset((name for name in saved if name in order), saved.__getitem__)
        known = Trace(values, feed, self._third)
        self._lost = LazySubset((name for name in saved if name not in order), saved.__getitem__)
        with case.attempt(titles.LAYER_BY_LAYER) as notes:
            first = describe_first_error(
                case, self._party, known, comparison.errors.get(comparison.number)
            )
            notes.append(steps.NO_DIFFERENCE if first is None else steps.first_difference(first))
        differing = self._find_wrong_tensors(known)
        if differing is None:
            return Unexplained(reasons.NO_NODES)
        regions: dict[str, list[int]] = {}
        for name in differing:  # A node with several results is one culprit.
            region = region_before(model.nodes, name, known.values.keys() | feed.keys())
            if region not in regions.values():
                regions[name] = region
        if not regions:
            feeds = comparison.feeds[: len(comparison.fitted.sets)]
            runs = {0: comparison.values, 1: comparison.fitted.sets}
            if comparison.compared.most > LARGE or not rounding_accumulates(case, feeds, runs):
                reason = reasons.follows_but_differs(self._party.name, self._run.is_traced)
                return Unexplained(reason)
            return Found(DiagnosisResult(AGREE, reason=reasons.ADDS_UP), case)
        side = model.indexed_graph
        positions = {self._first_output(side, index): index for index in range(len(side.nodes))}
        culprits = []
        for name, region in regions.items():
            index = positions.get(next(iter(model.nodes[region[-1]].makes), ""))
            culprits.append(
                self._describe_culprit(name, region, differing[name], side, index, known)
            )
        entering = [
            one for one, region in zip(culprits, regions.values())
            if any(set(model.nodes[index].reads) & feed.keys() for index in region)
        ]  # fmt: skip
        is_entry = (
            not self._run.is_traced
            and len(entering) == len(culprits)
            and not any(x.remedy.proven for x in culprits)
        )
        if is_entry and self._is_other_data(known, regions, differing, feed):
            return Found(self._blame_data(culprits), case)
        if len(self._changed) == len(culprits):
            remedy = case.undo_changes(side, self._changed)
            culprits = [evolve(one, remedy=remedy) for one in culprits]
        return Found(DiagnosisResult(FAULT, culprits), case)

    def _find_wrong_tensors(self, trace: Trace) -> dict[str, tuple[Deviation, Any]] | None:
        """Return the tensors that no backend reproduces from saved values, with deviation and
        computed value; None if no node can be run in isolation.
        """
        case = self._case
        with case.attempt(titles.NODE_BY_NODE) as notes:
            wrong: list[dict[str, tuple[Deviation, Any]]] = []
            self._computed = []
            for party in dict.fromkeys((self._third, self._party)):
                try:
                    made_alone = compare_isolated_nodes(case, case.model, party, trace)
                except BackendError as error:
                    notes.append(steps.cannot_run_nodes(party.name, error))
                    continue
                case.keep_errors(party.name, "isolated", made_alone.compared)
                self._computed.append(party.name)
                wrong.append(
                    {
                        name: (made, made_alone.values[name])
                        for name, made in made_alone.wrong
                        if _is_relevant(made, self._rounding(name))
                    }
                )
            if not wrong:
                return None
            # What only one of two makes otherwise is no fault of the model.
            differing = {
                name: made for name, made in wrong[0].items() if all(name in one for one in wrong)
            }
            notes.append(steps.wrong_tensors(len(differing), self._run.is_traced))
        return differing

    def _rounding(self, name: str) -> float:
        """Return the rounding limit of a tensor saved in a less precise type, or an output with a
        final cast.
        """
        epsilon = self._case.epsilon(name) if name in self._case.model.outputs else None
        return _STEPS * max(epsilon or 0.0, self._coarse)

    @staticmethod
    def _first_output(side: Side, index: int) -> str:
        """Return the first output of a node; empty if it has none."""
        return next(filter(None, side.nodes[index].outputs), "")

    def _describe_culprit(
        self,
        name: str,
        region: Sequence[int],
        wrong: tuple[Deviation, Any],
        side: Side,
        index: int | None,
        trace: Trace,
    ) -> Culprit:
        """Return the culprit for nodes that do not reproduce saved tensors."""
        nodes = self._case.model.nodes
        fed = fed_nodes(nodes, trace.feed)
        computing = [one for one in region if one in fed] or [
            one for one in region if nodes[one].op != "Constant"
        ]
        source = "program" if self._run.is_traced else "saved"
        facts = [evidence.wrong_from_saved(name, wrong[0], source, [*self._computed])]
        if turned := self._find_inverted_condition(name, trace):
            facts.append(evidence.other_branch(turned, source))
            remedy = Remedy(None, True, remedies.invert_condition(turned))
            return Culprit([turned], name, MODEL, "structure", facts=facts, remedy=remedy, op="If")
        cause, proven, note = "changed", False, ""
        if index is not None and len(computing) == 1:
            variant = self._find_variant(name, region, side, index, trace, wrong[1])
            variant = variant or self._find_other_input(name, region, side, index, trace)
            weight = (
                None if variant else self._solve_weight(name, region, side, index, wrong[1], trace)
            )
            if variant is not None:
                cause, change, proven = variant.cause, variant.change, True
                note = remedies.undo([change])
                self._changed.append(variant)
            elif weight is not None:
                cause, change, note = weight.cause, weight.change, remedies.PASS_REFERENCE
            else:
                cause, change = guess_cause(side, index, wrong[1], trace.values[name])
                if not self._run.is_traced:
                    note = remedies.PASS_REFERENCE
            facts.append(evidence.changed(change))
            if proven:
                facts.append(evidence.undone_gives_expected(source=source))
        elif self._run.is_traced:
            cause, said, one = self._find_changed_node(name, computing, region, side, trace)
            facts += said
            computing, proven = ([one], True) if one is not None else (computing, False)
        else:
            facts.append(evidence.cannot_tell_apart())
        return Culprit(
            [nodes[one].name for one in computing],
            name,
            MODEL,
            cause,
            facts=facts,
            remedy=Remedy(None, proven, note),
            op=nodes[computing[-1]].op if len(computing) == 1 else "",
        )

    def _find_changed_node(
        self, name: str, computing: Sequence[int], region: Sequence[int], side: Side, trace: Trace
    ) -> tuple[str, list[Fact], int | None]:
        """Return cause, facts and position of the changed node that explains the result; position
        None if unproven.
        """
        positions = {self._first_output(side, index): index for index in range(len(side.nodes))}
        for one in computing if len(computing) <= _INSIDE else ():
            target = next(iter(self._case.model.nodes[one].makes))
            index = positions.get(target)
            variant = (
                None
                if index is None
                else self._find_variant(name, region, side, index, trace, target=target)
            )
            if variant is not None:
                self._changed.append(variant)
                source = "program" if self._run.is_traced else "saved"
                proof = evidence.undone_gives_expected(len(computing), source)
                return variant.cause, [evidence.changed(variant.change), proof], one
        return "changed", [], None

    def _find_inverted_condition(self, name: str, known: Trace) -> str:
        """Return the If whose inverted condition reproduces the saved tensor; empty if there is
        none.
        """
        whole, held = self._case.whole, known.held
        index = producers(whole.nodes).get(name)
        if index is None or whole.nodes[index].op != "If":
            return ""
        condition = whole.nodes[index].reads[0]
        if condition not in held:
            return ""
        try:
            part = cut_part(whole, [index], held, [name])
            feed = {**part.feed, condition: np.logical_not(held[condition])}
            made = self._load(part)(feed)[name]
        except (PolygraphyException, KeyError):  # What the other branch reads was not saved.
            return ""
        return whole.nodes[index].name if matches_expected(made, known.values[name]) else ""

    def _load(self, part: Part) -> Compute:
        """Return a function that computes a part of the model, on a backend that supports it."""
        try:
            return part.load(self._third)
        except BackendError:
            return part.load(self._party)

    def _solve_weight(
        self,
        name: str,
        region: Sequence[int],
        side: Side,
        index: int,
        made: Any,
        known: Trace,
    ) -> Variant | None:
        """Return the variant with a weight solved so that the node reproduces the saved tensor;
        None if there is none. Other weights may do the same.
        """
        try:
            part = cut_part(self._case.model, region, known.held, [name])
        except PolygraphyException:
            return None
        goal = known.values[name]
        for variant in solve_weights(side, index, part.feed, made, goal):
            try:
                values = self._load(part.change(name, variant))(part.feed)
            except PolygraphyException:
                continue
            if matches_expected(values.get(name), goal):
                return variant
        return None

    def _find_variant(
        self,
        name: str,
        region: Sequence[int],
        side: Side,
        index: int,
        known: Trace,
        made: Any = None,
        target: str = "",
    ) -> Variant | None:
        """Return the variant of a node that reproduces the saved tensor; None if there is none.

        Args:
            name: what the nodes make.
            region: their positions.
            side: the model.
            index: the node, as it counts there.
            known: what is right.
            made: what the last node makes.
            target: what that node makes, where it is not the last.
        """
        try:
            part = cut_part(self._case.model, region, known.held, [name])
        except PolygraphyException:
            return None
        goal = known.values[name]

        def compute(variant: Variant) -> Any:
            """Return the tensor that a variant of the node computes; None if the backend rejects
            it.
            """
            try:
                return self._load(part.change(target or name, variant))(part.feed).get(name)
            except PolygraphyException:
                return None

        between = {made for one in region for made in self._case.model.nodes[one].makes}
        first = np.shape(part.feed.get(next(iter(side.nodes[index].inputs), ""), 0))
        tried = variants(side, index)
        if not self._run.is_traced:  # What an exporter wrote may follow from its example.
            sized = resize_variants(side, index, first, np.shape(made), np.shape(goal))
            tried = chain(sized, tried, integers(side, index))
        for variant in tried:
            if not set(variant.node.inputs) <= {"", *part.feed, *side.weights, *between}:
                continue
            if matches_expected(compute(variant), goal):
                return variant
        node = side.nodes[index]
        for unknown in unknowns(node) if not target else ():
            solved = self._solve_number(partial(with_number, node, unknown), compute, goal)
            if solved is not None:
                return solved
        return None

    @staticmethod
    def _solve_number(
        made: Callable[[float], Variant], compute: Callable[[Variant], Any], goal: Any
    ) -> Variant | None:
        """Return the variant whose number, found by golden-section search, reproduces the saved
        tensor; None if there is none.
        """

        def error(number: float) -> float:
            """Return the mean square error with a number in the node."""
            return mean_square_error(compute(made(number)), goal)

        variant = made(nearest_number(error, signs=(1.0,), exponents=_EXPONENTS, digits=3))
        return variant if matches_expected(compute(variant), goal) else None

    def _find_other_input(
        self, name: str, region: Sequence[int], side: Side, index: int, known: Trace
    ) -> Variant | None:
        """Return the variant that reads another saved tensor and reproduces the result, unused
        tensors first; None if there is none.
        """
        held = known.held
        try:
            part = cut_part(self._case.model, region, held, [name])
            compute = self._load(part)
        except PolygraphyException:
            return None
        given = part.feed
        node = side.nodes[index]
        others = ChainMap(held, self._lost)  # type: ignore[arg-type]
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
                if matches_expected(made, known.values[name]):
                    change = changes.other_input(node.op, operand, other)
                    if other in self._lost:
                        change = changes.lost_node_between(node.op, other)
                    return Variant("structure", change, node)
        return None

    def _is_other_data(
        self,
        known: Trace,
        regions: Mapping[str, Sequence[int]],
        wrong: Mapping[str, tuple[Deviation, Any]],
        feed: Feed,
    ) -> bool:
        """Return whether all nodes that read inputs differ everywhere: other data, not a node's
        error.
        """
        nodes = self._case.model.nodes
        readers = {i for i, node in enumerate(nodes) if set(node.reads) & feed.keys()}
        differing = {index for region in regions.values() for index in region}
        if readers - differing:
            return False
        return all(not _is_related(value, known.values[name]) for name, (_, value) in wrong.items())

    def _blame_data(self, culprits: Sequence[Culprit]) -> DiagnosisResult:
        """Return the verdict that only nodes that read the inputs disagree."""
        reason = reasons.other_data([name for one in culprits[:4] for name in one.nodes[-1:]])
        return DiagnosisResult(INCONCLUSIVE, culprits, reason=reason)


def _is_relevant(made: Deviation, rounding: float) -> bool:
    """Return whether a deviation exceeds rounding."""
    return made.relative > max(1e-5, rounding) or not np.isfinite(made.relative)


def _is_related(array: Any, reference: Any) -> bool:
    """Return whether two arrays are correlated or equal in many elements."""
    if np.shape(array) != np.shape(reference) or np.size(array) < 2:
        return False
    return is_partly_equal(array, reference) or correlation(array, reference) > _STRONGLY
