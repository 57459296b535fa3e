"""Finds out why a model does not give outputs that were saved without the tensors before them.

What was changed is guessed and tried on the whole model: a node as it may have been, a weight by a
factor. One that gives all outputs is proven by them; where several do, the verdict is inconclusive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.branches import other_branches
from polygraphy.application.diagnose.case import Case, Feed, Values, rounding_noise
from polygraphy.application.diagnose.changes.change_search import ChangeSearch, output_name
from polygraphy.application.diagnose.changes.changed_models import load_changed_models
from polygraphy.application.diagnose.changes.scaled_numbers import ScaledNumbers
from polygraphy.application.diagnose.outcome import Found, StepOutcome, Unexplained
from polygraphy.application.diagnose.parts import Submodel, tensor_bytes
from polygraphy.domain.data.loading import describe_model
from polygraphy.domain.data.synthesis import DataLoader
from polygraphy.domain.data.usual_scaling import usual_scalings
from polygraphy.domain.diagnosis.closeness import correlation, is_partly_equal
from polygraphy.domain.diagnosis.culprit import (
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
    Remedy,
)
from polygraphy.domain.diagnosis.facts import Fact, Statement, join_statements
from polygraphy.domain.diagnosis.quantizing import find_other_selection
from polygraphy.domain.diagnosis.solving.gates import gate_variants
from polygraphy.domain.diagnosis.solving.padding import masking_variants, padding_variants
from polygraphy.domain.diagnosis.solving.relations import find_relation
from polygraphy.domain.diagnosis.variants import Variant, variants
from polygraphy.domain.diagnosis.words import (
    errors,
    evidence,
    reasons,
    remedies,
    saved_reasons,
    steps,
    titles,
)
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.model.regions import region_before
from polygraphy.domain.rounding import LARGE, Deviation
from polygraphy.domain.search.run_budget import RunBudget
from polygraphy.domain.tensors.precision import is_float
from polygraphy.logger import G_LOGGER
from polygraphy.ports.diagnosing import Compute, SuspectedParty

_RELATED = 0.3
"""Least correlation between saved and computed outputs of one model on the same data, even with a
changed weight. Chosen, not measured."""
_TELLING = 64
"""With fewer elements, a correlation of `_RELATED` can be chance: its standard error is 1/8 for 64
elements."""
_SELECTING = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""Operators whose number of results depends on values."""
_SHUFFLES = 9
"""Runs on shuffled inputs; saved outputs must correlate more with the original inputs than with
any of these."""
_ENOUGH = 8
"""The factor of one weight does not match this number of elements by chance. Chosen, not measured.
"""


def explain_outputs(
    case: Case,
    run: tuple[Feed, Values, Values],
    deviations: Mapping[str, Deviation],
    third: SuspectedParty,
    sets: tuple[int, Sequence[tuple[Feed, Values]]] = (0, ()),
) -> StepOutcome:
    """Return the outcome of explaining different outputs by the data or by one change.

    Args:
        case: the model; its first party computed the outputs.
        run: the data, what was saved, and what the party makes of them.
        deviations: the differences of the outputs.
        third: the backend that computes the expected results.
        sets: the number of this input set; the other ones, with what was saved for them.
    """
    return _Guesses(case, run, deviations, third, sets).result()


def add_change(
    case: Case, run: tuple[Feed, Values, Values], culprit: Culprit, third: SuspectedParty
) -> Culprit:
    """Return a culprit with the change to its nodes that reproduces the saved outputs,
    if there is one.
    """
    changed = next(_Guesses(case, run, {}, third).try_changed_nodes([], culprit.nodes), None)
    if changed is None:
        return culprit
    facts = [*culprit.facts, *changed.facts]
    return evolve(culprit, cause=changed.cause, facts=facts, remedy=changed.remedy)


class _Guesses:
    """Tries changes of a model that explain its saved outputs."""

    def __init__(
        self,
        case: Case,
        run: tuple[Feed, Values, Values],
        deviations: Mapping[str, Deviation],
        third: SuspectedParty,
        sets: tuple[int, Sequence[tuple[Feed, Values]]] = (0, ()),
    ) -> None:
        """Set the model, its data, the saved outputs, the arbiter, and the other input sets."""
        self._case = case
        self._number, self._others = sets
        self._feed, self._saved, self._values = run
        self._found = deviations
        self._third = third
        self._party: SuspectedParty = case.parties[0]
        self._left_out: list[str] = []
        self._side = case.model.graph

    @cached_property
    def _trial_party(self) -> SuspectedParty:
        """Return the backend that tries changes: the party's, or the faster CPU version if its
        outputs are equal."""
        twin: SuspectedParty | None = getattr(self._party, "on_host", lambda: None)()
        try:
            if twin is not None:
                values = twin.load(self._case.model.proto)(self._feed)
                return self._party if self._case.find_deviations(values, self._values) else twin
        except BackendError as error:
            G_LOGGER.verbose(errors.not_on_cpu(self._party.name, error))
        return self._party

    def result(self) -> StepOutcome:
        """Return the outcome: whether the data, one changed node or one changed weight explains the
        outputs.
        """
        case, saved = self._case, self._saved
        with case.record_step(titles.THIRD_OPINION) as notes:
            try:
                values: Values = self._third.load(case.model.proto)(self._feed)
            except BackendError as error:
                notes.append(str(error))
                values = self._values
            if not case.find_deviations(values, saved):
                notes.append(steps.matches_saved(self._third.name, True))
                backends = self._third.name, self._party.name
                return Unexplained(saved_reasons.party_differs_from_saved(*backends))
            notes.append(steps.matches_saved(self._third.name, False))
        if self._are_usual_data():
            return Found(self._blame_data(evidence.usual_data_match()), case)
        if formula := self._scaling_of_data():
            return Found(self._blame_data(evidence.scaled_data_match(formula)), case)
        changed: list[Culprit] = []
        with case.record_step(titles.CHANGED_NODES) as notes:
            changed += self.try_changed_nodes(notes)
        with case.record_step(titles.CHANGED_WEIGHTS) as notes:
            changed += self._find_factors(notes)
        changed = [culprit for culprit in changed if culprit.remedy.proven] or changed
        changed = [*{culprit.nodes[0]: culprit for culprit in reversed(changed)}.values()][::-1]
        # A change in the branch that was taken may do the same as the other branch.
        branches = self._find_other_branches()
        if len(changed) == 1 and not branches and not self._left_out:
            return Found(DiagnosisResult(FAULT, changed), case)
        if changed := [*changed, *branches]:
            names = [culprit.nodes[0] for culprit in changed[:4]]
            reason = saved_reasons.candidates(names, len(changed), self._left_out)
            candidates = [evolve(culprit, remedy=Remedy()) for culprit in changed]
            return Found(DiagnosisResult(INCONCLUSIVE, candidates, reason=reason), case)
        mismatched = next(filter(self._is_mismatched, self._found), None)
        why: str = (
            saved_reasons.model_or_data_changed(self._are_from_data(), self._only_node())
            if self._comparable_outputs() or mismatched is None
            else self._describe_mismatch(mismatched)
        )
        if related := self._describe_relations():
            why = join_statements(related, saved_reasons.node_unknown(self._only_node()))
        if unread := self._unread_inputs():
            why = join_statements(saved_reasons.unread_inputs(unread), why)
        return Found(DiagnosisResult(INCONCLUSIVE, reason=why), case)

    def _unread_inputs(self) -> list[str]:
        """Return the inputs that no node reads, such as lengths that an exporter lost."""
        graph = self._case.model.graph
        used = {*graph.consumers, *self._case.model.outputs}
        return [name for name in self._case.model.inputs if name not in used]

    def _only_node(self) -> str:
        """Return the node of a model with a single operation; else ""."""
        operations = [*self._side.operations.values()]
        return operations[0].label if len(operations) == 1 else ""

    def _describe_relations(self) -> str:
        """Return sentences on how the saved outputs follow from the computed ones;
        empty unless there is one for each output that differs."""
        values, saved = self._values, self._saved
        related = [find_relation(name, values[name], saved[name]) for name in self._found]
        known = [fact for fact in related if fact is not None]
        if len(known) < len(related):
            return ""
        return Statement(" ".join(map(str, known)), known)

    def _comparable_outputs(self) -> list[str]:
        """Return the outputs whose shapes match the saved ones."""
        return [
            name
            for name in self._found
            if np.shape(self._saved[name]) == np.shape(self._values[name])
            and np.asarray(self._saved[name]).dtype.kind not in "OSU"
        ]

    def _is_mismatched(self, name: str) -> bool:
        """Return whether an output has a different shape or kind of data than was saved."""
        arrays = [np.asarray(values[name]) for values in (self._values, self._saved)]
        return len({(array.shape, array.dtype.kind) for array in arrays}) > 1

    def _describe_mismatch(self, name: str) -> str:
        """Return a sentence about an output with a different shape or data type, with advice."""
        arrays = [np.asarray(values[name]) for values in (self._values, self._saved)]
        computed, saved = (f"{array.dtype.name}{list(array.shape)}" for array in arrays)
        if arrays[0].size == arrays[1].size:
            reshaped = {name: arrays[0].reshape(arrays[1].shape)}
            if not self._case.find_deviations(reshaped, self._saved):
                return saved_reasons.different_shape(name, computed, saved)
        if selection := find_other_selection({name: arrays[0]}, {name: arrays[1]}):
            graph = self._case.model.graph
            before = [graph.nodes[index] for index in region_before(graph, name, ())]
            if nodes := [node.label for node in before if node.op in _SELECTING]:
                return reasons.saved_selection_differs(*selection, nodes)
        return saved_reasons.other_shape(name, computed, saved)

    def _blame_data(self, fact: Fact) -> DiagnosisResult:
        """Return the verdict that different data explain the outputs."""
        culprit = Culprit([], next(iter(self._found)), "data", "data", facts=[fact])
        return DiagnosisResult(FAULT, [culprit])

    def _are_from_data(self) -> bool:
        """Return whether saved outputs correlate more with the data than with shuffled data;
        True if they are too small to decide."""
        saved, values = self._saved, self._values
        names = self._comparable_outputs()
        if sum(np.size(saved[name]) for name in names) < _TELLING:
            return True
        if any(is_partly_equal(values[name], saved[name]) for name in names):
            return True
        rng = np.random.default_rng(0)
        compute = self._case.load(self._party)
        other_feeds = []
        try:
            for _ in range(_SHUFFLES):
                mixed = {name: _shuffle(array, rng) for name, array in self._feed.items()}
                other_feeds.append(compute(mixed))
        except BackendError:
            return True
        for name in names:
            middle = np.mean(
                [np.asarray(values[name], np.float64) for values in other_feeds], axis=0
            )
            expected = _remove_multiple(saved[name], middle)
            own_correlation = correlation(_remove_multiple(values[name], middle), expected)
            strange = (
                correlation(_remove_multiple(values[name], middle), expected)
                for values in other_feeds
            )
            if own_correlation > _RELATED and own_correlation > max(strange):
                return True
        return False

    def _are_usual_data(self) -> bool:
        """Return whether the saved outputs belong to the default generated data."""
        loader = DataLoader()
        try:
            describe_model(loader, self._case.model.inputs, self._case.model.facts)
            feed = dict(next(iter(loader)))
            return not self._case.find_deviations(self._case.load(self._party)(feed), self._saved)
        except PolygraphyException:
            return False

    def _scaling_of_data(self) -> str:
        """Return the usual scaling of an image input with which all outputs match; else ""."""
        try:
            compute = self._case.load(self._party)
            for formula, feed in usual_scalings(self._feed):
                if not self._case.find_deviations(compute(feed), self._saved):
                    return formula
        except BackendError:
            pass
        return ""

    def _is_float(self, name: str) -> bool:
        """Return whether a saved output has floating-point elements."""
        return is_float(self._saved[name])

    def try_changed_nodes(
        self, notes: list[str], names: Collection[str] | None = None
    ) -> Iterator[Culprit]:
        """Yield culprits for changed nodes that explain the outputs, tried on the whole model.

        All nodes are tried, or those with `names`. A note states the first change of each node.
        """
        graph, search = self._side, self._search()
        budget = search.budget
        chosen = [
            index
            for index, node in graph.operations.items()
            if names is None or node.label in names
        ]
        begun: list[int] = []

        def candidates() -> Iterator[Variant]:
            """Yield the variants of the nodes, and record the nodes reached so far."""
            for index in chosen:
                begun.append(index)
                yield from padding_variants(graph, index)
                yield from masking_variants(graph, index)
                yield from variants(graph, index)
                yield from gate_variants(graph, index)

        noted: set[str] = set()
        for variant in search.select_matching(candidates()):
            if output_name(variant) not in noted:
                noted.add(output_name(variant))
                notes.append(str(evidence.change_of_node(variant.change)))
            yield self._culprit(graph.operation_producers[output_name(variant)], variant)
        left_out = ""
        if budget.is_cut_short:
            first = graph.nodes[begun[-1]].label
            left_out = steps.nodes_left_out(len(chosen) - len(begun) + 1, first)
            self._left_out.append(reasons.SOME_NODES)
        notes.append(steps.variants_tried(budget.taken, "variant", left_out))

    def _search(self) -> ChangeSearch:
        """Return the search for one change of the whole model."""
        part = Submodel(self._case.model.proto, self._feed)
        return ChangeSearch(
            self._side, part, self._saved, (self._trial_party,), self._budget(),
            explains=self._explains_saved, prover=self._party,
            trial_limits=self._case.trial_limits(tensor_bytes(self._case.model, self._feed)),
        )  # fmt: skip

    def _budget(self) -> RunBudget:
        """Return the budget of changed models to load and run."""
        weights = sum(weight.nbytes for weight in self._side.constants.values())
        nbytes = tensor_bytes(self._case.model, self._feed) + weights
        return RunBudget.for_model(nbytes, len(self._side.operations))

    def _explains_saved(self, values: Values, compute: Compute) -> bool:
        """Return whether outputs match the saved ones within rounding."""
        differing = self._case.find_deviations(values, self._saved)
        if any(deviation.relative > LARGE for deviation in differing.values()):
            return False
        noise = rounding_noise(compute, self._feed, values)
        return not self._case.find_deviations(values, self._saved, noise)

    def _fits_others(self, variant: Variant) -> bool:
        """Return whether the changed model computes what was saved for all other input sets."""
        sets = load_changed_models(self._case, [variant], self._party, self._others)
        try:
            for compute, feed, saved in sets:
                values = compute(feed)
                noise = rounding_noise(compute, feed, values)
                if self._case.find_deviations(values, saved, noise):
                    return False
        except PolygraphyException:
            return False
        return True

    def _culprit(self, index: int, variant: Variant) -> Culprit:
        """Return the culprit for a variant that explains the outputs."""
        node = self._side.nodes[index]
        if self._fits_others(variant):
            proof = evidence.undone_matches_outputs()
            remedy = self._case.undo_changes(self._side, [variant])
        else:
            proof = evidence.undone_matches_one_set(self._number)
            remedy = Remedy(None, False, remedies.LOOK_FOR_ANOTHER)
        return Culprit(
            [node.label], next(filter(None, node.outputs)), MODEL, variant.cause,
            facts=[evidence.change_of_node(variant.change), proof], remedy=remedy, op=node.op,
        )  # fmt: skip

    def _find_factors(self, notes: list[str]) -> Iterator[Culprit]:
        """Yield culprits for scaled numbers: for each, a factor is searched that gives the saved
        outputs.
        """
        names = [name for name in self._comparable_outputs() if self._is_float(name)]
        if sum(np.size(self._saved[name]) for name in names) < _ENOUGH:
            notes.append(steps.TOO_FEW_NUMBERS)
            return
        search = self._search()
        scaled = ScaledNumbers(search, names, self._values, self._deviations)
        for variant in scaled.find_matches():
            notes.append(str(evidence.change_of_node(variant.change)))
            yield self._culprit(self._side.operation_producers[output_name(variant)], variant)
        left_out = ""
        if search.budget.is_cut_short:
            left_out = steps.weights_left_out(scaled.count_numbers() - scaled.tried)
            self._left_out.append(reasons.SOME_WEIGHTS)
        notes.append(steps.variants_tried(scaled.tried, "weight", left_out))

    def _find_other_branches(self) -> list[Culprit]:
        """Return the If nodes whose other branch gives the saved outputs, and the nodes that
        compute their conditions."""
        found: dict[str, Culprit] = {}
        graph = self._case.whole.graph
        for node, model in other_branches(self._case, self._feed):
            try:
                compute = self._party.load(model.proto)
                if not self._explains_saved(compute(self._feed), compute):
                    continue
            except PolygraphyException:  # The branch does not fit what follows.
                continue
            maker = graph.operation_producers.get(node.reads[0])
            fact = evidence.other_branch(node.label, "saved")
            for one in (node, *([] if maker is None else [graph.nodes[maker]])):
                tensor = next(filter(None, one.makes))
                found[one.label] = Culprit([one.label], tensor, MODEL, "structure", facts=[fact],
                                           op=one.op)  # fmt: skip
        return [*found.values()]

    def _deviations(self, values: Values) -> Mapping[str, Deviation]:
        """Return how outputs differ from the saved ones."""
        return self._case.find_deviations(values, self._saved)


def _remove_multiple(array: Any, middle: Any) -> Any:
    """Return the part of an array orthogonal to another array, because a changed weight may scale
    the outputs' common part.
    """
    held_array = np.asarray(array, np.float64)
    held_array, common = held_array - held_array.mean(), middle - middle.mean()
    size = float(np.vdot(common, common))
    return held_array - common * (float(np.vdot(common, held_array)) / size) if size else held_array


def _shuffle(array: Any, rng: np.random.Generator) -> Any:
    """Return an array with its elements in random order."""
    return rng.permutation(np.reshape(array, -1)).reshape(np.shape(array))
