"""A model, and results that were saved of it or that its program computes."""

from __future__ import annotations

import contextlib
from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from polygraphy.application.diagnose.case import Case, Feed, Values
from polygraphy.application.diagnose.golden_files import (
    LazySubset,
    MatchedResults,
    SavedRun,
    convert_types,
    fit_results,
)
from polygraphy.application.diagnose.oracle import Oracle, TensorDifferences
from polygraphy.application.diagnose.parts import cut_part
from polygraphy.application.diagnose.tensor_trace import Trace, trace_tensors
from polygraphy.application.diagnose.wrong_nodes import cumulative_deviations
from polygraphy.domain.diagnosis.facts import Fact
from polygraphy.domain.diagnosis.words import evidence, reasons, steps, titles
from polygraphy.domain.errors import BackendError
from polygraphy.domain.model.graph import Graph, Node
from polygraphy.domain.model.regions import region_before
from polygraphy.domain.rounding import Deviation
from polygraphy.domain.tensors.naming import count_text, input_sets_text
from polygraphy.domain.tensors.precision import is_float
from polygraphy.ports.diagnosing import SuspectedParty

_OF_SEQUENCES = frozenset(
    {"SequenceConstruct", "SequenceErase", "SequenceInsert", "SequenceMap", "SplitToSequence"}
)
"""Operators that return a sequence, which is not compared."""


@frozen
class SavedComparison:
    """A model, its inputs, and the saved results that it should reproduce.

    Attributes:
        run: the run that created the results.
        feeds: the data.
        values: the outputs of the first backend for them.
        arbiter: the backend that computes the expected results.
        matched: the results by the names of the model.
        compared: the tensors that differ.
        dtypes: the types in which tensors before the outputs are computed.
        is_rejected: whether the backend rejects the model, so that only its nodes can be compared.
    """

    run: SavedRun
    feeds: Sequence[Feed]
    values: Sequence[Values]
    arbiter: SuspectedParty
    matched: MatchedResults
    compared: TensorDifferences
    dtypes: Mapping[str, Any]
    deviations: Mapping[int, Mapping[str, Deviation]]
    is_rejected: bool = False

    @property
    def number(self) -> int:
        """Return the number of the input set with the largest difference."""
        return self.compared.number

    @property
    def feed(self) -> Feed:
        """Return the input set with the largest difference."""
        return self.feeds[self.number]

    @property
    def saved_values(self) -> Values:
        """Return the saved results for that input set."""
        return self.matched.sets[self.number]

    @property
    def other_sets(self) -> list[tuple[Feed, Values]]:
        """Return all other input sets, with their saved results."""
        pairs = [*zip(self.feeds, self.matched.sets)]
        return [pair for at, pair in enumerate(pairs) if at != self.number]

    def is_explained_by(self, nodes: Collection[str], graph: Graph, number: int) -> bool:
        """Return whether these nodes explain each tensor that differs for an input set:
        it is a result of theirs, or is computed from one, with only tensors between them that
        differ // or are unknown."""
        differing = self.compared.sets[number]
        known = self.matched.sets[number].keys() | self.feeds[number].keys()
        regions = (region_before(graph, name, known - differing.keys()) for name in differing)
        return all(any(graph.nodes[at].label in nodes for at in region) for region in regions)

    def limit_to(self, number: int) -> SavedComparison:
        """Return the comparison without the differences of all other input sets."""
        sets = [one if at == number else {} for at, one in enumerate(self.compared.sets)]
        return evolve(self, compared=TensorDifferences(sets))

    @property
    def marked_outputs(self) -> Values:
        """Return the outputs that were computed together with the saved tensors; else none.
        They exist where the saved outputs come from a run of the unmodified model.
        """
        saved_marked = self.run.marked_outputs[self.number : self.number + 1]
        marked = saved_marked[0] if saved_marked else {}
        names = self.matched.renamed
        return {names.get(name, name): array for name, array in marked.items()}

    @property
    def output_dtypes(self) -> dict[str, str]:
        """Return the least precise type in the computation of each output that the file says."""
        names, dtypes = self.matched.renamed, self.run.dtypes
        return {names.get(name, name): dtype for name, dtype in dtypes.items()}

    @property
    def outputs(self) -> Values:
        """Return the outputs of the backend for that input set."""
        return self.values[self.number]

    @property
    def has_tensors(self) -> bool:
        """Return whether intermediate tensors are known or can be computed."""
        return bool(self.matched.inner) or self.run.is_traced

    def notes(self, names_run: bool) -> Iterator[str]:
        """Yield notes: the tensors compared, and the number that differ."""
        if names_run:
            yield f"{self.run.name}:"
        yield from self.matched.notes(len(self.compared.names))

    def tensors(self) -> Values:
        """Return the saved tensors of one session, in the data types in which the backend computes
        them."""
        saved = ChainMap(dict(self.marked_outputs), self.saved_values)  # type: ignore[arg-type]
        return _in_own_types(self.outputs, self.dtypes, saved)


def compare_saved(
    case: Case,
    run: SavedRun,
    feeds: Sequence[Feed],
    values: Sequence[Values],
    arbiter: SuspectedParty,
) -> SavedComparison:
    """Return the comparison of the first backend's outputs with saved results.

    Raises:
        UsageError: they are of other tensors than the model has.
    """
    fitted = fit_results(case.model, run.sets, values)
    oracle = Oracle(
        f"{run.kind}, {run.name}", fitted.sets, [*_describe_left_out(run, fitted, len(feeds))]
    )
    of_outputs = oracle.compare(case, values)
    dtypes: dict[str, Any] = {}
    deviations: dict[int, Mapping[str, Deviation]] = {}

    def compare_inner(number: int) -> dict[str, Deviation]:
        """Return the deviations of saved intermediate tensors that are beyond accumulated
        rounding, for one input set.
        """
        saved = fitted.sets[number]
        inner = fitted.inner & saved.keys()
        if not inner:
            return {}
        try:
            own_values = trace_tensors(case, case.parties[0], feeds[number]).values
        except BackendError as error:
            if getattr(error, "is_crash", False):
                raise
            # For example, TensorRT cannot build engines that return all tensors of int8 models.
            own_values = trace_tensors(case, arbiter, feeds[number]).values
            with case.record_step(titles.marked_tensors(case.parties[0].name)) as notes:
                notes.append(steps.cannot_return_tensors(error))
        dtypes.update((name, own_values[name].dtype) for name in own_values if name in inner)
        expected = _in_own_types(values[number], dtypes, saved)
        deviations[number] = cumulative_deviations(case, own_values, expected)
        wrong = {name for name, off in deviations[number].items() if off.is_wrong}
        # A tensor may be correct within the precision of the saved results.
        again = cumulative_deviations(
            case, own_values, LazySubset(inner & wrong, saved.__getitem__)
        )
        return {name: off for name, off in again.items() if off.is_wrong}

    inner = [compare_inner(number) for number in range(len(fitted.sets))]
    compared = TensorDifferences(
        [{**outputs, **tensors} for outputs, tensors in zip(of_outputs.sets, inner)]
    )
    case.record_comparison(oracle.name, oracle.left_out)
    return SavedComparison(run, feeds, values, arbiter, fitted, compared, dtypes, deviations)


@frozen
class OtherTypes:
    """The tensors that were saved in another data type than the model computes.

    Attributes:
        wrong: the first of them, with their deviations and computed values, where these are known.
        behind: the tensors computed from those, which cannot be judged.
        unread: all others of them.
    """

    wrong: Mapping[str, tuple[Deviation, Any]]
    behind: Collection[str]
    unread: Collection[str] = ()

    def describe_region(self, nodes: Iterable[Node]) -> Fact:
        """Return why no saved tensor tells the nodes of a region apart."""
        made = [(name, node.op) for node in nodes for name in node.makes]
        for name, op in made:
            if name in self.unread:
                return evidence.saved_in_other_type(name)
            if op in _OF_SEQUENCES:
                return evidence.made_sequence(name)
        return evidence.cannot_tell_apart()

    def judge(
        self, differing: Mapping[str, tuple[Deviation, Any]]
    ) -> dict[str, tuple[Deviation, Any]]:
        """Return the tensors that differ: these too, and not those behind them."""
        kept = {name: off for name, off in differing.items() if name not in self.behind}
        return {**kept, **self.wrong}


def compute_other_types(
    case: Case, comparison: SavedComparison, trace: Trace
) -> tuple[Trace, OtherTypes]:
    """Return the saved tensors without those that no node can read instead of its own input,
    because their data type is not the model's; and the wrong ones among these.

    Args:
        case: the model.
        comparison: the saved results.
        trace: the saved tensors.
    """
    model, values = case.model, trace.values
    makers = model.graph.producers
    others = {name for name in values if name in makers and not model.accepts(name, values[name])}
    others -= {*model.constants}
    if not others:
        return trace, OtherTypes({}, ())
    deviations = comparison.deviations.get(comparison.number, {})
    known = {*values, *trace.feed}
    regions = {name: region_before(model.graph, name, known) for name in values if name in makers}
    reads = {
        name: {read for index in region for read in model.nodes[index].reads}
        for name, region in regions.items()
    }
    wrong: dict[str, tuple[Deviation, Any]] = {}
    for name in others:
        if name in deviations and deviations[name].is_wrong and not others & reads[name]:
            part = cut_part(model, regions[name], trace.all_values, [name])
            with contextlib.suppress(BackendError, KeyError):
                computed = part.load_first((comparison.arbiter, case.parties[0]))(part.feed)
                wrong[name] = deviations[name], computed[name]
    unread = others - wrong.keys()
    kept = LazySubset((name for name in values if name not in unread), values.__getitem__)
    behind = {name for name in values if name in reads and wrong.keys() & reads[name]}
    return Trace(kept, trace.feed, trace.party), OtherTypes(wrong, behind, unread)


def _describe_left_out(run: SavedRun, fitted: MatchedResults, data: int) -> Iterator[str]:
    """Yield notes on results that were not compared."""
    sets = len(fitted.sets)
    if sets < data:
        yield reasons.fewer_results(run.name, str(sets), input_sets_text(data))
    if run.more:
        results = count_text(sets + run.more, "result")
        yield reasons.more_results(run.name, results, input_sets_text(data))
    yield from (f"{missing} in {run.name}" for missing in fitted.missing)


def _in_own_types(outputs: Values, dtypes: Mapping[str, Any], saved: Values) -> Values:
    """Return saved results in the data types of the computed tensors."""
    floats = {name: value.dtype for name, value in outputs.items() if is_float(value)}
    return convert_types({**floats, **dtypes}, saved)
