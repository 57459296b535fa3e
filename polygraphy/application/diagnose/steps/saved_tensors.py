"""Step: each node is computed from saved results, which says which nodes do not give them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
from attrs import evolve

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.changes import region_changes
from polygraphy.application.diagnose.changes.body_search import find_body_changes
from polygraphy.application.diagnose.changes.change_search import (
    ChangeSearch,
    OtherTensor,
    usual_variants,
)
from polygraphy.application.diagnose.changes.changed_models import load_changed_models
from polygraphy.application.diagnose.changes.code_numbers import (
    find_code_numbers,
    find_shared_number,
    is_code_number,
)
from polygraphy.application.diagnose.changes.integer_search import find_integers
from polygraphy.application.diagnose.changes.unread_inputs import find_unread_inputs
from polygraphy.application.diagnose.changes.weight_search import (
    find_fitted_weights,
    find_lost_inputs,
)
from polygraphy.application.diagnose.comparisons.model_pair import matches_reference
from polygraphy.application.diagnose.comparisons.reproduced_tensors import (
    explain_reproduced_tensors,
)
from polygraphy.application.diagnose.comparisons.saved_comparison import (
    OtherTypes,
    SavedComparison,
    compute_other_types,
)
from polygraphy.application.diagnose.comparisons.saved_precision import (
    bias_rounding,
    quantized_regions,
    tf32_tensors,
)
from polygraphy.application.diagnose.golden_files import LazySubset
from polygraphy.application.diagnose.outcome import Found, Skip, StepOutcome, Unexplained
from polygraphy.application.diagnose.parts import cut_part
from polygraphy.application.diagnose.rounding import accepted_dtype
from polygraphy.application.diagnose.steps.saved_outputs import (
    describe_order,
    explain_all_sets,
    find_first_nan,
    settle_differences,
)
from polygraphy.application.diagnose.tensor_trace import Trace
from polygraphy.application.diagnose.wrong_nodes import (
    compare_isolated_nodes,
    describe_first_error,
)
from polygraphy.domain.catalog.precisions import HALF
from polygraphy.domain.diagnosis.closeness import is_related
from polygraphy.domain.diagnosis.commands import cast_words
from polygraphy.domain.diagnosis.culprit import (
    AGREE,
    FAULT,
    INCONCLUSIVE,
    MODEL,
    Culprit,
    DiagnosisResult,
    Remedy,
    with_nan,
)
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.solving.likely_cause import guess_cause
from polygraphy.domain.diagnosis.solving.sizes import resize_variants
from polygraphy.domain.diagnosis.variants import CLOSE, Variant, matches_expected, variants
from polygraphy.domain.diagnosis.words import (
    changes,
    evidence,
    precision,
    quantization,
    reasons,
    remedies,
    steps,
    titles,
)
from polygraphy.domain.errors import BackendError, PolygraphyException
from polygraphy.domain.model.graph import Graph
from polygraphy.domain.model.regions import nodes_after_inputs, region_before
from polygraphy.domain.rounding import Deviation
from polygraphy.domain.search.run_budget import RunBudget
from polygraphy.domain.tensors.facts import compute_dtype
from polygraphy.domain.tensors.precision import (
    epsilon_of,
    is_float,
    is_float_code,
    limits_of,
    precision_of,
)
from polygraphy.ports.diagnosing import SuspectedParty

_STEPS = 8
"""Epsilons by which rounding changes a saved tensor at most. Chosen, not measured."""
_ROUNDINGS = 4
"""Epsilons of the type in which results were saved by which a changed node may differ. Chosen, not
measured."""
_TF32 = 3e-3
"""The same as a share of the RMS, if the saved products were computed in TF32. Chosen, not
measured."""
_IMPROVED = 5
"""A change is told from rounding if the node's error is this multiple of what remains. Chosen, not
measured."""
_INSIDE = 12
"""Most nodes that are tried with other operators where the tensors between them are not known."""


def explain_by_tensors(case: Case, comparison: SavedComparison) -> StepOutcome:
    """Return the nodes that do not reproduce saved tensors from saved inputs, or the node that
    creates NaN."""
    broken = find_first_nan(case, comparison)
    answer = explain_all_sets(case, comparison, lambda *run: _SavedTensors(*run).result())
    if broken is None:
        return answer
    culprits = answer.result.culprits if isinstance(answer, Found) else []
    return Found(DiagnosisResult(FAULT, with_nan(broken, culprits)), case)


def explain_by_whole_outputs(case: Case, comparison: SavedComparison) -> StepOutcome:
    """Return the nodes that do not reproduce saved outputs, if there are outputs of each node."""
    answer = explain_by_tensors(case, comparison)
    if isinstance(answer, Found) and answer.result.verdict != AGREE:
        return answer
    return Skip("each node reproduces the saved outputs")


class _SavedTensors:
    """The nodes of a model, each run on saved inputs."""

    def __init__(self, case: Case, comparison: SavedComparison) -> None:
        """Set the model and its saved tensors."""
        self._case = case
        self._comparison = comparison
        self._run = comparison.run
        self._third = comparison.arbiter
        self._party: SuspectedParty = case.parties[0]
        self._lost: Values = {}
        self._tf32: set[str] = set()
        self._other_types = OtherTypes({}, ())
        self._tied: Mapping[str, str] = {}
        self._changed: dict[str, list[Variant]] = {}
        self._computed: list[str] = []
        self._wrong: set[str] = set()
        self._changes: dict[str, tuple[Variant | None, Variant | None]] = {}
        self._overflows: dict[str, str] = {}
        # Quantized tensors show the rounding of the model, not the precision of the backend that
        # saved the results.
        floats = [
            array.dtype
            for array in comparison.saved_values.values()
            if is_float(array) and not is_float_code(array)
        ]
        self._coarse = max(map(epsilon_of, floats), default=0.0)

    def result(self) -> StepOutcome:
        """Return the nodes at which results diverge, from running every node on saved values."""
        case, model, comparison = self._case, self._case.model, self._comparison
        feed, saved = comparison.feed, comparison.tensors()
        order = model.graph.producers
        values = LazySubset((name for name in saved if name in order), saved.__getitem__)
        saved_trace = Trace(values, feed, self._third)
        trace, self._other_types = compute_other_types(case, comparison, saved_trace)
        self._lost = LazySubset((name for name in saved if name not in order), saved.__getitem__)
        if not comparison.is_rejected:
            with case.record_step(titles.LAYER_BY_LAYER) as notes:
                deviations = comparison.deviations.get(comparison.number)
                first = describe_first_error(case, self._party, saved_trace, deviations)
                notes.append(
                    steps.NO_DIFFERENCE if first is None else steps.first_difference(first)
                )
        differing = self._find_wrong_tensors(trace)
        self._wrong = {*(differing or ())}
        if differing is None:
            return Unexplained(reasons.NO_NODES)
        quantized = quantized_regions(case, comparison, differing)
        if quantized and differing.keys() <= quantized.keys():
            pair = comparison.values, comparison.matched.sets
            accepted = accepted_dtype(case, comparison.feeds, [pair])
            reason = quantization.saved_without(accepted, len(quantized))
            return Found(DiagnosisResult(INCONCLUSIVE, reason=reason), case)
        regions: dict[str, list[int]] = {}
        for name in (name for name in differing if name not in quantized):
            region = region_before(model.graph, name, trace.values.keys() | feed.keys())
            if region not in regions.values():  # A node with several results is one culprit.
                regions[name] = region
        if not regions:
            return explain_reproduced_tensors(case, comparison, self._tf32, self._tied)
        side = model.graph
        culprits, shared = [], self._find_shared_weights(regions, differing, side, trace)
        read_together = {name for names in shared for name in names[1:]}
        for name, region in regions.items():
            if name in read_together:
                continue
            culprit = self._describe_culprit(name, region, differing[name], side, trace)
            for names, weight in shared.items():
                if names[0] == name:
                    culprit = self._blame_shared_weight(culprit, names, weight, side)
            culprits.append(culprit)
        entering = [
            culprit for culprit, region in zip(culprits, regions.values())
            if any(set(model.nodes[index].reads) & feed.keys() for index in region)
        ]  # fmt: skip
        is_entry = (
            not self._run.is_traced
            and len(entering) == len(culprits)
            and not any(x.remedy.proven for x in culprits)
        )
        if is_entry and self._is_other_data(trace, regions, differing, feed):
            return Found(self._blame_data(culprits), case)
        if self._overflows:
            words = cast_words(next(iter(self._overflows.values())), [*self._overflows])
            remedy = Remedy(note=remedies.convert_again(words))
            culprits = [
                evolve(culprit, remedy=remedy) if culprit.cause == "overflow" else culprit
                for culprit in culprits
            ]
        if len(self._changed) == len(culprits):
            changed = [*chain(*self._changed.values())]
            remedy = case.undo_changes(side, changed)
            if not self._gives_saved_outputs(remedy.command):
                note = remedies.undo([variant.change for variant in changed])
                remedy = Remedy(None, False, note)
            culprits = [evolve(culprit, remedy=remedy) for culprit in culprits]
        return Found(DiagnosisResult(FAULT, culprits), case)

    def _gives_saved_outputs(self, command: str | None) -> bool:
        """Return whether the model computes all saved outputs, of all input sets,
        without the changes that explain its nodes: a change that hides behind another is then
        still there.

        Args:
            command: the command that undoes the changes, if any.
        """
        case, comparison = self._case, self._comparison
        # The rounding of nodes, of the model and of what was saved, adds up.
        types = (compute_dtype(case.facts, name) for name in case.model.outputs)
        computed = (precision_of(dtype) for dtype in types if dtype is not None)
        epsilon = max((known.epsilon for known in computed if known is not None), default=0.0)
        rounded = _ROUNDINGS * max(self._coarse, epsilon)
        limit = max(CLOSE, _IMPROVED * max(rounded, _TF32 if self._tf32 else 0.0))
        names, changed = {*case.model.outputs}, [*chain(*self._changed.values())]
        sets = zip(comparison.feeds, comparison.matched.sets)
        try:
            return all(
                matches_reference(
                    case, compute, feed, LazySubset(names & saved.keys(), saved.__getitem__), limit
                )
                for compute, feed, saved in load_changed_models(case, changed, self._party, sets)
            )
        except PolygraphyException:  # The model lacks a node, so that no command restores it.
            return not command

    def _find_wrong_tensors(self, trace: Trace) -> dict[str, tuple[Deviation, Any]] | None:
        """Return, by name, deviation and computed value of tensors that no backend reproduces.
        The tensors are computed from saved values. The result is None if no node can be run in
        isolation.
        """
        case = self._case
        with case.record_step(titles.NODE_BY_NODE) as notes:
            wrong: list[dict[str, tuple[Deviation, Any]]] = []
            self._computed = []
            for party in dict.fromkeys((self._third, self._party)):
                try:
                    isolated = compare_isolated_nodes(case, case.model, party, trace)
                except BackendError as error:
                    notes.append(steps.cannot_run_nodes(party.name, error))
                    continue
                case.keep_errors(party.name, "isolated", isolated.compared)
                self._computed.append(party.name)
                relevant = {
                    name: (deviation, isolated.values[name])
                    for name, deviation in isolated.wrong
                    if _is_relevant(deviation, self._rounding(name, trace))
                    and not deviation.largest <= bias_rounding(case.model.graph, name)
                }
                if relevant:
                    values = {name: value for name, (_, value) in relevant.items()}
                    rounded = tf32_tensors(
                        case, trace, values, isolated.compared, self._comparison.output_dtypes
                    )
                    self._tf32 |= rounded
                    relevant = {name: off for name, off in relevant.items() if name not in rounded}
                wrong.append(relevant)
            if not wrong:
                return None
            # A difference in only one of two backends is not a fault of the model.
            differing = {
                name: new_pair
                for name, new_pair in wrong[0].items()
                if all(name in difference for difference in wrong)
            }
            differing = self._other_types.judge(differing)
            notes.append(steps.wrong_tensors(len(differing), self._run.is_traced))
        differing, self._tied = settle_differences(case, self._comparison, differing, trace)
        return differing

    def _rounding(self, name: str, trace: Trace) -> float:
        """Return the rounding limit of a tensor saved in a less precise type, of an output with a
        final cast, or of a tensor computed from inputs that the model has in a less precise type.
        """
        nodes, dtypes = self._case.model.nodes, self._comparison.dtypes
        region = region_before(
            self._case.model.graph, name, trace.values.keys() | trace.feed.keys()
        )
        types = {dtypes[name] for index in region for name in nodes[index].reads if name in dtypes}
        epsilon = self._case.epsilon(name) if name in self._case.model.outputs else None
        return _STEPS * max(epsilon or 0.0, self._coarse, *map(epsilon_of, types))

    def _describe_culprit(
        self,
        name: str,
        region: Sequence[int],
        wrong: tuple[Deviation, Any],
        side: Graph,
        trace: Trace,
    ) -> Culprit:
        """Return the culprit for nodes that do not reproduce saved tensors."""
        nodes = self._case.model.nodes
        fed = nodes_after_inputs(self._case.model.graph, trace.feed)
        computing = [index for index in region if index in fed]
        computing = computing or [i for i in region if nodes[i].op != "Constant"] or [*region]
        source = "program" if self._run.is_traced else "saved"
        facts = [evidence.wrong_from_saved(name, wrong[0], source, [*self._computed])]
        if turned := self._find_inverted_condition(name, trace):
            facts.append(evidence.other_branch(turned, source))
            remedy = Remedy(None, True, remedies.invert_condition(turned))
            return Culprit([turned], name, MODEL, "structure", facts=facts, remedy=remedy, op="If")
        cause, proven, note = "changed", False, ""
        index = region[-1]
        if len(computing) == 1 and (loss := self._overflow(name, wrong[1], trace)) is not None:
            op, label = nodes[computing[0]].operator, nodes[computing[0]].label
            facts.append(precision.half_precision_loss(loss))
            self._overflows[label] = HALF[loss.values["dtype"]]
            return Culprit([label], name, MODEL, "overflow", facts=facts, op=op)
        if index in side.operations and len(computing) == 1:
            variant, weight = self._find_change(name, region, side, trace, wrong[1])
            if variant is not None:
                cause, change, proven = variant.cause, variant.change, True
                note = remedies.undo([change])
                self._changed[name] = [variant]
            elif weight is not None:
                cause, change, note = weight.cause, weight.change, remedies.PASS_REFERENCE
            else:
                cause, change = guess_cause(side, index, wrong[1], trace.values[name])
                if not self._run.is_traced:
                    note = remedies.PASS_REFERENCE
            facts += describe_order(side, index, trace, name, wrong[1], proven)
            facts.append(evidence.change_of_node(change))
            if proven:
                facts.append(evidence.undone_gives_expected(source=source))
        else:
            variant, culprit = self._find_changed_node(name, computing, region, side, trace)
            if variant is not None and culprit is not None:
                cause, proven, note = variant.cause, True, remedies.undo([variant.change])
                proof = evidence.undone_gives_expected(len(computing), source)
                facts += [evidence.change_of_node(variant.change), proof]
                computing = [culprit]
            elif not self._run.is_traced:
                facts.append(self._other_types.describe_region(nodes[at] for at in region))
        return Culprit(
            [nodes[index].label for index in computing],
            name,
            MODEL,
            cause,
            facts=facts,
            remedy=Remedy(None, proven, note),
            op=nodes[computing[-1]].operator if len(computing) == 1 else "",
        )

    def _find_shared_weights(
        self,
        regions: Mapping[str, Sequence[int]],
        differing: Mapping[str, tuple[Deviation, Any]],
        side: Graph,
        trace: Trace,
    ) -> dict[tuple[str, ...], Variant]:
        """Return the weights with which several nodes that read them compute their saved tensors,
        by these tensors, so that one wrong weight is one culprit. Beside a program, its own
        weights show that."""
        if self._run.is_traced:
            return {}
        readers: dict[str, list[str]] = {}
        for name, region in regions.items():
            operations = [index for index in region if index in side.operations]
            read = {operand for index in operations for operand in side.nodes[index].inputs}
            for weight in read & side.constants.keys():
                readers.setdefault(weight, []).append(name)
        shared: dict[tuple[str, ...], Variant] = {}
        for weight, reading in sorted(readers.items()):
            names = [
                name for name in reading if not any(name in shared_names for shared_names in shared)
            ]
            if len(names) > 1 and (
                number := self._find_shared_number(weight, names, regions, side, trace)
            ):
                shared[tuple(names)] = number
                continue
            for name in names if len(names) > 1 else ():
                changes = self._find_change(name, regions[name], side, trace, differing[name][1])
                solved = next((x for x in changes if x is not None), None)
                if solved is None or solved.weights.keys() != {weight}:
                    continue
                together = [
                    other_name
                    for other_name in names
                    if other_name == name
                    or self._is_explained(
                        other_name,
                        regions[other_name],
                        side,
                        trace,
                        differing[other_name][1],
                        solved,
                    )
                ]
                if len(together) > 1:
                    shared[tuple(together)] = solved
                    break
        return shared

    def _find_shared_number(
        self,
        weight: str,
        names: Sequence[str],
        regions: Mapping[str, Sequence[int]],
        side: Graph,
        trace: Trace,
    ) -> Variant | None:
        """Return the variant with the scale or zero point with which all nodes that read it compute
        their saved tensors; None if there is none."""
        readers = {name: regions[name][-1] for name in names}
        if not all(is_code_number(side, index, weight) for index in readers.values()):
            return None
        searches = [
            (self._search_in(name, regions[name], side, trace), index)
            for name, index in readers.items()
        ]
        return find_shared_number([(s, i) for s, i in searches if s is not None], weight)

    def _is_explained(
        self,
        name: str,
        region: Sequence[int],
        side: Graph,
        trace: Trace,
        output: Any,
        solved: Variant,
    ) -> bool:
        """Return whether another node's solved weight explains the saved tensor of a node."""
        [weight] = solved.weights
        reader = next(
            index
            for index in region
            if index in side.operations and weight in side.nodes[index].inputs
        )
        variant = evolve(solved, node=side.nodes[reader])
        for share in self._shares(output, trace.values[name]):
            search = self._search_in(name, region, side, trace, share)
            if search is not None and any(search.select_matching([variant])):
                return True
        return False

    def _blame_shared_weight(
        self, culprit: Culprit, names: Sequence[str], weight: Variant, side: Graph
    ) -> Culprit:
        """Return the culprit of several nodes that read one wrong weight."""
        makers = [side.operation_producers[name] for name in names]
        if is_code_number(side, makers[0], next(iter(weight.weights))):
            self._changed[names[0]] = [evolve(weight, node=side.nodes[index]) for index in makers]
        facts = [fact for fact in culprit.facts if fact.kind == "wrong_from_saved"]
        change = weight.change
        if "op" in change.values:  # The nodes may have different operators.
            change = changes.other_weight(**{**change.values, "op": ""})
        facts.append(evidence.change_of_node(change))
        facts.append(evidence.undone_gives_expected(len(names)))
        return evolve(
            culprit,
            nodes=[self._case.model.nodes[index].label for index in makers],
            cause=weight.cause,
            facts=facts,
            remedy=Remedy(None, False, remedies.PASS_REFERENCE),
            op="",
        )

    def _find_change(
        self, name: str, region: Sequence[int], side: Graph, trace: Trace, output: Any
    ) -> tuple[Variant | None, Variant | None]:
        """Return the change that explains a saved tensor; see `_search_change`."""
        if name not in self._changes:
            self._changes[name] = self._search_change(name, region, side, trace, output)
        return self._changes[name]

    def _search_change(
        self, name: str, region: Sequence[int], side: Graph, trace: Trace, output: Any
    ) -> tuple[Variant | None, Variant | None]:
        """Return the changed node's variant that explains a saved tensor, else its solved weight.
        A weight that would also fit noise proves nothing, so that all other explanations within the
        rounding of the tensor come first.
        """
        index, goal, fallback = region[-1], trace.values[name], None
        for share in self._shares(output, goal):
            search = self._search_in(name, region, side, trace, share)
            if search is None or search.is_right:  # Then no change proves anything.
                break
            numbers = find_code_numbers(search, index, self._wrong)
            variant = next(numbers, None) or self._find_variant(search, index, output, goal)
            if variant is not None:
                return variant, None
            solved: Iterable[Variant] = chain(
                find_lost_inputs(search, index, output, goal),
                search.find_weights(index, output, goal),
                find_integers(search, index),
            )
            for weight in solved:
                if not search.fits_noise(index, output, name, weight):
                    return None, weight
                fallback = fallback or weight
            fitted = find_fitted_weights(search, index, output, goal)
            if fallback is None and (other_variant := next(fitted, None)) is not None:
                return None, other_variant
        return None, fallback

    def _shares(self, output: Any, goal: Any) -> Iterator[float]:
        """Yield tolerances for a changed node, as shares of the RMS of the saved tensor:
        first the usual one, then a larger one if the tensor was rounded and the node differs
        much more."""
        rounded = _ROUNDINGS * self._coarse
        if rounded < CLOSE:
            yield CLOSE
            rounded = _TF32
        # Judge by the largest difference, as `matches_expected` does, because only one channel may
        # be incorrect.
        if not matches_expected(output, goal, _IMPROVED * rounded):
            yield rounded

    def _find_changed_node(
        self, name: str, computing: Sequence[int], region: Sequence[int], side: Graph, trace: Trace
    ) -> tuple[Variant | None, int | None]:
        """Return the variant and the position of the changed node that explains the result.

        Both are None if there is none, or several in a file of saved results.
        """
        search = self._search_in(name, region, side, trace)
        if search is None or len(computing) > _INSIDE:
            return None, None
        most = 1 if self._run.is_traced else 2
        found = [*islice(region_changes.find_region_changes(search, computing), most)]
        if not found and not self._run.is_traced:
            tensors = self._candidates()
            found = [*islice(region_changes.find_rarer_changes(search, computing, tensors), 2)]
        if len(found) != 1:
            return None, None
        [(number, variant)] = found
        if variant.weights or variant.node not in side.nodes:  # A factor is only described.
            self._changed[name] = [variant]
        return variant, number

    def _overflow(self, name: str, output: Any, trace: Trace) -> Fact | None:
        """Return the fact that a saved half-precision tensor overflows: it is infinite in elements
        that are finite when recomputed, while all other elements match; None if that is not the
        case."""
        expected = trace.values[name]
        dtype = np.asarray(expected).dtype
        if dtype.name not in HALF or np.shape(output) != np.shape(expected):
            return None
        goal, computed = (np.asarray(value, np.float32) for value in (expected, output))
        finite = np.isfinite(goal)
        is_lost = np.any(np.isfinite(computed) & ~finite)
        limits = _ROUNDINGS * epsilon_of(dtype)
        if not is_lost or not np.allclose(computed[finite], goal[finite], limits, limits):
            return None
        op = self._case.model.nodes[self._case.model.graph.producers[name]].operator
        return precision.intermediate_too_large(op, name, dtype.name, limits_of(dtype)[0])

    def _find_inverted_condition(self, name: str, trace: Trace) -> str:
        """Return the If whose inverted condition reproduces the saved tensor.
        The result is empty if there is none.
        """
        open_model, values = self._case.whole, trace.all_values
        index = open_model.graph.producers.get(name)
        if index is None or open_model.nodes[index].operator != "If":
            return ""
        condition = open_model.nodes[index].reads[0]
        if condition not in values:
            return ""
        try:
            part = cut_part(open_model, [index], values, [name])
            feed = {**part.feed, condition: np.logical_not(values[condition])}
            value = part.load_first((self._third, self._party))(feed)[name]
        except (PolygraphyException, KeyError):  # The inputs of the other branch were not saved.
            return ""
        return open_model.nodes[index].label if matches_expected(value, trace.values[name]) else ""

    def _search_in(
        self, name: str, region: Sequence[int], side: Graph, trace: Trace, share: float = CLOSE
    ) -> ChangeSearch | None:
        """Return the search among the nodes that compute a tensor from saved ones, or None.
        The result is None if they read an unknown tensor."""
        try:
            names = self._outputs_beside(name, region, trace)
            part = cut_part(self._case.model, region, trace.all_values, names)
        except PolygraphyException:
            return None
        runners = tuple(dict.fromkeys((self._third, self._party)))
        goals = {goal_name: trace.values[goal_name] for goal_name in names}
        budget = RunBudget.for_part(np.asarray(goals[name]).nbytes, len(region))
        return ChangeSearch(side, part, goals, runners, budget, limit=self._case.resident_limit,
            share=share, trial_limits=self._case.trial_limits(sum(trace.sizes().values())),
        )  # fmt: skip

    def _outputs_beside(self, name: str, region: Sequence[int], trace: Trace) -> list[str]:
        """Return a tensor and the other incorrect saved outputs of its node,
        because an explanation must cover all."""
        other_names = [
            other_name
            for other_name in self._case.model.nodes[region[-1]].makes
            if other_name != name
            and other_name in trace.values
            and is_float(trace.values[other_name])
        ]
        goal, others = trace.values[name], {key: trace.values[key] for key in other_names}
        new = {key: value for key, value in others.items() if not np.isin(value, goal).all()}
        return [name, *(key for key, value in new.items() if np.isfinite(value).all())]

    def _find_variant(
        self, search: ChangeSearch, index: int, output: Any, goal: Any
    ) -> Variant | None:
        """Return the variant of a node that reproduces the saved tensor; None if there is none.

        Args:
            search: tries the variants.
            index: the node.
            output: its outputs.
            goal: the saved tensor.
        """
        first = np.shape(search.part.feed.get(next(iter(search.graph.nodes[index].inputs), ""), 0))
        tried = variants(search.graph, index)
        if not self._run.is_traced:
            # A size may be a constant from the example input of the exporter.
            sizes = {name: np.shape(array) for name, array in search.goals.items()}
            sized = resize_variants(
                search.graph, index, first, np.shape(output), np.shape(goal), sizes
            )
            tried = chain(sized, usual_variants(search.graph, index))
        variant = chain(
            search.select_matching(tried),
            find_unread_inputs(search, index, self._candidates()),
            search.find_numbers(index),
            search.find_inputs(
                index, self._candidates(), search.part.feed, includes_constants=True
            ),
            find_body_changes(search, index),
        )
        return next(variant, None)

    def _candidates(self) -> Iterator[OtherTensor]:
        """Yield the saved tensors and the inputs of the model, which a node may have read."""
        saved, makers = self._comparison.tensors(), self._case.model.graph.producers
        for name in saved:
            yield OtherTensor(name, saved[name], name in makers)
        for name, value in self._comparison.feed.items():
            if name not in saved:
                yield OtherTensor(name, value)

    def _is_other_data(
        self,
        trace: Trace,
        regions: Mapping[str, Sequence[int]],
        wrong: Mapping[str, tuple[Deviation, Any]],
        feed: Feed,
    ) -> bool:
        """Return whether all nodes that read inputs differ everywhere, so that the data differ
        rather than a node."""
        nodes = self._case.model.nodes
        readers = {i for i, node in enumerate(nodes) if set(node.reads) & feed.keys()}
        differing = {index for region in regions.values() for index in region}
        if readers - differing:
            return False
        return all(not is_related(value, trace.values[name]) for name, (_, value) in wrong.items())

    def _blame_data(self, culprits: Sequence[Culprit]) -> DiagnosisResult:
        """Return the verdict that only nodes that read the inputs disagree,
        so that the data may differ."""
        names = [name for culprit in culprits[:4] for name in culprit.nodes[-1:]]
        return DiagnosisResult(INCONCLUSIVE, culprits, reason=reasons.other_data(names))


def _is_relevant(deviation: Deviation, rounding: float) -> bool:
    """Return whether a deviation exceeds rounding."""
    return deviation.relative > max(1e-5, rounding) or not np.isfinite(deviation.relative)
