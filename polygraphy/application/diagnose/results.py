"""Finds out why a model does not give the results that were saved once."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.locating import (
    first_non_finite,
    first_wrong,
    nodes_alone,
    off_from_inputs,
)
from polygraphy.application.diagnose.lowered.half_verdict import diagnose_saved_outputs, half_model
from polygraphy.application.diagnose.oracle import Compared, Oracle, Request
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome, Unexplained
from polygraphy.application.diagnose.outputs_alone import of_outputs, with_change
from polygraphy.application.diagnose.rounding import adds_up, explained
from polygraphy.application.diagnose.saved import (
    Fitted,
    Lent,
    SavedRun,
    fitting,
    in_types_of,
    saved_results,
)
from polygraphy.application.diagnose.tracing import Trace, trace
from polygraphy.domain.diagnosis.closeness import correlation, introduces_nan, is_partly_equal
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
    Remedy,
    TensorError,
    with_reasons,
)
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.pairing import Side
from polygraphy.domain.diagnosis.regions import fed_nodes, producers, region_before
from polygraphy.domain.diagnosis.variants import (
    Variant,
    explains,
    guess,
    unknowns,
    variants,
    with_number,
)
from polygraphy.domain.diagnosis.words import changes, evidence, reasons, remedies, steps
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.rounding import ADDS_UP, LARGE, ROUNDED, Deviation
from polygraphy.domain.search.numbers import nearest_number
from polygraphy.domain.tensors.naming import counted, sets_of_data
from polygraphy.domain.tensors.precision import epsilon_of, is_float
from polygraphy.ports.diagnosing import Compute, SuspectedParty, altered, graph_with_weights

_CANDIDATES = 64
"""Tensors that are tried instead of an operand."""
_STRONGLY = 0.95
_STEPS = 8
"""Epsilons that rounding does at most between two tensors that were saved."""
_INSIDE = 12
"""Of so many nodes at most each is tried as another, where what is between them is not known."""
_EXPONENTS = tuple(step / 2 for step in range(-16, 5))
"""Powers of ten that are tried for a number that is not known."""


def against_golden(case: Case, request: Request) -> StepOutcome:
    """Find out why a model does not give saved results, if such are given.

    Raises:
        FileError: a file is missing or damaged.
        UsageError: the results are of other tensors than the model has.
    """
    if request.golden is None:
        return Skip("no saved results are given")
    runs = saved_results(request.golden, len(request.feeds), case.budget)
    return against_results(case, runs, request.feeds, request.arbiter)


def against_results(
    case: Case, runs: Sequence[SavedRun], feeds: Sequence[Feed], third: SuspectedParty
) -> StepOutcome:
    """Find out why a model does not give saved results.

    Returns:
        What was found; a skip where the model gives them and several backends are compared.

    Raises:
        UsageError: the results are of other tensors than the model has.
    """
    party = case.parties[0]
    kind = runs[0].kind if runs else "saved results"
    with case.attempt(kind) as notes:
        try:
            compute = case.loaded(party)
            values: list[Values] = [compute(feed) for feed in feeds]
        except BackendError:
            return Unexplained(reasons.not_comparable(party.name, kind))
        made = [_Comparison(case, run, feeds, values, third) for run in runs]
        for one in made:
            notes.extend(one.notes(several=len(made) > 1))
    agreed = ""
    for one in made:
        if one.compared:
            answer = one.result()
            if not isinstance(answer, Found) or answer.result.verdict != AGREE:
                return answer
            agreed = answer.result.reason
    doubts = [one.fitted.doubt() for one in made if not one.fitted.is_proof]
    if doubts:
        return Found(DiagnosisResult(INCONCLUSIVE, reason=doubts[0]), case)
    reason = next(filter(None, (one.fitted.doubt() for one in made)), agreed)
    if len(case.parties) > 1:
        return Skip("the model gives the saved results")
    return Found(DiagnosisResult(AGREE, reason=reason), case)


def _with_nan(broken: Culprit, culprits: Sequence[Culprit]) -> Sequence[Culprit]:
    """Return why a node makes NaN: what is known of it, or else where they are born, with what else
    differs.
    """
    same = [one for one in culprits if not set(one.nodes).isdisjoint(broken.nodes)]
    if not any(one.remedy.proven for one in same):
        return [with_reasons(broken, culprits)]
    said = {id(one): evolve(one, facts=[*broken.facts, *one.facts]) for one in same}
    return [said.get(id(one), one) for one in culprits]


class _Comparison:
    """A model, what it was fed with, and what it should have made of it.

    Attributes:
        fitted: the results by the names of the model.
        compared: which tensors are others.
    """

    def __init__(
        self,
        case: Case,
        run: SavedRun,
        feeds: Sequence[Feed],
        values: Sequence[Values],
        third: SuspectedParty,
    ) -> None:
        self._case = case
        self._run = run
        self._feeds = feeds
        self._values = values
        self._third = third
        self._party: SuspectedParty = case.parties[0]
        self._lost: Values = {}
        self._changed: list[Variant] = []
        self._coarse = 0.0
        self._dtypes: dict[str, Any] = {}
        self._errors: dict[int, Mapping[str, TensorError]] = {}
        self._computed: list[str] = []
        self.fitted = fitting(case.model, run.sets, values)
        self._saved = self.fitted.sets
        right = Oracle(f"{run.kind}, {run.name}", self._saved, [*self._left_out()])
        of_outputs = right.beside(case, values)
        inner = [self._inner(number) for number in range(len(self._saved))]
        self.compared = Compared([{**one, **more} for one, more in zip(of_outputs.sets, inner)])
        case.evidence.compared(right.name, right.left_out)

    def notes(self, several: bool) -> Iterator[str]:
        """Yield what was compared, and how many tensors differ."""
        if several:
            yield f"{self._run.name}:"
        yield from self.fitted.notes(len(self.compared.names))

    def _left_out(self) -> Iterator[str]:
        """Yield what was asked for and not compared, in words."""
        sets, data = len(self._saved), len(self._feeds)
        if sets < data:
            yield reasons.fewer_results(self._run.name, str(sets), sets_of_data(data))
        if self._run.more:
            all_sets = sets + self._run.more
            results = counted(all_sets, "result")
            yield reasons.more_results(self._run.name, results, sets_of_data(data))
        yield from (f"{said} in {self._run.name}" for said in self.fitted.missing)

    def _inner(self, number: int) -> dict[str, Deviation]:
        """Return which tensors before the outputs differ by more than rounding; how far off all
        are, in the types in which they are computed, is kept.
        """
        case, saved = self._case, self._saved[number]
        inner = self.fitted.inner & saved.keys()
        if not inner:
            return {}
        own = trace(case, self._party, self._feeds[number]).values
        self._dtypes.update((name, own[name].dtype) for name in own if name in inner)
        right = self._in_own_types(number)
        self._errors[number], wrong = off_from_inputs(case, own, right)
        # It may be right in the type in which it was saved.
        _, wrong = off_from_inputs(case, own, Lent(inner & wrong.keys(), saved.__getitem__))
        return wrong

    def _in_own_types(self, number: int) -> Values:
        """Return what was saved in the types in which the party computes it."""
        made = self._values[number]
        outputs = {name: value.dtype for name, value in made.items() if is_float(value)}
        return in_types_of({**outputs, **self._dtypes}, self._saved[number])

    def result(self) -> StepOutcome:
        """Find out why results differ."""
        case, number = self._case, self.compared.number
        feed, saved, values = self._feeds[number], self._saved[number], self._values[number]
        case = self._case = evolve(case, feed=feed)
        if not self.fitted.inner and self._is_rounding():
            return Found(DiagnosisResult(AGREE, reason=ROUNDED), case)
        broken = None
        if introduces_nan(values, saved) and not self._run.is_traced:
            broken = first_non_finite(case, trace(case, self._third, feed))
        if not self.fitted.inner and not self._run.is_traced:
            if broken is not None:
                run = (feed, saved, values)
                culprit = with_change(case, run, broken, self._third)
                return Found(DiagnosisResult(FAULT, [culprit]), case)
            return self._of_outputs(number, values, self.compared.found, self.fitted)
        floats = [array.dtype for array in saved.values() if is_float(array)]
        self._coarse = max(map(epsilon_of, floats), default=0.0)
        made = self._of_tensors(number, self._in_own_types(number))
        if broken is not None:
            known = made.result.culprits if isinstance(made, Found) else []
            return Found(DiagnosisResult(FAULT, _with_nan(broken, known)), case)
        if isinstance(made, Unexplained):
            if self._is_rounding():
                return Found(DiagnosisResult(AGREE, reason=ROUNDED), case)
            lost = self._of_half_model(number, values)
            return lost if isinstance(lost, Found) else made
        return made

    def _is_rounding(self) -> bool:
        """Return whether rounding explains all outputs that differ."""
        return explained(self._case, self._feeds, self._values, self._saved)

    def _of_outputs(
        self, number: int, values: Values, found: Mapping[str, Deviation], fitted: Fitted
    ) -> StepOutcome:
        """Find out why outputs differ, where nothing before them was saved."""
        if isinstance(lost := self._of_half_model(number, values), Found):
            return lost
        run = (self._feeds[number], self._saved[number], values)
        made = of_outputs(self._case, run, found, self._third)
        if fitted.lost and isinstance(made, Found) and made.result.verdict == INCONCLUSIVE:
            return evolve(made, result=evolve(made.result, reason=fitted.doubt(differs=True)))
        return made

    def _of_half_model(self, number: int, values: Values) -> StepOutcome:
        """Return what half precision does to a model that computes in it, if that explains it."""
        half = half_model(self._case, [self._feeds[number]])
        if half is None or not half.is_whole:
            return Skip("the model does not compute in half precision")
        made = diagnose_saved_outputs(self._case, half, self._saved[number], values, self._third)
        if made is None:
            return Skip("half precision does not explain the outputs")
        return Found(made, self._case)

    def _of_tensors(self, number: int, saved: Values) -> StepOutcome:
        """Compute every node from what was saved, which says where they part."""
        case, model, feed = self._case, self._case.model, self._feeds[number]
        order = producers(model.nodes)
        values = Lent((name for name in saved if name in order), saved.__getitem__)
        known = Trace(values, feed, self._third)
        self._lost = Lent((name for name in saved if name not in order), saved.__getitem__)
        with case.attempt("layer by layer") as notes:
            first = first_wrong(case, self._party, known, self._errors.get(number))
            notes.append(steps.NO_DIFFERENCE if first is None else steps.first_difference(first))
        differing = self._wrong_alone(known)
        if differing is None:
            return Unexplained(reasons.NO_NODES)
        regions: dict[str, list[int]] = {}
        for name in differing:  # A node with several results is one culprit.
            region = region_before(model.nodes, name, known.values.keys() | feed.keys())
            if region not in regions.values():
                regions[name] = region
        if not regions:
            feeds = self._feeds[: len(self._saved)]
            runs = {0: self._values, 1: self._saved}
            if self.compared.most > LARGE or not adds_up(case, feeds, runs):
                reason = reasons.follows_but_differs(self._party.name, self._run.is_traced)
                return Unexplained(reason)
            return Found(DiagnosisResult(AGREE, reason=ADDS_UP), case)
        side = Side(graph_with_weights(model.proto))
        positions = {self._first(side, index): index for index in range(len(side.nodes))}
        culprits = []
        for name, region in regions.items():
            index = positions.get(next(iter(model.nodes[region[-1]].makes), ""))
            culprits.append(self._named(name, region, differing[name], side, index, known))
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
            return Found(self._of_data(culprits), case)
        if len(self._changed) == len(culprits):
            remedy = case.undoing(side, self._changed)
            culprits = [evolve(one, remedy=remedy) for one in culprits]
        return Found(DiagnosisResult(FAULT, culprits), case)

    def _wrong_alone(self, known: Trace) -> dict[str, tuple[Deviation, Any]] | None:
        """Return the tensors that no party makes of what was saved, with what it makes; None where
        nobody can compute the nodes alone.
        """
        case = self._case
        with case.attempt("node by node") as notes:
            wrong: list[dict[str, tuple[Deviation, Any]]] = []
            self._computed = []
            for party in dict.fromkeys((self._third, self._party)):
                try:
                    made_alone = nodes_alone(case, case.model, party, known)
                except BackendError as error:
                    notes.append(steps.cannot_run_nodes(party.name, error))
                    continue
                case.measured(party.name, "isolated", made_alone.compared)
                self._computed.append(party.name)
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
            notes.append(steps.wrong_tensors(len(differing), self._run.is_traced))
        return differing

    def _rounding(self, name: str) -> float:
        """Return what rounding explains of a tensor that was saved in a coarser type, or of an
        output that is cast to another type at the end.
        """
        epsilon = self._case.epsilon(name) if name in self._case.model.outputs else None
        return _STEPS * max(epsilon or 0.0, self._coarse)

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
        fed = fed_nodes(nodes, known.feed)
        computing = [one for one in region if one in fed] or [
            one for one in region if nodes[one].op != "Constant"
        ]
        source = "program" if self._run.is_traced else "saved"
        facts = [evidence.wrong_from_saved(name, wrong[0], source, [*self._computed])]
        if turned := self._turned(name, known):
            facts.append(evidence.other_branch(turned, source))
            remedy = Remedy(None, True, remedies.invert_condition(turned))
            return Culprit([turned], name, MODEL, "structure", facts=facts, remedy=remedy, op="If")
        cause, proven, note = "changed", False, ""
        if index is not None and len(computing) == 1:
            variant = self._variant(name, region, side, index, known)
            variant = variant or self._rewired(name, region, side, index, known)
            if variant is not None:
                cause, change, proven = variant.cause, variant.change, True
                note = remedies.undo([change])
                self._changed.append(variant)
            else:
                cause, change = guess(side, index, wrong[1], known.values[name])
                if not self._run.is_traced:
                    note = remedies.PASS_REFERENCE
            facts.append(evidence.changed(change))
            if proven:
                facts.append(evidence.undone_gives_expected(source=source))
        elif self._run.is_traced:
            cause, said, one = self._inside(name, computing, region, side, known)
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

    def _inside(
        self, name: str, computing: Sequence[int], region: Sequence[int], side: Side, known: Trace
    ) -> tuple[str, list[Fact], int | None]:
        """Return which of some nodes explains what they make, if it is another: the cause, what
        shows it, and which it is, where that is proven.
        """
        positions = {self._first(side, index): index for index in range(len(side.nodes))}
        for one in computing if len(computing) <= _INSIDE else ():
            target = next(iter(self._case.model.nodes[one].makes))
            index = positions.get(target)
            variant = (
                None if index is None else self._variant(name, region, side, index, known, target)
            )
            if variant is not None:
                self._changed.append(variant)
                source = "program" if self._run.is_traced else "saved"
                proof = evidence.undone_gives_expected(len(computing), source)
                return variant.cause, [evidence.changed(variant.change), proof], one
        return "changed", [], None

    def _turned(self, name: str, known: Trace) -> str:
        """Return the If that makes a tensor as it was saved where its condition is the other; empty
        where there is none.
        """
        whole, held = self._case.whole, known.held
        index = producers(whole.nodes).get(name)
        if index is None or whole.nodes[index].op != "If":
            return ""
        condition = whole.nodes[index].reads[0]
        if condition not in held:
            return ""
        try:
            part = whole.part([index], held, [name])
            given = {one.name: held[one.name] for one in part.graph.input if one.name in held}
            given[condition] = np.logical_not(given[condition])
            made = self._loaded(part)(given)[name]
        except (PolygraphyException, KeyError):  # What the other branch reads was not saved.
            return ""
        return whole.nodes[index].name if explains(made, known.values[name]) else ""

    def _loaded(self, part: Any) -> Compute:
        """Return what computes a part of the model, by a party that has its operators."""
        try:
            return self._third.load(part)
        except BackendError:
            return self._party.load(part)

    def _variant(
        self,
        name: str,
        region: Sequence[int],
        side: Side,
        index: int,
        known: Trace,
        target: str = "",
    ) -> Variant | None:
        """Return what a node may have been, if that makes what was saved.

        Args:
            name: what the nodes make.
            region: their positions.
            side: the model.
            index: the node, as it counts there.
            known: what is right.
            target: what that node makes, where it is not the last.
        """
        held = known.held
        part = self._case.model.part(region, held, [name])
        given = {value.name: held[value.name] for value in part.graph.input if value.name in held}
        goal = known.values[name]

        def compute(variant: Variant) -> Any:
            made = altered(part, target or name, variant)
            return self._loaded(made)(given)[name]

        between = {made for one in region for made in self._case.model.nodes[one].makes}
        for variant in variants(side, index):
            if not set(variant.node.inputs) <= {"", *given, *side.weights, *between}:
                continue
            try:
                if explains(compute(variant), goal):
                    return variant
            except Exception:  # A variant that no backend takes is none.
                continue
        node = side.nodes[index]
        for unknown in unknowns(node) if not target else ():
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
        self, name: str, region: Sequence[int], side: Side, index: int, known: Trace
    ) -> Variant | None:
        """Return that a node reads another tensor than it should, if one that was saved makes what
        was saved; first of those that the model does not have.
        """
        held = known.held
        part = self._case.model.part(region, held, [name])
        given = {value.name: held[value.name] for value in part.graph.input if value.name in held}
        try:
            compute = self._loaded(part)
        except BackendError:
            return None
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
                if explains(made, known.values[name]):
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
        reason = reasons.other_data([name for one in culprits[:4] for name in one.nodes[-1:]])
        return DiagnosisResult(INCONCLUSIVE, culprits, reason=reason)


def _counts(made: Deviation, rounding: float) -> bool:
    return made.relative > max(1e-5, rounding) or not np.isfinite(made.relative)


def _is_related(one: Any, other: Any) -> bool:
    """Return whether two arrays go together, or are the same in many places."""
    if np.shape(one) != np.shape(other) or np.size(one) < 2:
        return False
    return is_partly_equal(one, other) or correlation(one, other) > _STRONGLY
